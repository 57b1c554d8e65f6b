"""On the simulator: why a result is wrong, as far as other thread orders and other fresh memory can tell.

The candidate runs on the same inputs in every order of threads, then once more in each with zeros in place of NaN in
memory that nothing has written. A right kernel gives one result in all of them.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from warpsmith.errors import SubmissionError, WrongResultError
from warpsmith.judge.runner.process import RunnerProcess
from warpsmith.sim import fill, order
from warpsmith.types import Phase

if TYPE_CHECKING:
    from warpsmith.judge.correctness.gates import Comparison
    from warpsmith.judge.correctness.verifier import Call, Verifier
    from warpsmith.judge.session import Session
    from warpsmith.judge.timing.bracket import Bench

BUDGET_S = 20.0
"""No further call is begun after this."""


@contextmanager
def explained(session: "Session", runner: RunnerProcess) -> Iterator[None]:
    """Adds notes to the session's findings where the body raises WrongResultError after a call was compared."""
    try:
        yield
    except WrongResultError:
        if not session.cuda and session.findings.phase is Phase.CORRECTNESS:
            session.findings.notes += explanations(session.bench, runner, session.settings.call_timeout_s)
        raise


def explanations(bench: "Bench", runner: RunnerProcess, timeout_s: float) -> list[str]:
    """What the result depends on that it should not. Empty where nothing was found or the candidate fails now."""
    deadline = time.monotonic() + BUDGET_S
    call = bench.fresh()
    try:
        in_order = _results(bench, runner, call, "call", min(timeout_s, BUDGET_S), deadline)
        zeroed = _results(bench, runner, call, "zeroed", min(timeout_s, BUDGET_S), deadline)
    except SubmissionError:
        return []
    notes = []
    if note := _order_note(in_order):
        notes.append(note)
    both = [(in_order[o], zeroed[o]) for o in in_order if o in zeroed]
    if any(not first.equals(other) for first, other in both):
        notes.append(fill.UNWRITTEN)
    return notes


class _Result:
    """A candidate's output in one order, and whether the reference agrees."""

    def __init__(self, output: object, right: bool):
        self.output, self.right = output, right

    def equals(self, other: "_Result") -> bool:
        """True where the two agree within the gate: sums may be added up in any order."""
        from warpsmith.judge.correctness import gates

        return gates.compare(self.output, other.output).scale_gate


def _results(
    bench: "Bench", runner: RunnerProcess, call: "Call", op: str, timeout_s: float, deadline: float
) -> dict[int, _Result]:
    """Order → result, for as many orders as there is time for."""
    kept = _Keeper(bench.verifier)
    results: dict[int, _Result] = {}
    with kept.in_place_of(bench):
        for _ in order.ORDERS:
            if time.monotonic() > deadline:
                break
            threads = bench.run(runner, timeout_s, op=op, call=call).order
            results[threads] = kept.results[-1]
    return {o: results[o] for o in order.ORDERS if o in results}


def _order_note(results: dict[int, _Result]) -> str:
    """Which orders give which result; empty where all give one."""
    if len(results) < 2:
        return ""
    first, *others = results
    differ = [o for o in others if not results[first].equals(results[o])]
    if not differ:
        return ""
    right = [o for o in results if results[o].right]
    if right:
        wrong = [o for o in results if o not in right]
        said = f"right in {_names(right)}; wrong in {_names(wrong)}" if wrong else ""
    else:
        said = f"{_names([first])} and {_names(differ[:1])} differ"
    return f"{order.DEPENDS_ON_ORDER} ({said})" if said else ""


def _names(orders: list[int]) -> str:
    return ", ".join(order.name(o) for o in orders)


class _Keeper:
    """Stands in for a verifier: keeps each output besides judging it."""

    def __init__(self, verifier: "Verifier"):
        self._verifier = verifier
        self.results: list[_Result] = []

    @contextmanager
    def in_place_of(self, bench: "Bench") -> Iterator[None]:
        """For the body of a with statement, `bench` asks this one."""
        bench.verifier = self  # type: ignore[assignment]
        try:
            yield
        finally:
            bench.verifier = self._verifier

    def verify(self, call: "Call", actual: object, shared: list[Any]) -> "Comparison":
        """As the verifier's; a wrong result raises nothing."""
        from warpsmith.judge.correctness import gates
        from warpsmith.judge.runner import values

        spec, tensors = values.flatten(actual)
        copy = values.unflatten(spec, [_copied(t) for t in tensors])
        try:
            found = self._verifier.verify(call, actual, shared)
        except WrongResultError:
            found = gates.Comparison(False, False)
        self.results.append(_Result(copy, found.passed))
        return found


def _copied(tensor: Any) -> Any:
    """A copy; nothing of what is larger than its memory: an element expanded to a terabyte is no right output."""
    larger = tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes()
    return tensor.new_empty(0) if larger else tensor.clone()
