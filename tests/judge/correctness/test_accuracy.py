"""The rule that decides which modes compete, by hand-computed values; and errors of real modes on the CPU."""

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.judge.inprocess import InProcess, forward, own

from warpsmith.errors import WrongResultError
from warpsmith.judge.correctness.accuracy import (
    AS_DRAWN,
    SAME,
    at_least,
    judged,
    relative_error,
    within_a_digit,
)
from warpsmith.judge.job import JobFolder, RefereeJob
from warpsmith.judge.runner.inside import Runner
from warpsmith.judge.session import Session
from warpsmith.judge.timing.clock import Samples
from warpsmith.judge.timing.modes import Entry, mode_named
from warpsmith.types import Accuracy, BaselineKind, Device
from warpsmith.types.protocols import JudgeSettings

EPS = 2.0**-23
# Measured on one H200 for a product of two 4096 x 4096 matrices of mean zero.
GEMM = {"default": 1.2e-6, "strict": 1.2e-6, "tf32": 2.9e-4, "bf16": 2.9e-3, "fp16": 2.9e-4}


def gemm(candidate: float, eps: float = EPS) -> tuple[str, ...]:
    errors = {mode: {"zero-mean": error} for mode, error in GEMM.items()}
    return judged({"zero-mean": candidate}, errors, {}, eps=eps).competing()


def test_a_candidate_meets_every_mode_that_is_as_accurate_as_itself_to_a_digit() -> None:
    assert gemm(1.2e-6) == ("default", "strict")
    assert gemm(9.6e-6) == ("default", "strict")  # three products of split operands
    assert gemm(4.2e-5) == ("default", "strict", "tf32", "fp16")  # one product of them
    assert gemm(2.9e-4) == ("default", "strict", "tf32", "bf16", "fp16")
    assert gemm(2.9e-3) == ("default", "strict", "tf32", "bf16", "fp16")


def test_exactly_ten_times_the_error_still_competes() -> None:
    for error, near in ((10 * 1e-4, True), (math.nextafter(10 * 1e-4, 1), False)):
        assert bool(within_a_digit({"x": 1e-4}, {"x": error}, EPS)) is near


def test_four_units_of_the_output_are_exact() -> None:
    assert within_a_digit({"x": 0.0}, {"x": 40 * EPS}, EPS) == "x"
    assert not within_a_digit({"x": 0.0}, {"x": 41 * EPS}, EPS)
    # Outputs in bfloat16 tell no mode apart.
    assert gemm(1e-6, eps=2.0**-7) == tuple(GEMM)


def test_a_mode_must_be_worse_on_every_distribution_to_be_shut_out() -> None:
    candidate = {"as drawn": 1e-5, "zero-mean": 1e-6}
    assert within_a_digit(candidate, {"as drawn": 9e-5, "zero-mean": 1.0}, EPS) == "as drawn"
    assert within_a_digit(candidate, {"as drawn": 2e-4, "zero-mean": 9e-6}, EPS) == "zero-mean"
    assert within_a_digit(candidate, {"as drawn": 2e-4, "zero-mean": 1e-4}, EPS) == ""


def test_without_an_oracle_only_what_always_competes_does() -> None:
    found = judged({}, {}, {}, eps=EPS, no_oracle="no memory")
    assert found.competing() == ("default", "strict")
    assert (found.oracle, found.oracle_problem, found.candidate) == (False, "no memory", {})
    assert "no memory" in found.modes[2].why


def test_what_fails_the_gates_never_competes() -> None:
    errors = {mode: {"x": 1e-6} for mode in GEMM}
    found = judged({"x": 1e-6}, errors, {"fp16": "fails the correctness gates"}, eps=EPS)
    assert found.competing() == ("default", "strict", "tf32", "bf16")
    assert found.modes[-1].why == "fails the correctness gates"


@pytest.mark.parametrize("worst", [math.nan, math.inf])
def test_an_error_that_is_no_number_is_the_largest(worst: float) -> None:
    errors = {mode: {"x": 1e-6} for mode in GEMM} | {"bf16": {"x": worst}}
    assert judged({"x": worst}, errors, {}, eps=EPS).competing() == tuple(GEMM)
    assert judged({"x": 1e-6}, errors, {}, eps=EPS).competing() == ("default", "strict", "tf32", "fp16")


def test_zero_errors_compete() -> None:
    assert judged({"x": 0.0}, {mode: {"x": 0.0} for mode in GEMM}, {}, eps=EPS).competing() == tuple(GEMM)


errors = st.floats(min_value=0, max_value=10) | st.just(math.inf)


@given(st.dictionaries(st.sampled_from("abc"), st.tuples(errors, errors), min_size=1), errors)
def test_a_less_accurate_candidate_never_meets_fewer_modes(pairs: dict, more: float) -> None:
    candidate = {name: pair[0] for name, pair in pairs.items()}
    mode = {name: pair[1] for name, pair in pairs.items()}
    worse = {name: max(error, more) for name, error in candidate.items()}
    if within_a_digit(candidate, mode, EPS):
        assert within_a_digit(worse, mode, EPS)


# ---- errors ---------------------------------------------------------------------------------------------------


def test_the_error_is_relative_frobenius_and_the_largest_over_outputs() -> None:
    exact = [torch.tensor([3.0, 4.0]).double(), torch.tensor([[1.0]]).double(), torch.tensor([7])]
    assert relative_error(exact, [torch.tensor([3.0, 4.5]), torch.ones(1, 1), torch.tensor([7])]) == 0.1
    assert relative_error(exact, [torch.tensor([3.0, 4.0]), torch.zeros(1, 1), torch.tensor([8])]) == 1.0


def test_blocks_add_up() -> None:
    exact = torch.randn(300, 400, dtype=torch.float64)
    noisy = exact + 1e-3 * torch.randn_like(exact)
    want = ((noisy - exact).norm() / exact.norm()).item()
    assert relative_error(exact, noisy) == pytest.approx(want, rel=1e-12)


def test_what_is_not_finite_is_right_only_where_the_oracle_is_so_too() -> None:
    exact = torch.tensor([1.0, math.inf, math.nan], dtype=torch.float64)
    assert relative_error(exact, torch.tensor([1.0, math.inf, math.nan])) == 0
    for wrong in ([math.nan, math.inf, math.nan], [1.0, -math.inf, math.nan], [1.0, math.inf, 0.0]):
        assert relative_error(exact, torch.tensor(wrong)) == math.inf
    assert relative_error(torch.zeros(2).double(), torch.zeros(2)) == 0
    assert relative_error(torch.zeros(2).double(), torch.ones(2)) == math.inf
    assert relative_error([torch.ones(2).double()], [torch.ones(2), torch.ones(2)]) == math.inf
    assert relative_error(torch.ones(2).double(), torch.ones(3)) == math.inf


def test_accuracy_shown_only_where_it_is_measured_gains_nothing() -> None:
    assert at_least(1e-7, 2.9e-4, 1e-6) == pytest.approx(2.89e-4)
    assert at_least(3e-4, 2.9e-4, 1e-6) == 3e-4
    assert at_least(1e-7, math.inf, 1e-6) == math.inf


# ---- a session ------------------------------------------------------------------------------------------------

LINEAR = """    def __init__(self):
        super().__init__()
        self.l = nn.Linear(256, 256)

    def forward(self, x):
        return self.l(x)
"""
# One product an output: what bfloat16 makes of it is inside the gates whatever is drawn.
SINGLE = LINEAR.replace("nn.Linear(256, 256)", "nn.Linear(1, 64)")
LOW = "(x.{0}() @ self.l.weight.{0}().T).float() + self.l.bias"


@contextmanager
def admitted(root: Path, task: str) -> Iterator[Session]:
    """A session that has admitted `task`, in the folder `root`."""
    folder = JobFolder(root)
    for path in (folder.share, folder.candidate, folder.baseline):
        path.mkdir(parents=True)
    (folder.baseline / "task.py").write_text(task)
    settings = JudgeSettings(device=Device.SIM)
    job = RefereeJob(task_hash="0" * 64, task_name="own", submission_hash="0" * 64, settings=settings)
    session = Session(folder, job, lambda phase, what: None)
    state = torch.get_rng_state()
    try:
        session.admit(task)
        yield session
    finally:
        torch.set_rng_state(state)
        session.bench.close()


def accuracy_of(root: Path, model: str, inputs: str, candidate: str | None = None) -> Accuracy:
    """The accuracy that a judgement of `candidate` (the model's own forward by default) finds."""
    task, submission = own(model, inputs)
    if candidate is not None:
        submission = submission.replace("return self.l(x)", candidate)
    with admitted(root, task) as session:
        runner = InProcess(submission)
        session.correctness(runner)
        return session.accuracy(runner)


def why(found: Accuracy, mode: str) -> str:
    return next(m.why for m in found.modes if m.mode == mode)


def test_an_exact_candidate_does_not_meet_half_precision(tmp_path: Path) -> None:
    found = accuracy_of(tmp_path, LINEAR, "torch.rand(64, 256)")
    assert list(found.candidate) == [AS_DRAWN, "zero-mean", "heavy-tailed"]
    # On a CPU no flag makes TF32 of anything.
    assert found.competing() == ("default",)
    assert why(found, "strict") == why(found, "tf32") == SAME
    assert max(found.candidate.values()) < 1e-6
    for mode, low, high in (("bf16", 1e-3, 1e-2), ("fp16", 1e-4, 1e-3)):
        (row,) = (m for m in found.modes if m.mode == mode)
        assert row.errors.keys() == found.candidate.keys()
        assert all(low < error < high for error in row.errors.values())


def test_a_candidate_in_bfloat16_meets_bfloat16(tmp_path: Path) -> None:
    # One operand alone, and none of it far from the mean: rounding both would at times fail the gate of 1e-2.
    rounded = "return x.bfloat16().float() @ self.l.weight.T + self.l.bias"
    found = accuracy_of(tmp_path, SINGLE, "2 * torch.rand(256, 1) - 1", rounded)
    assert list(found.candidate) == [AS_DRAWN, "heavy-tailed"]  # drawn with mean zero
    assert found.competing() == ("default", "bf16", "fp16")
    assert 5e-4 < found.candidate[AS_DRAWN] < 5e-3


def test_accuracy_on_other_inputs_than_the_tasks_does_not_shut_a_mode_out(tmp_path: Path) -> None:
    careful = f"return self.l(x) if x.min() < -1e-4 else {LOW.format('bfloat16')}"
    found = accuracy_of(tmp_path, SINGLE, "torch.rand(256, 1)", careful)
    assert found.candidate["zero-mean"] < 1e-6
    assert "bf16" in found.competing() and why(found, "bf16").endswith(f"on {AS_DRAWN} inputs")


def test_modes_that_change_nothing_are_skipped_with_the_reason(tmp_path: Path) -> None:
    found = accuracy_of(tmp_path, forward("x * x + 1"), "torch.randn(64, 32, dtype=torch.float64)")
    assert found.competing() == ("default",)
    assert why(found, "strict") == "no float32 tensor: the same as default"
    assert found.eps == 2.0**-52


def test_a_task_that_no_mode_changes_has_one_rival(tmp_path: Path) -> None:
    found = accuracy_of(tmp_path, forward("torch.softmax(x, 1)"), "torch.randn(64, 32)")
    assert found.competing() == ("default",)
    assert {m.why for m in found.modes[1:]} == {SAME}


def test_a_task_without_floats_has_no_oracle(tmp_path: Path) -> None:
    found = accuracy_of(tmp_path, forward("x * x + 1"), "torch.randint(0, 99, (64, 32))")
    assert (found.oracle, found.oracle_problem) == (False, "the output holds no floats")
    assert found.competing() == ("default",)


def test_a_mode_that_fails_the_gates_does_not_compete(tmp_path: Path) -> None:
    # The difference of two nearly equal products: half precision has no digit of it left.
    model = LINEAR.replace(
        "return self.l(x)", "return self.l(x) - F.linear(x, self.l.weight * 0.999, self.l.bias)"
    )
    found = accuracy_of(tmp_path, model, "torch.rand(64, 256)")
    assert why(found, "bf16") == f"fails the correctness gates on {AS_DRAWN} inputs"
    assert "bf16" not in found.competing()


def test_a_task_that_keeps_its_results_narrow_has_no_oracle(tmp_path: Path) -> None:
    model = """    def __init__(self):
        super().__init__()
        self.tables = [torch.zeros(64, 32)]

    def forward(self, x):
        return self.tables[0].copy_(torch.tanh(x)) * 2
"""
    found = accuracy_of(tmp_path, model, "torch.randn(64, 32)")
    assert not found.oracle and found.competing() == ("default", "strict")


# ---- baselines in these modes ---------------------------------------------------------------------------------


def baseline(session: Session, mode: str) -> tuple[Samples, torch.Tensor]:
    """Brackets of an eager baseline by the runner's own program, in this process, and one more output."""
    runner = InProcess("")
    runner.name, runner._runner = f"the {mode} eager baseline", Runner(None, "cpu")
    path, modules = sys.path[:], set(sys.modules)
    try:
        entry = Entry(mode_named(mode), BaselineKind.EAGER)
        samples, null_ms = session.baseline(runner, entry, 60.0)
        assert null_ms >= 0
        with torch.no_grad():
            return samples, runner._runner.forward(torch.randn(256, 1))
    finally:
        sys.path[:] = path
        for name in {"task"} & (set(sys.modules) - modules):
            del sys.modules[name]


def test_a_baseline_is_timed_as_its_mode_says(tmp_path: Path) -> None:
    with admitted(tmp_path, own(SINGLE, "torch.rand(256, 1)")[0]) as session:
        for mode, rounded in (("default", False), ("bf16", True)):
            samples, output = baseline(session, mode)
            assert len(samples.raw_ms) >= 10 and output.dtype == torch.float32
            assert torch.equal(output, output.bfloat16().float()) is rounded


def test_a_baseline_that_fails_the_gates_is_wrong(tmp_path: Path) -> None:
    body = "return self.l(x) - F.linear(x, self.l.weight * 0.999, self.l.bias)"
    task = own(LINEAR.replace("return self.l(x)", body), "torch.rand(64, 256)")[0]
    with admitted(tmp_path, task) as session, pytest.raises(WrongResultError, match="gate"):
        baseline(session, "bf16")
