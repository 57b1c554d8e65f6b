"""Calls in which nothing that the submission launches runs: what is right all the same was computed by other means.

Everything else in such a call is as ever, and no message announces it: the referee writes one word into the page that
launches look at. So it does not matter by what means the result was made, or what the process says of itself: torch
behind an observer that was switched off, functions below its dispatcher, numpy, Python, a child process, a decoy.
docs/design/evidence.md says what remains.
"""

from typing import TYPE_CHECKING

from warpsmith.errors import SubmissionError
from warpsmith.judge.correctness import gates
from warpsmith.judge.evidence.operator_names import ALLOWED, CONTIGUOUS, base_name
from warpsmith.judge.reference.recorder import OperatorCounts
from warpsmith.judge.runner.process import RunnerProcess
from warpsmith.types import CheckOutcome

if TYPE_CHECKING:
    from warpsmith.judge.correctness.verifier import Call
    from warpsmith.judge.timing.bracket import Bench

CHECK = "own_kernels"
CALLS = 2
LIMIT_S = 10.0
"""Host code may wait for a kernel that never ran."""
_MOVING = (
    ALLOWED | CONTIGUOUS | {"cat", "stack", "copy_", "_to_copy", "roll", "flip", "repeat", "constant_pad_nd"}
)
"""Operators that compute nothing: such a task needs no kernel."""


def outcome(bench: "Bench", runner: RunnerProcess, timeout_s: float) -> CheckOutcome | None:
    """Passed where the result needs the submission's own launches; None where they cannot be held back.

    To be asked of a runner when all else is known: what it keeps between calls may not survive this.
    """
    if runner.page is None:
        return None
    calls = [bench.fresh() for _ in range(CALLS)]
    if not all(_right(bench, runner, call, min(timeout_s, LIMIT_S)) for call in calls):
        return CheckOutcome(check=CHECK, passed=True, detail="the result needs the submission's own launches")
    if why := _needless(bench, calls):
        return CheckOutcome(check=CHECK, passed=True, detail=f"not told: {why}")
    return CheckOutcome(
        check=CHECK, passed=False, detail="the result is right when none of the submission's launches run"
    )


def _right(bench: "Bench", runner: RunnerProcess, call: "Call", timeout_s: float) -> bool:
    try:
        return all(found.passed for found in bench.run(runner, timeout_s, call=call, disarmed=True).found)
    except SubmissionError:
        return False


def _needless(bench: "Bench", calls: list["Call"]) -> str:
    """Why an honest submission may be right without a kernel; empty where none is."""
    bench.verifier.wear(calls[0])
    drawn = [call.inputs() for call in calls]
    with OperatorCounts() as recorder:
        first, second = (
            bench.reference.forward(bench.model, inputs, seed=call.forward_seed)
            for inputs, call in zip(drawn, calls, strict=True)
        )
    if all(base_name(name) in _MOVING for name in recorder.seen):
        return "the task only moves its inputs"
    if gates.compare(first, second).passed:
        return "one call's output passes for another's"
    return ""
