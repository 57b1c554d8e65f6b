"""What each way of training with less saves, on the CPU: tokens, bytes, seconds of a judge.

    python benchmarks/thrift.py [--only prefixes,builds,adapters,reuse] [--out FILE]

- prefixes: conversations of four turns with one prompt in common, through the engine that generates for training,
  with blocks of equal prefixes shared and not
- builds: a submission that does not compile, a wrong and a right one on the simulator's judge: how long each keeps a
  judge to itself, with `BuildFirst` before it and without
- adapters: a checkpoint of Qwen2.5-Coder-1.5B with an adapter of each rank beside whole weights, counted from its
  shapes, and what AdamW keeps for them
- reuse: an episode of four replies that is killed behind three: tokens drawn again
"""

import argparse
import contextlib
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from common import RESULTS, save

from warpsmith.judge.repeating import known
from warpsmith.training.adapters import load_whole
from warpsmith.training.batching import Batches, Blocking
from warpsmith.training.judges import BuildFirst, JudgeSpec, connect_judge
from warpsmith.training.local_model import LocalModel
from warpsmith.training.player import EpisodePlan, Mode, Player
from warpsmith.training.tiny import make_tiny_model
from warpsmith.training.token_llm import Generated
from warpsmith.types import Device, Submission, Task, Verdict
from warpsmith.types.protocols import JudgeSettings, Menu

TEXTS = ["a kernel of warps and blocks"] * 9
CONVERSATIONS, TURNS = 8, 4
PROMPT, TOLD, REPLY = 4096, 256, 16
"""Tokens of the prompt, of what a turn is told, and of a reply."""
RANKS = (1, 2, 4, 8, 32)
QWEN = {
    "hidden_size": 1536,
    "intermediate_size": 8960,
    "num_hidden_layers": 28,
    "num_attention_heads": 12,
    "num_key_value_heads": 2,
    "vocab_size": 151_936,
    "tie_word_embeddings": True,
}
"""Qwen2.5-Coder-1.5B's shapes."""


def prefixes(folder: Path) -> dict:
    """Seconds of a turn's replies, by turn, and the tokens of the prompts."""
    found: dict = {"conversations": CONVERSATIONS, "prompt_tokens": PROMPT, "told_tokens": TOLD}
    for shared in (False, True):
        model = load_whole(make_tiny_model(folder / "tiny", TEXTS, width=64), "float32", "paged|sdpa").eval()
        longest = PROMPT + TURNS * (TOLD + REPLY)
        batches = Batches(
            model, [], 0, longest=longest, answer_tokens=REPLY, memory=0.5, share_prefixes=shared
        )
        engine = Blocking(batches)
        said = [[token % 250 for token in range(PROMPT)] for _ in range(CONVERSATIONS)]
        seconds = []
        with ThreadPoolExecutor(CONVERSATIONS) as threads:
            for turn in range(TURNS):
                begun = time.monotonic()
                drawn = list(
                    threads.map(engine.generate, said, [REPLY] * CONVERSATIONS, [1.0] * CONVERSATIONS)
                )
                seconds.append(round(time.monotonic() - begun, 2))
                for number, (ids, reply) in enumerate(zip(said, drawn, strict=True)):
                    ids += [*reply.ids, *((number + turn + token) % 250 for token in range(TOLD))]
        engine.close()
        found["shared" if shared else "not_shared"] = {"turn_s": seconds, "all_s": round(sum(seconds), 2)}
    return found


class Timed:
    """A judge, and how long each judgement kept it to itself."""

    def __init__(self, judge: object):
        self._judge = judge
        self.held_s: list[float] = []

    def judge(self, task: Task, submission: Submission, settings: JudgeSettings) -> Verdict:
        begun = time.monotonic()
        try:
            return self._judge.judge(task, submission, settings)
        finally:
            self.held_s.append(time.monotonic() - begun)


def builds(_: Path) -> dict:
    """Median seconds for which a judge is kept, by what is judged; every submission is new to the compiler."""
    settings = JudgeSettings(device=Device.SIM, measure=False, baselines=Menu.PAPER)
    bench = connect_judge(JudgeSpec(settings=settings))
    task, right = known()
    kernel = right.files["kernels/axpy.cu"]
    kinds = {"does_not_build": "no kernel", "wrong": kernel.replace("2.0f *", "3.0f *"), "right": kernel}
    found: dict = {}
    try:
        inner = bench.judge._judge
        for name, first in (("build_first", True), ("judge_builds", False)):
            timed = Timed(inner)
            judge = BuildFirst(timed, bench.compiler, bench.target, 1) if first else timed
            timed.judge(task, right, settings)
            found[name] = {}
            for kind, text in kinds.items():
                timed.held_s.clear()
                for number in range(3):
                    fresh = Submission(
                        files=right.files | {"kernels/axpy.cu": f"// {name} {time.time()} {number}\n{text}"}
                    )
                    judge.judge(task, fresh, settings)
                found[name][kind] = round(statistics.median(timed.held_s or [0.0]), 2)
    finally:
        bench.close()
    return found


def adapters(_: Path) -> dict:
    """Bytes of weights and of AdamW's moments: whole, and by an adapter of each rank."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, Qwen2Config

    def count(model: torch.nn.Module) -> int:
        return sum(weights.numel() for weights in model.parameters() if weights.requires_grad)

    def fresh() -> torch.nn.Module:
        with torch.device("meta"):
            return AutoModelForCausalLM.from_config(Qwen2Config(**QWEN), dtype=torch.float32)

    whole = count(fresh())
    # float32 weights and two moments each; with adapters the moments are stored in bfloat16
    rows = {"whole": {"parameters": whole, "checkpoint_mb": round(whole * 12 / 1e6, 1)}}
    for rank in RANKS:
        config = LoraConfig(r=rank, target_modules="all-linear", task_type="CAUSAL_LM")
        parameters = count(get_peft_model(fresh(), config))
        rows[f"rank_{rank}"] = {"parameters": parameters, "checkpoint_mb": round(parameters * 8 / 1e6, 1)}
    return {"of": "Qwen2.5-Coder-1.5B, one model", **rows}


def reuse(folder: Path) -> dict:
    """Tokens that a killed episode's model read and wrote again, with what it had said kept and not."""
    tiny = make_tiny_model(folder / "reuse", TEXTS)
    task = Task(name="t", code="import torch\n")
    spec = JudgeSpec(kind="scripted", needle="good", settings=JudgeSettings(device=Device.SIM))

    def play(name: str, kill_after: int | None) -> tuple[int, int]:
        model = LocalModel(str(tiny), "cpu", "float32", seed=1)
        plan = EpisodePlan(
            folder=str(folder / "episodes"),
            mode=Mode.AGENT,
            judge=spec,
            turns=4,
            answer_tokens=64,
            compact=True,
        )
        drawn = []

        def generate(prompt: Sequence[int], most: int, temperature: float) -> Generated:
            if kill_after is not None and len(drawn) == kill_after:
                raise KeyboardInterrupt
            drawn.append(model.generate(prompt, most, temperature))
            return drawn[-1]

        with contextlib.suppress(KeyboardInterrupt):
            Player(plan, model.encoder).play(task, name, generate)
        return len(drawn), sum(len(one.ids) for one in drawn)

    whole, killed = play("whole", None), play("killed", 3)
    again = play("killed", None)
    return {
        "replies_and_tokens_whole": whole, "before_the_kill": killed, "drawn_again_behind_it": again,
    }  # fmt: skip


SECTIONS = {"prefixes": prefixes, "builds": builds, "adapters": adapters, "reuse": reuse}


def main() -> None:
    """Measures the sections and writes them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(SECTIONS))
    parser.add_argument("--out", type=Path, default=RESULTS / "thrift.json")
    args = parser.parse_args()
    # what is not measured now stays as it was
    found = json.loads(args.out.read_text()) if args.out.exists() else {}
    found.pop("measured_on", None)
    with tempfile.TemporaryDirectory() as folder:
        for name in args.only.split(","):
            found[name] = SECTIONS[name](Path(folder))
            print(name, found[name])
    save(args.out, **found)


if __name__ == "__main__":
    main()
