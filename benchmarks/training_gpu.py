"""Every stage of training on one GPU that is lent for minutes: given again, it goes on where it stopped.

    python benchmarks/training_gpu.py --folder DIR --model DIR --tasks SPEC --held-out SPEC [--budget SECONDS]
        [--held-out-tasks 50] [--samples 4] [--recipe lent_gpu] [--set FIGURE=VALUE] [--device auto] [--judge local]
        [--single-turn] [--no-measure] [--out FILE]

The model plays, learns from what it passed, its critic from all that it played, both by PPO; before and behind each
its pass rate on held-out tasks is taken, with 95 % intervals from drawing tasks again. A task of both sets is not
trained on. Between calls DIR has to be kept, without any `start` below it. Exit status 0 once the chain has ended,
75 where there is more to do.
"""

import argparse
import random
import sys
from pathlib import Path

from common import RESULTS, save

from warpsmith.cli.train_inputs import judge_spec, model_folder, read_recipe, read_tasks
from warpsmith.recipes.training import Chain, Turns, turns_report
from warpsmith.training.budget import Budget
from warpsmith.training.player import Mode

MORE_TO_DO = 75
SEED = 0


def main() -> int:
    """Goes on with the chain; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--tasks", action="append", required=True)
    parser.add_argument("--held-out", action="append", required=True)
    parser.add_argument("--budget", type=float)
    parser.add_argument("--held-out-tasks", type=int, default=50)
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--recipe", default="lent_gpu")
    parser.add_argument("--set", action="append", dest="changes")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--judge", default="local")
    parser.add_argument("--single-turn", action="store_true")
    parser.add_argument("--no-measure", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS / "training_gpu.json")
    args = parser.parse_args()
    budget = Budget.of(args.budget)
    spec = judge_spec(args.judge, args.device, "practical", measure=not args.no_measure)
    held_out = read_tasks(args.held_out, spec)
    chosen = random.Random(SEED).sample(held_out, min(args.held_out_tasks, len(held_out)))
    known = {task.task_hash for task in held_out}
    chain = Chain(
        model=model_folder(args.model),
        tasks=tuple(task for task in read_tasks(args.tasks, spec) if task.task_hash not in known),
        held_out=tuple(chosen),
        judge=spec,
        recipe=read_recipe(args.recipe, args.changes),
        mode=Mode.SINGLE_TURN if args.single_turn else Mode.AGENT,
        samples=args.samples,
    )
    turns = Turns(args.folder.absolute(), chain, budget)
    ended = turns.run()
    told = {name: result.model_dump(mode="json") for name, result in turns.results.items()}
    save(args.out, ended=ended, recipe=chain.recipe.model_dump(mode="json"), stages=told)
    print(turns_report(args.folder.absolute(), turns.results))
    return 0 if ended else MORE_TO_DO


if __name__ == "__main__":
    sys.exit(main())
