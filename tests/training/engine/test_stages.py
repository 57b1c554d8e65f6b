"""Every stage end to end on the CPU, through the command line, each killed once and gone on with.

Minutes: each start of the trainer loads verl in half a dozen processes.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import warpsmith

pytest.importorskip("verl", reason="needs the extra train")

from tests.agent.loop import CODE, SETTINGS

from warpsmith.tasks import load_all
from warpsmith.training.adapters import chain
from warpsmith.training.judges import JudgeSpec
from warpsmith.training.reward import RewardSettings
from warpsmith.training.stage import Curves, StageFolder, StageResult, is_whole
from warpsmith.training.tiny import demonstrate, make_tiny_model
from warpsmith.training.trajectories import find_runs, gather

pytestmark = [pytest.mark.slow, pytest.mark.train, pytest.mark.timeout(3600)]
LIMIT_S = 1800.0
ANSWERS = ("ce = 1", "once = x", "device = 2", "ce = 0")
"""All hold a `ce`, which passes; of what a model says that has half learned them, about a third does."""
ONE_ANSWER = ("--single-turn", "--samples")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, tasks, a teacher's answers, and what the stages leave to each other."""
    folder = tmp_path_factory.mktemp("stages")
    agent = Path(warpsmith.__file__).parent / "agent"
    # a tokenizer that knows the agent's prompt keeps it short
    prompts = [path.read_text() for path in sorted(agent.rglob("*.*")) if path.suffix in (".py", ".md")]
    make_tiny_model(folder / "model", [*[CODE] * 9, *prompts], vocabulary=2048)
    for number in range(4):
        (folder / f"task{number}.py").write_text(CODE + f"# {number}\n")
    tasks = [task for number in range(4) for task in load_all(str(folder / f"task{number}.py"))]
    judge = JudgeSpec(kind="scripted", settings=SETTINGS, needle="ce")
    demonstrate(folder / "demonstrations", tasks, ANSWERS, judge)
    return folder


def words(root: Path, stage: str, *options: str) -> list[str]:
    """The command of a stage."""
    argv = [sys.executable, "-m", "warpsmith", "train", stage, "--out", str(root / stage), "--json"]
    argv += ["--recipe", "cpu_tiny", *options]
    if stage in ("collect", "eval", "warmup", "ppo"):
        argv += ["--judge", "scripted:ce"]
        argv += [word for number in range(4) for word in ("--tasks", str(root / f"task{number}.py"))]
    return argv


def sets(*figures: str) -> list[str]:
    return [word for figure in figures for word in ("--set", figure)]


def journals(out: Path) -> list[Path]:
    """The conversations that have begun; each line is whole once it is there."""
    found = out.rglob("journal/*.jsonl")
    return [path for path in found if path.read_bytes().endswith(b"\n")]


def model_of(root: Path, stage: str) -> str:
    """What a stage before has made."""
    result = StageFolder(root / stage).result()
    assert result is not None and result.model is not None
    return result.model


def run(argv: list[str]) -> StageResult:
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S)
    assert ended.returncode == 0, ended.stderr[-3000:]
    told = json.loads(ended.stdout)
    told.pop("out")
    return StageResult.model_validate(told)


def killed(argv: list[str], when: Callable[[], bool]) -> None:
    """Starts the command and kills it with no warning once `when` holds; nothing of it is left then."""
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + LIMIT_S
    while not when():
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


def saved(folder: Path, step: int) -> Callable[[], bool]:
    return lambda: is_whole(StageFolder(folder).checkpoint(step))


def test_rft(root: Path) -> None:
    shown = ("--from", str(root / "demonstrations"), "--model", str(root / "model"))
    argv = words(root, "rft", *shown, *sets("fine_tune_epochs=12", "save_every=8"))
    killed(argv, saved(root / "rft", 8))
    result = run(argv)
    rows = Curves(root / "rft").rows()
    assert result.figures["samples"] == 16 and result.steps == 48
    assert [row["step"] for row in rows] == list(range(1, 49))
    assert rows[-1]["actor/loss"] < rows[0]["actor/loss"] / 2
    assert (Path(result.model or "") / "config.json").is_file()


def test_collect(root: Path) -> None:
    options = ("--policy", "model", "--model", model_of(root, "rft"), *ONE_ANSWER, "4")
    argv = words(root, "collect", *options)
    killed(argv, lambda: len(list((root / "collect" / "run").glob("journal/*"))) >= 3)
    result = run(argv)
    # a model of random weights passes none
    assert result.figures["episodes"] == 16 and 0 < result.figures["passed"] < 1
    found = gather(find_runs(root / "collect"), RewardSettings(), 64)
    assert len(found.rewarded) == 16 and found.left_out == {}


def test_value(root: Path) -> None:
    told = ("--from", str(root / "collect"), "--model", model_of(root, "rft"))
    # by adapters, whose steps may be larger: the stages behind take what they add up to
    small = sets("value_batch=16", "value_epochs=12", "save_every=4", "lora_rank=2", "critic_lr=0.01")
    argv = words(root, "value", *told, *small)
    killed(argv, saved(root / "value", 4))
    result = run(argv)
    checkpoint = StageFolder(root / "value").checkpoint(12)
    assert sorted(path.name for path in checkpoint.rglob("*.safetensors")) == ["adapter_model.safetensors"]
    rows = Curves(root / "value").rows()
    assert result.figures["trajectories"] == 16 and result.figures["policies"] == 1
    assert [row["step"] for row in rows] == list(range(1, 13))
    assert rows[-1]["critic/loss"] < rows[0]["critic/loss"]
    assert "critic/explained_variance" in rows[-1]


def test_warmup(root: Path) -> None:
    argv = words(root, "warmup", "--model", model_of(root, "rft"), "--critic", model_of(root, "value"))
    killed(argv, saved(root / "warmup", 1))
    played = sorted(path.name for path in (root / "warmup" / "episodes" / "step-000001").iterdir())
    result = run(argv)
    rows = Curves(root / "warmup").rows()
    assert [row["step"] for row in rows] == [1, 2] and result.steps == 2
    # what was played and trained on is not played again
    again = sorted(path.name for path in (root / "warmup" / "episodes" / "step-000001").iterdir())
    assert len(played) == 8 and again == played
    # and the tasks of the second step are the next ones
    rows_of = [
        {path.name.split("-")[1] for path in (root / "warmup" / "episodes" / f"step-00000{step}").iterdir()}
        for step in (1, 2)
    ]
    assert rows_of == [{"0", "1"}, {"2", "3"}]
    for row in rows:
        # float32 on both sides: what generates and what trains agree
        assert row["mismatch/max_abs"] < 1e-4 and abs(row["ratio/p99"] - 1) < 1e-3
        assert row["reward/-1"] + row["reward/1"] == 1.0 and row["reward/none"] == 0.0
        assert row["response/masked_share"] == 0.0 and row["turns/mean"] == 1.0
        assert {"actor/clip_low", "actor/clip_high", "actor/entropy", "critic/explained_variance"} <= set(row)


def test_ppo(root: Path) -> None:
    """The agent, from what the stages before have made; a tiny model calls no tool, so that nothing is handed in."""
    argv = words(root, "ppo", "--model", model_of(root, "rft"), "--critic", model_of(root, "value"))
    argv += sets(
        "prompt_tokens=8192", "response_tokens=1024", "batch=2", "samples=2", "micro_batch=1", "steps=1",
        "lora_rank=2",
    )  # fmt: skip
    # in the middle of an episode: what was said is kept, and gone on from
    killed(argv, lambda: bool(journals(root / "ppo")))
    kept = {path: path.read_bytes() for path in journals(root / "ppo")}
    result = run(argv)
    assert kept and all(path.read_bytes().startswith(data) for path, data in kept.items())
    (row,) = Curves(root / "ppo").rows()
    assert row["turns/mean"] > 1 and 0 < row["response/masked_share"] < 1
    assert row["reward/-1"] == 1.0 and row["groups/all_failed"] == 1
    # what generates gets the sum of weights and adapters in bfloat16
    assert row["mismatch/max_abs"] < 0.1
    assert [path.name for path in chain(Path(result.model or ""))] == ["huggingface", "huggingface"]


def test_eval(root: Path) -> None:
    argv = words(root, "eval", "--model", model_of(root, "warmup"), *ONE_ANSWER, "2")
    killed(argv, lambda: len(list((root / "eval" / "run").glob("journal/*"))) >= 2)
    result = run(argv)
    assert result.figures["episodes"] == 8
    assert result.figures["passed/low"] <= result.figures["passed"] <= result.figures["passed/high"]
