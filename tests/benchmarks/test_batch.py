"""A batch of benchmarks: what it runs, what it runs again, and that a step over its limit ends alone."""

import importlib.util
import json
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def batch(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location("batch_of_benchmarks", BENCHMARKS / "batch.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def made(batch: ModuleType, out: Path, budget_s: float = 60.0):
    return batch.Batch(out, time.monotonic() + budget_s, {})


def test_what_ended_well_at_this_commit_is_not_run_again(batch: ModuleType, tmp_path: Path) -> None:
    steps = {
        "good": batch.Step(30, "echo ran >> {result}"),
        "bad": batch.Step(30, "echo ran >> {result}; exit 3"),
    }
    assert batch.go(made(batch, tmp_path), steps, "one", [None]) == 1
    assert batch.go(made(batch, tmp_path), steps, "one", [None]) == 1
    assert (tmp_path / "good.json").read_text() == "ran\n"
    assert (tmp_path / "bad.json").read_text() == "ran\nran\n"
    batch.go(made(batch, tmp_path), steps, "two", [None])
    assert (tmp_path / "good.json").read_text() == "ran\nran\n"
    told = json.loads((tmp_path / "batch.json").read_text())
    assert {name: (row["status"], row["commit"]) for name, row in told.items()} == {
        "good": (0, "two"), "bad": (3, "two"),
    }  # fmt: skip


def test_a_step_over_its_limit_ends_with_all_that_it_started(batch: ModuleType, tmp_path: Path) -> None:
    began = time.monotonic()
    row = made(batch, tmp_path).run("slow", batch.Step(1.0, "echo begun; sleep 300 & sleep 300"), None)
    assert row["status"] is None
    assert time.monotonic() - began < 100
    assert (tmp_path / "slow.log").read_text() == "begun\n"


def test_nothing_starts_once_the_budget_is_spent(batch: ModuleType, tmp_path: Path) -> None:
    assert batch.go(made(batch, tmp_path, 0.0), {"late": batch.Step(30, "touch {result}")}, None, [None]) == 0
    assert not (tmp_path / "late.json").exists()


def test_each_gpu_takes_the_next_step_and_sees_no_other(batch: ModuleType, tmp_path: Path) -> None:
    # each waits for the other: they run side by side
    command = (
        f"cd {tmp_path}; echo $CUDA_VISIBLE_DEVICES > {{result}}; until [ -e %s.json ]; do sleep 0.05; done"
    )
    steps = {"a": batch.Step(60, command.replace("%s", "b")), "b": batch.Step(60, command.replace("%s", "a"))}
    assert batch.go(made(batch, tmp_path), steps, "one", ["4", "7"]) == 0
    assert {(tmp_path / f"{name}.json").read_text() for name in steps} == {"4\n", "7\n"}
    told = json.loads((tmp_path / "batch.json").read_text())
    assert {row["gpu"] for row in told.values()} == {"4", "7"}


def test_steps_are_chosen_by_what_is_given(batch: ModuleType) -> None:
    assert "turn" not in batch.wanted("", {"kernelbench": "x"})
    assert list(batch.wanted("turn,tests", {"release": "x"})) == ["tests", "turn"]
    with pytest.raises(SystemExit, match="needs --release"):
        batch.wanted("turn", {})
    with pytest.raises(SystemExit, match="no step 'trun'"):
        batch.wanted("trun", {})
