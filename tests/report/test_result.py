"""The result folder, written from a store that a scripted run filled."""

import ast
import json
import math
import os
from pathlib import Path

import pytest

from warpsmith.errors import InfrastructureError, UsageError
from warpsmith.report import headline, outcome, summary, verdict_lines, write_result
from warpsmith.report.markdown import render
from warpsmith.reward import reward_of
from warpsmith.rollout import run_episode
from warpsmith.rollout.scripted import ScriptedCompiler, ScriptedJudge, ScriptedPolicy, scripted_verdict
from warpsmith.store import Manifest, RunStore
from warpsmith.types import (
    Accuracy,
    BaselineKind,
    ByteFloor,
    CheckOutcome,
    Device,
    InTurn,
    Machine,
    MatchedSpeedup,
    MenuTime,
    ModeAccuracy,
    PaperSpeedup,
    Speedup,
    Status,
    Submission,
    Target,
    Task,
    TimeStats,
    Timings,
    Verdict,
)
from warpsmith.types.protocols import JudgeSettings, PolicyStep

SUBMISSION = Submission(files={"model_new.py": "class ModelNew: ...\n", "kernels/k.cu": "// kernel\n"})
TASK = Task(name="gate", code="class Model: ...\n")
DERIVED = Task(name="gate", code="class Model: pass\n", derived_from="f" * 64)
STEPS = [PolicyStep(note="fused SiLU, bias and LayerNorm\ninto one kernel", submission=SUBMISSION)]


def stats(median_ms: float) -> TimeStats:
    return TimeStats(
        calls=30,
        median_ms=median_ms,
        p25_ms=median_ms * 0.9,
        p75_ms=median_ms * 1.1,
        min_ms=median_ms * 0.8,
        raw_median_ms=median_ms + 0.01,
        null_ms=0.01,
    )


ACCURACY = Accuracy(
    oracle=True,
    eps=1.2e-7,
    candidate={"as drawn": 3e-6, "zero-mean": 2.9e-4},
    modes=(
        ModeAccuracy(
            mode="default",
            errors={"as drawn": 1e-7, "zero-mean": 1.2e-6},
            competes=True,
            why="always competes",
        ),
        ModeAccuracy(
            mode="bf16", errors={"as drawn": 3e-5, "zero-mean": 2.9e-3}, competes=True, why="within a digit"
        ),
        ModeAccuracy(
            mode="fp16", errors={"as drawn": math.inf, "zero-mean": math.inf}, competes=False, why="overflows"
        ),
    ),
)
GPU_FIELDS: dict[str, object] = {
    "timings": Timings(
        candidate=stats(0.5),
        eager=stats(2.0),
        compile=stats(1.0),
        menu=(
            MenuTime(mode="tf32", kind=BaselineKind.EAGER, stats=stats(1.5)),
            MenuTime(mode="bf16", kind=BaselineKind.COMPILE, stats=stats(0.75)),
            MenuTime(mode="bf16", kind=BaselineKind.EAGER, problem="failed: call: it raised"),
        ),
    ),
    "speedup": Speedup(
        paper=PaperSpeedup(eager=4.0, compile=2.0),
        matched=MatchedSpeedup(
            eager=3.0,
            compile=1.5,
            best=1.5,
            eager_baseline="tf32 eager",
            compile_baseline="bf16 compile",
            best_baseline="bf16 compile",
        ),
    ),
    "accuracy": ACCURACY,
    "floor": ByteFloor(read_bytes=4096, written_bytes=2048, bandwidth_gb_s=4800, floor_ms=0.25, share=0.5),
    "machine": Machine(device=Device.CUDA, gpu="NVIDIA X1", driver="580.1", torch="2.13", isolation="bwrap"),
    "checks": (CheckOutcome(check="inputs_unchanged", passed=True, detail="5 calls"),),
    "notes": ("held-out shapes were not tried",),
    "seconds": {"compile": 1.25, "correctness": 2.5},
}


def fill(
    folder: Path, device: Device, task: Task = TASK, status: Status = Status.PASSED, **fields: object
) -> RunStore:
    """A finished run of one turn."""

    def answer(task: Task, given: Submission, settings: JudgeSettings, calls: int) -> Verdict:
        return scripted_verdict(task, given, settings, status, **fields)

    settings = JudgeSettings(device=device)
    manifest = Manifest(
        command="optimize", task_hash=task.task_hash, task_name=task.name, policy="scripted", device=device
    )
    store = RunStore(folder)
    with store:
        store.open(manifest)
        run_episode(
            task,
            ScriptedPolicy(STEPS),
            judge=ScriptedJudge(answer),
            compiler=ScriptedCompiler(),
            target=Target(device=device),
            settings=settings,
            store=store,
        )
    return store


def test_the_folder_holds_solution_verdict_report_and_use(tmp_path: Path) -> None:
    store = fill(tmp_path, Device.CUDA, **GPU_FIELDS)
    records = write_result(store, tmp_path)
    written = {
        p.relative_to(tmp_path / "solution").as_posix(): p.read_text()
        for p in (tmp_path / "solution").rglob("*")
        if p.is_file()
    }
    assert written == SUBMISSION.files
    assert Verdict.model_validate_json((tmp_path / "verdict.json").read_text()) == records.final
    assert (tmp_path / "model.py").read_text() == TASK.code
    ast.parse((tmp_path / "use.py").read_text())
    assert (tmp_path / "report.md").read_text() == render(records)


def test_writing_again_replaces_the_solution_whole(tmp_path: Path) -> None:
    store = fill(tmp_path, Device.CUDA, **GPU_FIELDS)
    write_result(store, tmp_path)
    (tmp_path / "solution" / "stale.cu").write_text("left over")
    write_result(store, tmp_path)
    assert sorted(p.name for p in (tmp_path / "solution").iterdir()) == ["kernels", "model_new.py"]
    assert not [p.name for p in tmp_path.iterdir() if p.name.startswith(".")]


def test_the_report_of_a_gpu_run_says_all_that_was_measured(tmp_path: Path) -> None:
    text = render(write_result(fill(tmp_path, Device.CUDA, **GPU_FIELDS), tmp_path))
    for said in (
        "# gate",
        "fused SiLU, bias and LayerNorm\n   into one kernel",
        "**(chosen)**",
        "| candidate | 0.5 ms | 0.45 ms–0.55 ms | 0.4 ms | 30 | 0.51 ms | 0.01 ms |",
        "| eager | 2 ms |",
        "| torch.compile | 1 ms |",
        "| default modes | 4× | 2× | |",
        "| modes of matched accuracy | 3× | 1.5× | 1.5× |",
        "| made of | tf32 eager | bf16 compile | bf16 compile |",
        "| tf32 eager | 1.5 ms |",
        "| bf16 eager | failed: call: it raised |",
        "| | as drawn | zero-mean | competes |",
        "| candidate | 3.0e-06 | 2.9e-04 | |",
        "| default | 1.0e-07 | 1.2e-06 | yes: always competes |",
        "| fp16 | inf | inf | no: overflows |",
        "Byte floor: 0.25 ms for 4,096 bytes read and 2,048 written at 4800 GB/s; the candidate",
        "relative error 1.000e-07",
        "paper's gate (atol = rtol = 1e-2): held",
        "inputs_unchanged: passed — 5 calls",
        "gpu: NVIDIA X1",
        "driver: 580.1",
        "isolation: bwrap",
        "held-out shapes were not tried",
        "compile 1.2 s, correctness 2.5 s",
        "inference only",
        "from use import load",
    ):
        assert said in text, said
    assert "simulator" not in text


def test_the_report_of_a_simulated_run_claims_no_speed(tmp_path: Path) -> None:
    text = render(write_result(fill(tmp_path, Device.SIM, task=DERIVED), tmp_path))
    assert "passed on the simulator: correct; nothing is known about speed" in text
    assert "derived task of `ffffffffffff`" in text
    assert "the full-size task: the sizes judged here are smaller" in text
    assert "Not measured." in text
    assert " ms |" not in text and "×" not in text


def test_nothing_passed_leaves_a_report_and_no_solution(tmp_path: Path) -> None:
    store = fill(tmp_path, Device.CUDA, status=Status.WRONG, detail="out[0] differs")
    records = write_result(store, tmp_path)
    assert outcome(records) == "no submission passed; the last one: wrong: out[0] differs"
    text = (tmp_path / "report.md").read_text()
    assert "wrong: out[0] differs" in text and "## Use it" not in text
    assert not (tmp_path / "solution").exists() and not (tmp_path / "verdict.json").exists()


def test_a_run_without_a_finished_episode_has_no_result(tmp_path: Path) -> None:
    manifest = Manifest(command="optimize", task_hash="t", task_name="t", policy="p", device=Device.SIM)
    with RunStore(tmp_path) as store:
        store.open(manifest)
    with pytest.raises(UsageError, match="no finished episode"):
        write_result(store, tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_unwritable_folder_is_one_line(tmp_path: Path) -> None:
    store = fill(tmp_path / "run", Device.SIM)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    with pytest.raises(InfrastructureError, match="cannot write"):
        write_result(store, closed)


def test_a_missing_folder_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="cannot write"):
        write_result(fill(tmp_path / "run", Device.SIM), tmp_path / "absent")


SETTINGS = JudgeSettings(device=Device.CUDA)


def test_summary_has_exactly_the_documented_keys() -> None:
    verdict = scripted_verdict(TASK, SUBMISSION, SETTINGS, **GPU_FIELDS)
    assert summary(verdict, reward_of(verdict)) == {
        "schema_version": 1,
        "status": "passed",
        "reward": 3,
        "device": "cuda",
        "speedup": {
            "paper": {"eager": 4.0, "compile": 2.0},
            "matched": {
                "eager": 3.0,
                "compile": 1.5,
                "best": 1.5,
                "eager_baseline": "tf32 eager",
                "compile_baseline": "bf16 compile",
                "best_baseline": "bf16 compile",
            },
            "accuracy": {
                "oracle": True,
                "candidate": {"as drawn": 3e-6, "zero-mean": 2.9e-4},
                "modes": {
                    "default": {"as drawn": 1e-7, "zero-mean": 1.2e-6},
                    "bf16": {"as drawn": 3e-5, "zero-mean": 2.9e-3},
                    "fp16": {"as drawn": None, "zero-mean": None},
                },
                "competing": ["default", "bf16"],
            },
        },
        "error": {"rel": 1e-7, "max_abs": 1e-6},
        "detail": "",
        "isolation": "bwrap",
    }


@pytest.mark.parametrize("status", [s for s in Status if s is not Status.PASSED])
def test_every_status_has_a_headline_and_a_summary(status: Status) -> None:
    verdict = scripted_verdict(TASK, SUBMISSION, SETTINGS, status, detail="why")
    assert headline(verdict) == f"{status.value}: why"
    answer = summary(verdict, reward_of(verdict))
    assert (answer["status"], answer["speedup"]) == (status.value, None)
    assert (answer["error"] is not None) == (status is Status.UNSTABLE)  # whose outputs were right


def test_lines_for_a_person() -> None:
    verdict = scripted_verdict(TASK, SUBMISSION, SETTINGS, **GPU_FIELDS)
    lines = list(verdict_lines(verdict, reward_of(verdict)))
    assert lines[0] == (
        "passed: 4× eager, 2× torch.compile (default modes); accuracy-matched 3× eager, 1.5× torch.compile"
        " (best 1.5×, against bf16 compile)"
    )
    assert "  eager      median 2 ms, p25–p75 1.8 ms–2.2 ms, 30 calls" in lines
    assert "  bf16 compile median 0.75 ms, p25–p75 0.675 ms–0.825 ms, 30 calls" in lines
    assert (
        "  accuracy   candidate 2.9e-04, default 1.2e-06, bf16 2.9e-03, fp16 inf against float64 on zero-mean"
        " inputs; compared with default, bf16"
    ) in lines
    assert "  candidate  median 0.5 ms, p25–p75 0.45 ms–0.55 ms, 30 calls" in lines
    assert "  byte floor 0.25 ms: the candidate stands at 50% of it" in lines
    assert any(line.startswith("  reward     3 (3.00× eager") for line in lines)


def test_without_an_oracle_everybody_is_told(tmp_path: Path) -> None:
    rows = (ModeAccuracy(mode="default", competes=True, why="always competes"),)
    accuracy = Accuracy(oracle=False, oracle_problem="no memory", eps=1e-7, modes=rows)
    fields = GPU_FIELDS | {"accuracy": accuracy}
    verdict = scripted_verdict(TASK, SUBMISSION, SETTINGS, **fields)
    lines = list(verdict_lines(verdict, reward_of(verdict)))
    assert "  accuracy   oracle: unavailable (no memory); compared with default" in lines
    text = render(write_result(fill(tmp_path, Device.CUDA, **fields), tmp_path))
    assert "Accuracy: oracle unavailable (no memory).\nCompared with default." in text


def test_the_summary_is_strict_json_also_where_an_error_is_infinite() -> None:
    verdict = scripted_verdict(TASK, SUBMISSION, SETTINGS, **GPU_FIELDS)
    assert "fp16" in json.dumps(summary(verdict, reward_of(verdict)), allow_nan=False)


def test_a_ratio_measured_in_turn_is_told_with_its_interval(tmp_path: Path) -> None:
    again = InTurn(
        mode="default", kind=BaselineKind.EAGER, ratio=1.06, low=1.05, high=1.07, candidate_ms=0.5, baseline_ms=0.53
    )  # fmt: skip
    fields = GPU_FIELDS | {"timings": GPU_FIELDS["timings"].model_copy(update={"in_turn": (again,)})}
    said = "default eager 0.53 ms beside the candidate's 0.5 ms: 1.06× (1.05 to 1.07 in 95 of 100)"
    verdict = scripted_verdict(TASK, SUBMISSION, SETTINGS, **fields)
    assert f"  in turn    {said}" in list(verdict_lines(verdict, reward_of(verdict)))
    text = render(write_result(fill(tmp_path, Device.CUDA, **fields), tmp_path))
    assert f"Near a threshold, so measured again, in turn: {said}." in text
