"""`warpsmith synth crawl|compose|filter`: from operator libraries to tasks that have passed the gates."""

import contextlib
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsmith.cli.agent_options import EndpointOption
from warpsmith.cli.errors import PASSED, guarded
from warpsmith.cli.options import DebugOption, DeviceOption, JsonOption
from warpsmith.errors import UsageError

if TYPE_CHECKING:
    from warpsmith.synthesis.llm_composer import LLMComposer
    from warpsmith.synthesis.mixes import Mix
    from warpsmith.synthesis.records import Catalogue, ComposedTask

_CRAWL, _COMPOSE = "write one with: warpsmith synth crawl", "write it with: warpsmith synth compose"
LLM_TRIES = 4
"""Questions for a task that is wanted: most of a small model's answers are none."""
CatalogueOption = Annotated[
    Path, typer.Option("--catalogue", metavar="FILE.json", help="What `synth crawl` wrote.")
]
TasksArgument = Annotated[
    list[Path], typer.Argument(metavar="TASKS.jsonl…", help="What `synth compose` or `synth from` wrote.")
]


@guarded
def crawl(
    out: Annotated[Path, typer.Option("--out", metavar="FILE.json", help="The catalogue.")] = Path(
        "catalogue.json"
    ),
    with_transformers: Annotated[
        bool,
        typer.Option("--transformers", help="Also classes of the installed transformers that stand alone."),
    ] = False,
    with_timm: Annotated[
        bool, typer.Option("--timm", help="Also layers of the installed timm that stand alone.")
    ] = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> int:
    """Find the operators of the installed torch, and of the model libraries that are named."""
    from warpsmith.cli import wiring
    from warpsmith.cli.progress import reporter
    from warpsmith.store import write_atomic

    wiring.require_judge_extra()
    with contextlib.redirect_stdout(sys.stderr), reporter() as progress:
        from warpsmith.synthesis.crawl_torch import crawl_torch

        progress.phase("crawl", "torch")
        catalogue = crawl_torch(progress.note)
        from warpsmith.synthesis.crawl_library import TIMM, TRANSFORMERS, crawl_installed

        for library, wanted in ((TRANSFORMERS, with_transformers), (TIMM, with_timm)):
            if wanted:
                progress.phase("crawl", library.name)
                catalogue = crawl_installed(library).added_to(catalogue)
    write_atomic(out, catalogue.model_dump_json())
    names = {op.name for op in catalogue.operators}
    said = {"operators": len(names), "templates": len(catalogue.operators), "omitted": len(catalogue.omitted)}
    if as_json:
        print(json.dumps({**said, "families": catalogue.counts, "libraries": catalogue.libraries}))
    else:
        families = ", ".join(f"{count} {name}" for name, count in catalogue.counts.items())
        print(f"{len(names)} operators in {said['templates']} templates ({families})")
        print(f"{said['omitted']} names left out, each with its reason: {out}")
    return PASSED


@guarded
def compose(
    out: Annotated[Path, typer.Option("--out", metavar="TASKS.jsonl", help="Goes on from what is there.")],
    count: Annotated[int, typer.Option("--count", min=1, help="Tasks that the file is to hold.")] = 100,
    catalogue: CatalogueOption = Path("catalogue.json"),
    mix: Annotated[
        str, typer.Option("--mix", metavar="NAME|FILE.toml", help="paper, graded, or your own.")
    ] = "paper",
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same bytes.")] = 0,
    model: Annotated[
        str | None, typer.Option("--model", metavar="BACKEND:NAME", help="Let a language model write them.")
    ] = None,
    endpoint: EndpointOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> int:
    """Stack operators into tasks whose estimated time suits the mix's GPU."""
    from warpsmith.cli import wiring
    from warpsmith.cli.progress import reporter
    from warpsmith.synthesis.mixes import load_mix

    chosen, known = load_mix(mix), read_catalogue(catalogue)
    wiring.require_judge_extra()
    with contextlib.redirect_stdout(sys.stderr), reporter() as progress:
        import torch

        from warpsmith.synthesis.blocks import BlockComposer
        from warpsmith.synthesis.composing import ComposeLog, compose_set
        from warpsmith.synthesis.grammar import GrammarComposer
        from warpsmith.synthesis.records import Origin

        torch.set_num_threads(1)
        blocks = BlockComposer(known.operators, chosen, seed)
        of_blocks = min(round(count * chosen.blocks), len(blocks))
        progress.phase("compose", f"{count} tasks of {chosen.name}")
        with ComposeLog(out) as log:

            def told(task: "ComposedTask") -> None:
                held = len(log.rows())
                if held % 25 == 0 or held == count:
                    progress.phase("compose", f"{held} of {count}")

            if model is not None:
                written = compose_set(_llm_composer(model, endpoint, known, chosen, seed), log, count,
                                      origin=Origin.LLM, last=LLM_TRIES * count, told=told)  # fmt: skip
                parts = {"written": written}
            else:
                standing = compose_set(
                    blocks, log, of_blocks, origin=Origin.BLOCK, last=len(blocks), told=told
                )
                stacked = compose_set(GrammarComposer(known, chosen, seed), log, count - of_blocks, told=told)
                parts = {"stacked": stacked, "blocks": standing}
            held = len(log.rows())
    if as_json:
        print(json.dumps({"held": held, **{name: part.model_dump() for name, part in parts.items()}}))
    else:
        new, repeated = sum(p.composed for p in parts.values()), sum(p.repeated for p in parts.values())
        print(f"{held} tasks in {out}, {new} of them new; {repeated} repeated a structure and "
              f"{sum(p.not_found for p in parts.values())} were not found")  # fmt: skip
    return PASSED


@guarded
def filter_(
    tasks: TasksArgument,
    log: Annotated[
        Path, typer.Option("--log", metavar="FILE.jsonl", help="One row a task; goes on from there.")
    ] = Path("filter.jsonl"),
    device: DeviceOption = "auto",
    budget_s: Annotated[
        float | None,
        typer.Option("--budget-s", min=1.0, help="Stop after so many seconds; call again to go on."),
    ] = None,
    workers: Annotated[
        int, typer.Option("--workers", min=1, help="Processes that check tasks, over all visible GPUs.")
    ] = 1,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> int:
    """Take tasks through the gates: at small sizes on the CPU, at full size and timed on a GPU."""
    from warpsmith.cli import wiring
    from warpsmith.cli.progress import reporter
    from warpsmith.synthesis.filtering import FilterLog, filter_tasks, funnel
    from warpsmith.types import Device

    begun = time.monotonic()
    found = read_tasks(tasks)
    chosen = wiring.device(device)
    wiring.require_judge_extra()
    with contextlib.redirect_stdout(sys.stderr), reporter() as progress, FilterLog(log) as rows:
        if chosen is Device.CUDA:
            found = [task for task in found if not ((row := rows.find(task, Device.SIM)) and row.rejects)]
        progress.phase("filter", f"{len(found)} tasks on {chosen}")
        done = 0

        def told(row: object) -> None:
            nonlocal done
            done += 1
            if done % 25 == 0:
                progress.phase("filter", f"{done} of {len(found)}")

        answered = filter_tasks(found, rows, chosen, workers=workers, budget_s=budget_s, told=told)
    counts = funnel(answered)
    seconds = sum(row.seconds for row in answered)
    left = len({task.task_hash for task in found}) - len(answered)
    if as_json:
        times = {"check_s": round(seconds, 1), "wall_s": round(time.monotonic() - begun, 1)}
        print(json.dumps({"device": chosen.value, "funnel": counts, "left": left, **times}))
    else:
        print("\n".join(f"{count:>7} {name}" for name, count in counts.items()))
        print(f"{left} left" if left else "all were checked")
    return PASSED


def _llm_composer(
    model: str, endpoint: str | None, catalogue: "Catalogue", mix: "Mix", seed: int
) -> "LLMComposer":
    from warpsmith.llm import LLMSettings, connect
    from warpsmith.synthesis.llm_composer import LLMComposer

    return LLMComposer(connect(model, LLMSettings(endpoint=endpoint)), catalogue, mix, seed)


def read_catalogue(path: Path) -> "Catalogue":
    """Raises UsageError where it is missing or no catalogue."""
    from pydantic import ValidationError

    from warpsmith.synthesis.records import Catalogue

    try:
        return Catalogue.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", hint=_CRAWL) from error
    except ValidationError as error:
        raise UsageError(f"{path} is no catalogue", hint=_CRAWL) from error


def read_tasks(paths: list[Path]) -> "list[ComposedTask]":
    """The tasks of several files, in order. Raises UsageError."""
    from pydantic import ValidationError

    from warpsmith.synthesis.records import ComposedTask

    found = []
    for path in paths:
        try:
            lines = path.read_text("utf-8").splitlines()
            found += [ComposedTask.model_validate_json(line) for line in lines if line]
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read {path}", hint=_COMPOSE) from error
        except ValidationError as error:
            raise UsageError(f"{path} holds no composed tasks", hint=_COMPOSE) from error
    return found
