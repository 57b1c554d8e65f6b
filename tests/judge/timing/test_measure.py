"""The order and number of brackets, on a bench that says what it is told to; then the real one, in this process."""

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain, cycle
from pathlib import Path

import pytest
import torch
from tests.judge.inprocess import InProcess, forward, own

from warpsmith.errors import CandidateCrashedError, WrongResultError
from warpsmith.gpu.probe import GpuState
from warpsmith.judge.evidence.gather import Gathered
from warpsmith.judge.job import JobFolder, RefereeJob
from warpsmith.judge.runner.exchange import InputBuffers, OutputReader
from warpsmith.judge.session import Session
from warpsmith.judge.timing.bracket import Bracket
from warpsmith.judge.timing.clock import NullCost
from warpsmith.judge.timing.measure import NULL_BRACKETS, Timed, Timer
from warpsmith.judge.timing.modes import PAPER
from warpsmith.types import Device
from warpsmith.types.protocols import JudgeSettings

QUIET = GpuState(1980, 40, 0, frozenset({1}), frozenset())


class Paused(str):
    """A runner's name that can be stopped: `stopped` holds whether it is, `times` how often it was."""

    stopped = False
    times = 0

    def pause(self) -> None:
        self.stopped, self.times = True, self.times + 1

    def resume(self) -> None:
        self.stopped = False


@dataclass
class FakeBench:
    """Brackets take what `times` says, for each runner in turn; `log` holds what was asked for, in order."""

    times: dict[str, Iterator[float]]
    calls: int = 4
    cuda: bool = True
    watch: Gathered | None = None
    log: list[tuple] = field(default_factory=list)

    def run(self, runner: str, timeout_s: float, *, calls: int = 1, sparing: bool = False) -> Bracket:
        assert not getattr(runner, "stopped", False)
        self.log.append(("run", runner, calls, self.watch))
        return Bracket(next(self.times[runner]), calls, 0.5, (), {}, 0.1)

    def null(self, runner: str, timeout_s: float, calls: int) -> float:
        self.log.append(("null", runner, calls, self.watch))
        return 0.25

    def choose_calls(self, runner: str, timeout_s: float) -> tuple[int, list[Bracket]]:
        return self.calls, [self.run(runner, timeout_s)]


@dataclass
class FakeProbe:
    """Reads one state after the other, the last for ever."""

    states: list[GpuState]

    def read(self) -> GpuState:
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]


def steady(mean: float) -> Iterator[float]:
    return cycle([mean, 1.002 * mean, 0.998 * mean])


def timer(bench: FakeBench, probe: FakeProbe | None = None) -> Timer:
    return Timer(bench, calls_wanted=30, budget_s=60.0, probe=probe)


def nothing(bracket: Bracket) -> None:
    return None


def test_warm_ups_then_twenty_brackets_all_alike_and_all_shown() -> None:
    bench, shown, watch = FakeBench({"a": steady(5.0)}), [], Gathered()
    samples = timer(bench).measure(Timed("a", 9.0, shown.append, watch))
    assert samples.calls == 4 and len(samples.raw_ms) == 20 and len(samples.device_ms) == 20
    assert samples.unstable == "" and samples.null is None
    # One by choose_calls, eight to warm up since they take no time, one after the reading.
    assert len(bench.log) == len(shown) == 1 + 8 + 1 + 20
    assert bench.log[1:] == [("run", "a", 4, watch)] * 29


def test_each_null_bracket_follows_a_real_one() -> None:
    bench = FakeBench({"a": steady(5.0)})
    samples = timer(bench).measure(Timed("a", 9.0, nothing), nulls=True)
    assert samples.null == NullCost(0.25, 0.25, 0.25)
    kinds = [entry[0] for entry in bench.log]
    assert kinds[-2 * NULL_BRACKETS :] == ["run", "null"] * NULL_BRACKETS
    assert kinds.count("null") == NULL_BRACKETS


def test_what_is_unsteady_is_measured_once_more_and_believed_then() -> None:
    bad, first = cycle([5.0, 5.5]), 1 + 8 + 1 + 20

    def times() -> Iterator[float]:
        yield from (next(bad) for _ in range(first))
        yield from steady(5.0)

    bench = FakeBench({"a": times()})
    samples = timer(bench).measure(Timed("a", 9.0, nothing))
    assert samples.unstable == ""
    assert max(samples.raw_ms) < 5.1
    assert len(bench.log) == 2 * first - 1


def test_what_stays_unsteady_is_told_with_the_reasons_before() -> None:
    samples = timer(FakeBench({"a": cycle([5.0, 5.5])})).measure(Timed("a", 9.0, nothing))
    reason = "bimodal: 10 of 20 brackets are 10.0 % slower than the others"
    assert samples.unstable == f"{reason} (measured 5 times; before: {reason})"


@pytest.mark.parametrize(
    ("states", "reason"),
    [
        ([QUIET], ""),
        ([QUIET, GpuState(1400, 40, 0, QUIET.pids, frozenset()), QUIET], ""),
        (
            [GpuState(1980, 40, 0, frozenset({1, 9}), frozenset({9}))],
            "another process uses the GPU (pid 9) (measured 5 times; before: another process uses the GPU (pid 9))",
        ),
    ],
)
def test_a_disturbed_gpu_is_a_reason_only_where_it_stays_disturbed(states: list, reason: str) -> None:
    samples = timer(FakeBench({"a": steady(5.0)}), FakeProbe(states)).measure(Timed("a", 9.0, nothing))
    assert samples.unstable == reason


def test_what_the_driver_does_not_tell_is_a_note() -> None:
    assert timer(FakeBench({}), FakeProbe([QUIET])).notes() == ()
    assert timer(FakeBench({}, cuda=False)).notes() == ()
    (note,) = timer(FakeBench({})).notes()
    assert note.startswith("not watched while timing, because NVML does not tell: the SM clock, ")


def test_two_runners_take_turns_with_the_same_calls_each_watched_for_itself() -> None:
    mine, theirs = Gathered(), Gathered()
    bench = FakeBench({"a": steady(4.25), "b": steady(6.25)})
    a, b = Paused("a"), Paused("b")
    found = timer(bench).interleave(Timed(a, 9.0, nothing, mine), Timed(b, 9.0, nothing, theirs))
    assert (a.times, b.times, a.stopped, b.stopped) == (21, 21, False, False)
    assert len(found.candidate.raw_ms) == len(found.baseline.raw_ms) == 20
    turns = [entry for entry in bench.log if entry[0] == "run"][1 + 16 : 1 + 16 + 2 * 21]
    assert turns == [("run", "a", 4, mine), ("run", "b", 4, theirs)] * 21
    assert {entry[1] for entry in bench.log if entry[0] == "null"} == {"b"}
    assert found.null == found.baseline.null == NullCost(0.25, 0.25, 0.25)
    assert found.interval().ratio == pytest.approx(1.5)


def test_what_changes_for_both_in_turn_cancels_and_what_does_not_is_told() -> None:
    wave = [1.0, 1.2, 1.5, 1.1, 1.3, 0.9]
    bench = FakeBench({"a": chain([4.0], cycle([4 * w for w in wave])), "b": cycle([6 * w for w in wave])})
    assert (
        timer(bench)
        .interleave(Timed(Paused("a"), 9.0, nothing), Timed(Paused("b"), 9.0, nothing))
        .candidate.unstable
        == ""
    )
    bench = FakeBench({"a": steady(4.0), "b": cycle([6.0, 6.6])})
    found = timer(bench).interleave(Timed(Paused("a"), 9.0, nothing), Timed(Paused("b"), 9.0, nothing))
    assert found.candidate.unstable == found.baseline.unstable
    assert found.candidate.unstable.startswith("bimodal: 10 of 20 brackets are ")


def test_garbage_is_collected_again_after_an_error() -> None:
    def refuse(bracket: Bracket) -> None:
        assert not gc.isenabled()
        raise WrongResultError("wrong")

    with pytest.raises(WrongResultError):
        timer(FakeBench({"a": steady(5.0)})).measure(Timed("a", 9.0, refuse))
    assert gc.isenabled()


# ---- the real bench ---------------------------------------------------------------------------------------------


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Callable[[str, str], Session]]:
    """`session(model, inputs)`: an admitted task, a few short calls wanted."""
    made: list[Session] = []
    state = torch.get_rng_state()

    def admit(body: str, inputs: str) -> Session:
        folder = JobFolder(tmp_path)
        for path in (folder.share, folder.candidate):
            path.mkdir(parents=True, exist_ok=True)
        settings = JudgeSettings(device=Device.SIM, timed_calls=10)
        job = RefereeJob(task_hash="0" * 64, task_name="own", submission_hash="0" * 64, settings=settings)
        made.append(Session(folder, job, lambda phase, what: None))
        made[0].admit(own(body, inputs)[0])
        return made[0]

    yield admit
    torch.set_rng_state(state)
    made[0].bench.close()


def runner(session: Session, expression: str) -> InProcess:
    found = InProcess(own(forward(expression), "")[1])
    session._load(found, "submission", str(session.folder.candidate))
    return found


def test_a_bracket_of_many_calls_verifies_eight_each_on_inputs_of_its_own(session) -> None:
    judged = session(forward("torch.relu(x)"), "torch.randn(8, 8)")
    candidate = runner(judged, "torch.relu(x)")
    seen = []
    for _ in range(2):
        bracket = judged.bench.run(candidate, 9.0, calls=64)
        assert bracket.calls == 64 and len(bracket.found) == 8
        assert all(found.passed for found in bracket.found)
        seen += [inputs[0].clone() for inputs in candidate._runner.inputs]
    assert len({tuple(x.flatten().tolist()) for x in seen}) == 128


def test_a_bracket_of_many_calls_finds_what_one_in_three_gets_wrong(session) -> None:
    judged = session(forward("torch.relu(x)"), "torch.randn(8, 8)")
    candidate = runner(judged, "torch.relu(x) if x[0, 0] > -0.43 else x")
    found = [one.passed for _ in range(4) for one in judged.bench.run(candidate, 9.0, calls=64).found]
    assert True in found and False in found


def test_where_verifying_is_slow_a_secret_third_of_the_timed_brackets_is_verified(session) -> None:
    judged = session(forward("torch.relu(x)"), "torch.randn(8, 8)")
    candidate = runner(judged, "torch.relu(x)")
    assert len(judged.bench.run(candidate, 9.0, sparing=True).found) == 1
    verified = 0
    for _ in range(60):
        judged.bench.verify_s = 1.0
        verified += len(judged.bench.run(candidate, 9.0, sparing=True).found)
    assert 5 <= verified <= 40
    judged.bench.verify_s = 1.0
    assert len(judged.bench.run(candidate, 9.0).found) == 1


def test_the_outputs_of_all_calls_are_poisoned_after_the_bracket(session) -> None:
    judged = session(forward("torch.relu(x)"), "torch.randn(8, 8)")
    candidate = runner(judged, "torch.relu(x)")
    for pattern in (0xFF, 0x7F, 0xA5, 0x5A, 0xFF):
        judged.bench.run(candidate, 9.0, calls=16)
        arena = judged.bench._lanes[candidate].buffers.arena.bytes[: 16 * 512].view(16, 512)[:, :256]
        assert (arena == pattern).all()


def test_a_null_bracket_writes_new_inputs_and_runs_nothing(session) -> None:
    judged = session(forward("torch.relu(x)"), "torch.randn(8, 8)")
    baseline = runner(judged, "torch.relu(x)")
    judged.bench.run(baseline, 9.0, calls=3)
    before = [inputs[0].clone() for inputs in baseline._runner.inputs]
    assert judged.bench.null(baseline, 9.0, 3) > 0
    assert baseline._runner.last == []
    assert not any(torch.equal(a, b[0]) for a, b in zip(before, baseline._runner.inputs, strict=True))


def test_a_baseline_of_wrong_values_is_found(session) -> None:
    judged = session(forward("torch.relu(x)"), "torch.randn(8, 8)")
    wrong = InProcess(own(forward("torch.relu(x) + 0.1"), "")[1])
    with pytest.raises(WrongResultError, match="outside the paper's gate"):
        judged.baseline(wrong, PAPER[1], 9.0)
    assert judged.findings.calls == 0 and judged.findings.error is None


def test_a_baseline_is_timed_with_its_null_cost_and_counts_nothing_for_the_candidate(session) -> None:
    judged = session(forward("torch.relu(x)"), "torch.randn(8, 8)")
    samples, null_ms = judged.baseline(runner(judged, "torch.relu(x)"), PAPER[0], 9.0)
    assert null_ms == samples.null.median_ms > 0
    assert 10 <= len(samples.raw_ms) <= 100
    assert judged.findings.calls == 0 and judged.findings.ran.brackets == 0


def test_candidate_and_baseline_take_turns_in_the_session(session) -> None:
    judged = session(forward("torch.relu(x)"), "torch.randn(8, 8)")
    baseline = InProcess(own(forward("torch.relu(x)"), "")[1])
    baseline.name = "the baseline"
    candidate = runner(judged, "torch.relu(x)")
    found = judged.interleaved(candidate, baseline, PAPER[0], 9.0)
    assert len(found.candidate.raw_ms) == len(found.baseline.raw_ms) >= 10
    assert judged.findings.calls >= len(found.candidate.raw_ms)
    assert found.interval().ratio > 0


def test_outputs_that_lie_where_the_last_ones_did_are_named_once(session) -> None:
    judged = session(forward("torch.relu(x)"), "torch.randn(8, 8)")
    candidate = runner(judged, "torch.relu(x)")
    answers = [judged.bench.run(candidate, 9.0, calls=calls).answer for calls in (4, 4, 8, 8, 4)]
    # More calls want new buffers; fewer lie elsewhere than more.
    assert ["same" in answer for answer in answers] == [False, True, False, True, False]
    assert all(found.passed for found in judged.bench.run(candidate, 9.0, calls=4).found)


def test_a_runner_that_points_to_an_answer_it_never_gave_is_malformed() -> None:
    reader = OutputReader(InputBuffers("cpu", [torch.ones(2)], 1, 512))
    with pytest.raises(CandidateCrashedError, match="there is no last one like it"):
        reader.read({"same": 1}, 1)


def test_the_candidates_brackets_count_and_are_observed(session) -> None:
    judged = session(forward("torch.relu(x)"), "torch.randn(8, 8)")
    samples = judged.timing(runner(judged, "torch.relu(x)"))
    assert judged.findings.calls == judged.findings.ran.brackets >= len(samples.raw_ms) + 3
    assert judged.findings.error.rel == 0.0
    assert judged.findings.notes == []
    with pytest.raises(WrongResultError):
        judged.timing(runner(judged, "torch.relu(x) * 1.1"))
