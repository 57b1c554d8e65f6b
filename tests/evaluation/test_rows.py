"""Rows made of stored runs: what was finished, what was not, and how sure each ratio is."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.evaluation.test_regrade import MANIFEST, TASK, run, speed, submission

from warpsmith.errors import InfrastructureError, UsageError
from warpsmith.evaluation.row import Against, State, checked, with_checks
from warpsmith.evaluation.rows import median_interval, rows_of, score_of
from warpsmith.rollout.scripted import scripted_verdict
from warpsmith.store import FailureLine, RunReader, RunStore
from warpsmith.types import (
    BaselineKind,
    Bound,
    CheckOutcome,
    CheckSettings,
    Device,
    Evidence,
    Fitness,
    InTurn,
    KernelKind,
    KernelSeen,
    MatchedSpeedup,
    OperatorSource,
    PaperSpeedup,
    Purpose,
    Roofline,
    Speedup,
    Status,
    StopReason,
    TaskCheck,
    TaskRef,
    TaskSource,
    TimeStats,
    Timings,
    Turn,
    Verdict,
)
from warpsmith.types.protocols import JudgeSettings


def stats(*samples: float) -> TimeStats:
    middle = sorted(samples)[len(samples) // 2]
    return TimeStats(
        calls=len(samples), median_ms=middle, p25_ms=middle, p75_ms=middle, min_ms=min(samples),
        raw_median_ms=middle, null_ms=0, samples_ms=samples,
    )  # fmt: skip


def verdict(timings: Timings, speedup: Speedup) -> Verdict:
    settings = JudgeSettings(device=Device.CUDA)
    return scripted_verdict(TASK, submission("x"), settings, timings=timings, speedup=speedup)


def test_a_finished_episode_is_a_row_with_both_scores(tmp_path: Path) -> None:
    run(tmp_path, {"good": 2.0, "better": 4.0, "bad": Status.WRONG})
    (row,) = rows_of(RunReader(tmp_path))
    assert (row.series, row.task_hash, row.sample, row.state) == ("scripted", TASK.task_hash, 0, State.JUDGED)
    assert row.outcome == "passed"
    assert row.measured(Against.PAPER_EAGER).ratio == 4.0  # type: ignore[union-attr]
    assert row.measured(Against.MATCHED_BEST) is None
    assert row.final is None
    assert row.turns == 3


def test_where_nothing_passed_the_last_verdict_stands(tmp_path: Path) -> None:
    run(tmp_path, {"bad": Status.WRONG, "cheat": Status.CHEATED})
    (row,) = rows_of(RunReader(tmp_path))
    assert (row.outcome, row.passed(), row.unanswered) == ("cheated", False, False)


def test_a_row_knows_why_it_is_slow_and_what_was_left_to_pytorch(tmp_path: Path) -> None:
    timings = Timings(candidate=stats(2.0).model_copy(update={"launch_bound": True}), eager=stats(1.0))
    slow = verdict(timings, Speedup(paper=PaperSpeedup(eager=0.5)))
    seen = [(KernelKind.CUBLAS, 0.25), (KernelKind.OWN, 0.5), (KernelKind.CUDNN, 0.25)]
    kernels = tuple(KernelSeen(name=k.value, kind=k, count=1, share=s, brackets=1) for k, s in seen)
    evidence = Evidence(brackets=1, calls=1, operators_source=OperatorSource.NATIVE, kernels=kernels)
    roofline = Roofline(
        flops=1, traffic_bytes=1, intensity=1.0, compute_ms=2.0, memory_ms=1.0, bound=Bound.COMPUTE,
        attained_tflops=1.0, attained_gb_s=1.0, share=1.0,
    )  # fmt: skip
    score = score_of(slow.model_copy(update={"evidence": evidence, "roofline": roofline}))
    assert (score.launch_bound, score.compute_bound, score.library_share) == (True, True, 0.5)
    assert (score_of(slow).compute_bound, score_of(slow).library_share) == (None, None)
    caught = (CheckOutcome(check="fine", passed=True), CheckOutcome(check="side_stream", passed=False))
    cheat = scripted_verdict(
        TASK, submission("x"), JudgeSettings(device=Device.CUDA), Status.CHEATED, checks=caught
    )
    assert score_of(cheat).check == "side_stream"

    run(tmp_path, {"good": 2.0, "better": 4.0})
    (episode,) = RunReader(tmp_path).episodes()
    left = [("aten.lu",), ("aten.qr",)]
    turns = tuple(t.model_copy(update={"left": of}) for t, of in zip(episode.turns, left, strict=True))
    with RunStore(tmp_path) as store:
        store.open(MANIFEST)
        store.put_episode(episode.model_copy(update={"turns": turns}))
        # the scored submission is the second turn's
        (row,) = rows_of(store)
        assert (row.left, row.stop) == (("aten.qr",), StopReason.FINISHED)
        bare = tuple(t.model_copy(update={"verdict_hash": None, "submission_hash": None}) for t in turns)
        store.put_episode(episode.model_copy(update={"turns": bare, "final_verdict_hash": None}))
        (row,) = rows_of(store)
    assert (row.left, row.state) == (("aten.qr",), State.NOTHING_SUBMITTED)


def planned(name: str, task_hash: str, level: int | None = None) -> TaskRef:
    return TaskRef(name=name, task_hash=task_hash, source=TaskSource.USER_FILE, level=level)


def test_planned_tasks_that_never_began_are_missing_and_begun_ones_unfinished(tmp_path: Path) -> None:
    run(tmp_path, {"good": 2.0})
    begun = scripted_verdict(TASK, submission("y"), JudgeSettings(device=Device.CUDA)).model_copy(
        update={"task_hash": "h1"}
    )
    manifest = MANIFEST.model_copy(
        update={
            "tasks": (planned("tiny", TASK.task_hash), planned("other", "h1", 2)),
            "settings": {**MANIFEST.settings, "samples": 2},
        }
    )
    (tmp_path / "manifest.json").write_text(manifest.model_dump_json())
    with RunStore(tmp_path) as store:
        store.open(manifest)
        assert [(r.task_name, r.sample, r.state) for r in rows_of(store)] == [
            ("tiny", 0, State.JUDGED),
            ("tiny", 1, State.MISSING),
            ("other", 0, State.MISSING),
            ("other", 1, State.MISSING),
        ]
        store.put_failure(FailureLine(task_hash=TASK.task_hash, sample=1, detail="the worker died", at=""))
        store.append_turn("under way", Turn(index=0, note="", verdict_hash=store.put_verdict(begun, "s")))
        found = rows_of(store)
    assert [(r.level, r.state) for r in found if r.task_name == "other"] == [(2, State.UNFINISHED)] * 2
    assert next((r.state, r.detail) for r in found if r.sample == 1) == (State.UNFINISHED, "the worker died")


def test_a_task_scaled_down_for_the_simulator_is_the_planned_one(tmp_path: Path) -> None:
    run(tmp_path, {"good": 2.0})
    manifest = MANIFEST.model_copy(update={"tasks": (planned("tiny", "full size"), planned("other", "h"))})
    (tmp_path / "manifest.json").write_text(manifest.model_dump_json())
    with RunStore(tmp_path) as store:
        store.open(manifest)
        (episode,) = store.episodes()
        derived = TASK.model_copy(update={"derived_from": "full size"})
        record = store.put_blob(derived.canonical_json())
        store.put_episode(episode.model_copy(update={"task_record_hash": record}))
        assert [(r.task_name, r.state) for r in rows_of(store)] == [
            ("tiny", State.JUDGED),
            ("other", State.MISSING),
        ]


def test_a_run_of_one_task_without_an_episode_is_missing_or_unfinished(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        store.open(MANIFEST)
        assert [r.state for r in rows_of(store)] == [State.MISSING]
        store.append_turn("under way", Turn(index=0, note="thinking"))
        assert [r.state for r in rows_of(store)] == [State.UNFINISHED]


@pytest.mark.parametrize(
    ("stop", "state"),
    [(StopReason.MODEL_UNAVAILABLE, State.UNFINISHED), (StopReason.FINISHED, State.NOTHING_SUBMITTED)],
)
def test_an_end_that_is_nobodys_doing_is_no_score(tmp_path: Path, stop: StopReason, state: State) -> None:
    run(tmp_path, {"good": 2.0})
    (episode,) = RunReader(tmp_path).episodes()
    empty = {"turns": (), "final_verdict_hash": None} if stop is StopReason.FINISHED else {}
    with RunStore(tmp_path) as store:
        store.open(MANIFEST)
        store.put_episode(episode.model_copy(update={"stop": stop, **empty}))
        (row,) = rows_of(store)
    assert (row.state, row.best, row.passed()) == (state, None, False)
    told = {StopReason.MODEL_UNAVAILABLE: "model unavailable: good", StopReason.FINISHED: "finished"}
    assert row.detail == told[stop]


def test_older_runs_read_and_keep_their_key(tmp_path: Path) -> None:
    # The hash of this manifest before it could name tasks, a protocol, a variant and pins.
    old = MANIFEST.model_dump(mode="json", exclude={"tasks", "protocol", "variant", "pins"})
    assert type(MANIFEST).model_validate(old) == MANIFEST
    assert MANIFEST.canonical_json().count("variant") == 0
    assert "variant" in MANIFEST.model_copy(update={"variant": "single-turn"}).canonical_json()


# ---- noise ----------------------------------------------------------------------------------------------------


def test_the_medians_interval_by_hand() -> None:
    # Of 7, one tail is 1/128 = 0.8 %, at most 1.25 %; of 6 it is 1/64 = 1.6 %. Of 12: (1 + 12)/4096 = 0.3 %, and
    # with the next C(12, 2) = 66: 79/4096 = 1.9 %: so the second smallest and the second largest.
    assert median_interval(range(1, 8)) == (1, 7)
    assert median_interval(range(1, 7)) is None
    assert median_interval(range(1, 13)) == (2, 11)


@settings(deadline=None)
@given(st.lists(st.floats(0.1, 10), min_size=7, max_size=40))
def test_the_medians_interval_holds_the_median(samples: list[float]) -> None:
    low, high = median_interval(samples)  # type: ignore[misc]
    assert low <= sorted(samples)[len(samples) // 2] <= high


def test_a_ratio_takes_its_noise_from_the_medians_of_both_times() -> None:
    mine, theirs = stats(*[1.0] * 3, *[1.1] * 3, 2.0), stats(*[2.0] * 6, 4.4)
    ratio = 2.0 / 1.1
    score = score_of(verdict(Timings(candidate=mine, eager=theirs), Speedup(paper=PaperSpeedup(eager=ratio))))
    found = score.ratios[Against.PAPER_EAGER]
    # seven samples: the whole range; 2.0 / 2.0 to 4.4 / 1.0
    assert (found.low, found.high) == (1.0, 4.4)
    assert found.tied


def test_a_ratio_measured_in_turn_brings_its_own_interval() -> None:
    again = InTurn(
        mode="default", kind=BaselineKind.EAGER, ratio=1.02, low=1.01, high=1.03, candidate_ms=1, baseline_ms=1.02
    )  # fmt: skip
    timings = Timings(candidate=stats(*[1.0] * 9), eager=stats(*[1.5] * 9), in_turn=(again,))
    matched = MatchedSpeedup(
        eager=1.02, best=1.02, eager_baseline="default eager", best_baseline="default eager"
    )
    score = score_of(verdict(timings, Speedup(paper=PaperSpeedup(eager=1.02), matched=matched)))
    for against in (Against.PAPER_EAGER, Against.MATCHED_EAGER, Against.MATCHED_BEST):
        assert (score.ratios[against].low, score.ratios[against].high) == (1.01, 1.03)
        assert score.ratios[against].clearly_faster
    assert Against.PAPER_COMPILE not in score.ratios


def test_without_samples_the_noise_is_unknown() -> None:
    settings = JudgeSettings(device=Device.CUDA)
    score = score_of(scripted_verdict(TASK, submission("x"), settings, **speed(1.2)))
    found = score.ratios[Against.PAPER_EAGER]
    assert (found.low, found.tied, found.clearly_faster, found.faster) == (None, False, False, True)


# ---- sets -----------------------------------------------------------------------------------------------------


def test_the_same_task_of_two_runs_is_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        run(tmp_path / name, {"good": 2.0})
    rows = [row for name in ("one", "two") for row in rows_of(RunReader(tmp_path / name))]
    with pytest.raises(UsageError, match="twice"):
        checked(rows)
    assert checked([rows[0], rows[1].model_copy(update={"series": "another"})])


def test_checks_flag_the_rows_of_their_task(tmp_path: Path) -> None:
    run(tmp_path, {"good": 2.0})
    rows = rows_of(RunReader(tmp_path))
    check = TaskCheck(
        question=CheckSettings(device=Device.CUDA).question(TASK), task_name="tiny", task_hash=TASK.task_hash,
        source=TaskSource.USER_FILE, device=Device.CUDA, purpose=Purpose.BENCHMARK, fitness=Fitness.FIT,
        flags=("zeros pass the paper gate",),
    )  # fmt: skip
    assert with_checks(rows, [check])[0].flags == ("zeros pass the paper gate",)
    assert with_checks(rows, [check.model_copy(update={"task_hash": "other"})]) == rows


def test_what_the_machine_stopped_is_unfinished(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError):
        run(tmp_path, {"good": Status.INFRASTRUCTURE})
    (row,) = rows_of(RunReader(tmp_path))
    assert (row.outcome, row.unanswered) == ("unfinished", True)
