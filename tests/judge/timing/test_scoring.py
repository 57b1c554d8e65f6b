"""Which baselines are measured, what is kept of them, and the ratios made of them."""

import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.cli import wiring
from warpsmith.errors import CandidateCrashedError, CandidateTimedOutError
from warpsmith.judge.correctness.accuracy import judged
from warpsmith.judge.timing.baselines import BaselineStore
from warpsmith.judge.timing.clock import NullCost, Samples, time_stats
from warpsmith.judge.timing.modes import MODES, PAPER, Entry, competitors
from warpsmith.judge.timing.ratio import Interleaved
from warpsmith.judge.timing.scoring import MENU_SHARE, Scoring, matched_speedup, wanted
from warpsmith.types import Accuracy, BaselineKind, Device, Machine, Status, Submission, Task
from warpsmith.types.protocols import JudgeSettings, Menu

EPS = 2.0**-23
MACHINE = Machine(device=Device.CUDA, gpu_uuid="GPU-1", driver="580", torch="2.11")
ALL_TIMES = {
    "default eager": 2.72, "default compile": 2.70, "strict eager": 2.72, "strict compile": 2.71,
    "tf32 eager": 0.37, "tf32 compile": 0.38, "bf16 eager": 0.20, "bf16 compile": 0.19,
    "fp16 eager": 0.20, "fp16 compile": 0.21,
}  # fmt: skip
CANDIDATE = time_stats(Samples(1, (0.35,) * 5), 0.0)


def accuracy(error: float, *, no_oracle: str = "") -> Accuracy:
    modes = {"default": 1.2e-6, "strict": 1.2e-6, "tf32": 2.9e-4, "bf16": 2.9e-3, "fp16": 2.9e-4}
    errors = {mode: {"zero-mean": e} for mode, e in modes.items()}
    return judged({"zero-mean": error}, errors, {}, eps=EPS, no_oracle=no_oracle)


@dataclass
class Runner:
    """A runner that needs no process."""

    name: str
    closed: bool = False

    def await_ready(self) -> None:
        return None

    def close(self) -> None:
        self.closed = True


@dataclass
class Bench:
    """A session that answers with given times, or raises; and what it was asked."""

    times: dict = field(default_factory=lambda: dict(ALL_TIMES))
    prepares: bool = False
    unstable: str = ""
    asked: list[str] = field(default_factory=list)
    started: list[Runner] = field(default_factory=list)

    def start(self, name: str) -> Runner:
        self.started.append(Runner(name))
        return self.started[-1]

    def baseline(self, runner: Runner, entry: Entry, timeout_s: float) -> tuple[Samples, float]:
        assert runner.name == f"the {entry.name} baseline" and not runner.closed
        self.asked.append(entry.name)
        found = self.times[entry.name]
        if isinstance(found, Exception):
            raise found
        return Samples(1, (found,) * 5, unstable=self.unstable), 0.0


def scored(
    folder: Path, bench: Bench, found: Accuracy | None, menu: Menu = Menu.MATCHED, spent_s: float = 0.0
) -> Scoring:
    scoring = Scoring(
        JudgeSettings(device=Device.CUDA, baselines=menu), "t" * 64, MACHINE,
        store=BaselineStore(folder), start=bench.start, begun=time.monotonic() - spent_s,
    )  # fmt: skip
    scoring.begin()
    scoring.measure(bench, found)
    assert all(runner.closed for runner in bench.started)
    return scoring


def matched(scoring: Scoring, found: Accuracy | None, *, prepares: bool = False):
    return scoring.ratios(CANDIDATE, found, prepares=prepares)["speedup"].matched


def test_a_tf32_candidate_is_matched_with_tf32(tmp_path: Path) -> None:
    bench, found = Bench(times=ALL_TIMES | {"bf16 eager": 9.0, "bf16 compile": 9.0}), accuracy(2.9e-4)
    scoring = scored(tmp_path, bench, found)
    ratio = matched(scoring, found)
    # float16 has TF32's mantissa.
    assert (ratio.eager_baseline, ratio.compile_baseline, ratio.best_baseline) == (
        "fp16 eager",
        "fp16 compile",
        "fp16 eager",
    )
    assert ratio.best == pytest.approx(0.20 / 0.35)
    assert scoring.ratios(CANDIDATE, found, prepares=False)["speedup"].paper.eager == pytest.approx(
        2.72 / 0.35
    )


def test_a_strict_candidate_is_matched_with_strict_alone_and_pays_for_no_more(tmp_path: Path) -> None:
    bench, found = Bench(), accuracy(1.2e-6)
    ratio = matched(scored(tmp_path, bench, found), found)
    assert bench.asked == ["default eager", "default compile", "strict eager", "strict compile"]
    assert (ratio.eager, ratio.compile) == (pytest.approx(2.72 / 0.35), pytest.approx(2.70 / 0.35))
    assert (ratio.best, ratio.best_baseline) == (ratio.compile, "default compile")


def test_a_bf16_candidate_is_matched_with_bf16(tmp_path: Path) -> None:
    bench, found = Bench(), accuracy(2.9e-3)
    ratio = matched(scored(tmp_path, bench, found), found)
    assert set(bench.asked) == set(ALL_TIMES)
    assert (ratio.best_baseline, ratio.best) == ("bf16 compile", pytest.approx(0.19 / 0.35))


def test_without_an_oracle_default_and_strict_are_left(tmp_path: Path) -> None:
    bench, found = Bench(), accuracy(1.0, no_oracle="no memory")
    assert matched(scored(tmp_path, bench, found), found).best_baseline == "default compile"
    assert len(bench.asked) == 4


def test_the_published_menu_has_two_baselines_and_no_matched_ratio(tmp_path: Path) -> None:
    bench = Bench()
    scoring = scored(tmp_path, bench, None, Menu.PAPER)
    assert bench.asked == [e.name for e in PAPER]
    assert matched(scoring, None) is None


def test_the_whole_menu_changes_no_ratio(tmp_path: Path) -> None:
    extra = {f"default {kind}": 0.01 for kind in ("frozen", "max-autotune", "cuda-graphs")}
    bench, found = Bench(times=ALL_TIMES | extra), accuracy(1.2e-6)
    scoring = scored(tmp_path, bench, found, Menu.ALL)
    assert set(bench.asked) == set(ALL_TIMES) | set(extra)
    assert matched(scoring, found).best_baseline == "default compile"
    menu = {f"{m.mode} {m.kind}": m for m in scoring.ratios(CANDIDATE, found, prepares=False)["timings"].menu}
    assert menu["default tvm"].problem == "was skipped: TVM is not installed"
    assert menu["bf16 compile"].stats.median_ms == 0.19


def test_a_candidate_with_prepare_meets_frozen_weights(tmp_path: Path) -> None:
    frozen = {"default frozen": 0.5, "strict frozen": 0.6}
    bench, found = Bench(times=ALL_TIMES | frozen, prepares=True), accuracy(1.2e-6)
    ratio = matched(scored(tmp_path, bench, found), found, prepares=True)
    assert (ratio.compile_baseline, ratio.compile) == ("default frozen", pytest.approx(0.5 / 0.35))
    assert ratio.eager_baseline == "default eager"


def test_what_was_measured_is_found_again_here_and_nowhere_else(tmp_path: Path) -> None:
    found = accuracy(2.9e-3)
    first = matched(scored(tmp_path, Bench(), found), found)
    again = Bench()
    assert matched(scored(tmp_path, again, found), found) == first
    assert (again.asked, again.started) == ([], [])
    elsewhere = Scoring(
        JudgeSettings(device=Device.CUDA), "t" * 64, MACHINE.model_copy(update={"driver": "590"}),
        store=BaselineStore(tmp_path), start=again.start, begun=time.monotonic(),
    )  # fmt: skip
    elsewhere.begin()
    assert len(again.started) == 2


def test_a_baseline_that_does_not_run_is_told_remembered_and_no_rival(tmp_path: Path) -> None:
    times = ALL_TIMES | {
        "bf16 compile": CandidateCrashedError("call: it raised"),
        "bf16 eager": CandidateTimedOutError("no answer within 600 s"),
    }
    bench, found = Bench(times=times), accuracy(2.9e-3)
    scoring = scored(tmp_path, bench, found)
    assert matched(scoring, found).best_baseline == "fp16 eager"
    assert scoring.problems() == (
        "baseline bf16 eager timed out: no answer within 600 s",
        "baseline bf16 compile failed: call: it raised",
    )
    again = Bench()
    assert scored(tmp_path, again, found).problems() == scoring.problems() and again.asked == []


def test_a_menu_that_time_did_not_suffice_for_gives_no_ratio_and_goes_on_next_time(tmp_path: Path) -> None:
    bench, found = Bench(), accuracy(2.9e-3)
    scoring = scored(tmp_path, bench, found, spent_s=MENU_SHARE * 900.0)
    assert matched(scoring, found) is None
    assert bench.asked == ["default eager", "default compile"]
    assert "no time was left for the baselines strict eager" in scoring.problems()[0]
    cut = Bench(times=ALL_TIMES | {"strict eager": CandidateTimedOutError("no answer within 30 s")})
    assert matched(scored(tmp_path, cut, found, spent_s=MENU_SHARE * 900.0 - 30), found) is None
    rest = Bench()
    assert matched(scored(tmp_path, rest, found), found) is not None
    assert rest.asked == ["strict eager"]  # a limit that was not its own says nothing about it


NULL = NullCost(0.0, 0.0, 0.0)


@dataclass
class Timer:
    """Whose bracket raised."""

    failed: object = None


@dataclass
class InTurn(Bench):
    """Answers measurements in turn as well; or raises, as the runner that is named."""

    in_turn: dict = field(default_factory=dict)
    timer: Timer = field(default_factory=Timer)

    def interleaved(self, candidate: object, runner: Runner, entry: Entry, timeout_s: float) -> Interleaved:
        assert not runner.closed
        found = self.in_turn[entry.name]
        if isinstance(found, tuple) and isinstance(found[1], Exception):
            self.timer.failed = candidate if found[0] == "candidate" else runner
            raise found[1]
        mine, theirs, unstable = found
        return Interleaved(
            Samples(1, (mine,) * 9, unstable=unstable), Samples(1, (theirs,) * 9, unstable=unstable), NULL
        )


NEAR = {"default eager": 0.36, "default compile": 0.70}


def again(folder: Path, found: tuple) -> tuple[Scoring, tuple[Entry, ...]]:
    bench = InTurn(times=NEAR, in_turn={"default eager": found})
    scoring = scored(folder, bench, None, Menu.PAPER)
    close = scoring.close_calls(CANDIDATE, None, prepares=False)
    for entry in close:
        scoring.again(bench, Runner("the candidate"), entry)
    assert all(runner.closed for runner in bench.started)
    return scoring, close


def test_a_ratio_near_a_threshold_is_that_of_a_measurement_in_turn(tmp_path: Path) -> None:
    scoring, close = again(tmp_path, (0.34, 0.37, ""))
    assert [entry.name for entry in close] == ["default eager"]
    made = scoring.ratios(CANDIDATE, None, prepares=False)
    assert made["speedup"].paper.eager == pytest.approx(0.37 / 0.34)
    assert made["speedup"].paper.compile == pytest.approx(0.70 / 0.35)
    (told,) = made["timings"].in_turn
    assert (told.mode, told.kind, told.candidate_ms, told.baseline_ms) == ("default", "eager", 0.34, 0.37)
    assert told.low == told.ratio == told.high == pytest.approx(0.37 / 0.34)


def test_a_baseline_that_is_faster_in_turn_than_it_was_alone_is_believed(tmp_path: Path) -> None:
    scoring, _ = again(tmp_path, (0.34, 0.33, ""))
    speedup = scoring.ratios(CANDIDATE, None, prepares=False)["speedup"]
    assert speedup.paper.eager == pytest.approx(0.33 / 0.34) and scoring.problems() == ()


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ((0.34, 0.40, ""), "it took 0.4 ms beside the submission, and 0.36 ms alone"),
        ((0.34, 0.36, "drifting: so"), "drifting: so"),
        (("baseline", CandidateCrashedError("it raised")), "could not be measured in turn: it raised"),
    ],
)
def test_what_in_turn_cannot_be_believed_is_told_and_the_first_times_stand(
    tmp_path: Path, found: tuple, said: str
) -> None:
    scoring, _ = again(tmp_path, found)
    made = scoring.ratios(CANDIDATE, None, prepares=False)
    assert made["speedup"].paper.eager == pytest.approx(0.36 / 0.35) and made["timings"].in_turn == ()
    assert said in scoring.problems()[0]


def test_a_candidate_that_fails_in_turn_has_failed(tmp_path: Path) -> None:
    with pytest.raises(CandidateCrashedError, match="it raised"):
        again(tmp_path, ("candidate", CandidateCrashedError("it raised")))


def test_an_unstable_baseline_is_shown_and_not_kept(tmp_path: Path) -> None:
    bench = Bench(unstable="bimodal: so")
    scoring = scored(tmp_path, bench, None, Menu.PAPER)
    assert scoring.ratios(CANDIDATE, None, prepares=False)["speedup"].paper.eager == pytest.approx(
        2.72 / 0.35
    )
    assert scoring.problems()[0] == "baseline default eager is unstable: bimodal: so"
    assert list(tmp_path.iterdir()) == []


def test_the_baselines_agreement_with_themselves_is_a_check(tmp_path: Path) -> None:
    told = scored(tmp_path, Bench(), None, Menu.PAPER).baseline_aa()
    assert (told.check, told.passed) == ("baseline_aa", True)
    assert Scoring(
        JudgeSettings(device=Device.CUDA), "t" * 64, MACHINE,
        store=BaselineStore(tmp_path), start=Bench().start, begun=0.0,
    ).baseline_aa().passed is False  # fmt: skip


times_of = st.dictionaries(
    st.sampled_from([Entry(mode, kind) for mode in MODES for kind in BaselineKind]),
    st.floats(min_value=1e-4, max_value=1e4), min_size=1,
)  # fmt: skip


@given(times_of, times_of, st.floats(min_value=1e-4, max_value=1e4))
def test_adding_a_baseline_never_raises_a_ratio_and_the_best_is_the_smaller(
    times: dict, more: dict, candidate_ms: float
) -> None:
    few, many = (
        matched_speedup({entry: ms / candidate_ms for entry, ms in found.items()})
        for found in (times, more | times)
    )
    for side in ("eager", "compile", "best"):
        before, after = getattr(few, side), getattr(many, side)
        assert before is None or after <= before
    assert few.best == min(v for v in (few.eager, few.compile) if v is not None)


@given(st.lists(st.floats(min_value=0, max_value=1), min_size=2, max_size=2))
def test_a_more_accurate_candidate_never_meets_more_baselines(errors: list[float]) -> None:
    less, more = (set(wanted(Menu.MATCHED, accuracy(e), prepares=False)) for e in sorted(errors))
    assert less <= more and set(PAPER) <= less
    assert less == set(PAPER) | set(competitors(accuracy(min(errors)).competing(), frozen=False))


GEMM = """import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, a, b):
        return a @ b

def get_inputs():
    return [torch.rand(2048, 2048), torch.rand(2048, 2048)]

def get_init_inputs():
    return []
"""


@pytest.mark.gpu
def test_a_product_of_float16_operands_is_matched_with_tf32(tmp_path: Path) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    product = "torch.mm(a.half(), b.half(), out_dtype=torch.float32)"
    model_new = GEMM.split("def get_inputs")[0].replace("a @ b", product).replace("Model(", "ModelNew(")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WARPSMITH_CACHE", str(tmp_path))
        judge = wiring.bench(Device.CUDA, lambda phase, what: None).judge
        submission = Submission(files={"model_new.py": model_new})
        verdict = judge.judge(Task(name="gemm", code=GEMM), submission, JudgeSettings(device=Device.CUDA))
    assert verdict.status is Status.PASSED, verdict.detail
    assert {"default", "tf32"} <= set(verdict.accuracy.competing())
    errors = {m.mode: m.errors.get("zero-mean") for m in verdict.accuracy.modes}
    assert errors["default"] < 5e-6 and 1e-4 < errors["tf32"] < 1e-3
    matched, paper = verdict.speedup.matched, verdict.speedup.paper
    assert matched.best < 2 < paper.eager
    assert matched.eager_baseline in ("tf32 eager", "fp16 eager")
