"""The untimed checks of one candidate: the task's own inputs, other distributions of them, other forms of them.

The task's own inputs are judged by both gates. Other distributions are judged by the scale-aware gate alone, where
the reference is finite, not constant, and resolves more than TF32's last bit. Other shapes and layouts are tried
last, when nothing is left to be spoilt, and only told.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from warpsmith.errors import CandidateTimedOutError, SubmissionError, TaskError, WrongResultError
from warpsmith.judge.correctness import gates
from warpsmith.judge.correctness.distributions import DISTRIBUTIONS, Distribution, smaller_batches, transposed
from warpsmith.judge.correctness.verifier import Draw
from warpsmith.judge.runner import values
from warpsmith.judge.runner.process import RunnerProcess
from warpsmith.judge.timing.bracket import Bench, Bracket
from warpsmith.types import CheckOutcome, ErrorStats

EXTRA_BUDGET_S = 20.0
"""Other distributions stop here: on the simulator one call may take seconds."""
HELD_OUT_TIMEOUT_S = 20.0
DISTRIBUTIONS_CHECK = "distributions"
LAYOUT_CHECK = "held_out_layout"
SHAPE_CHECK = "held_out_shape"


@dataclass
class Tally:
    """What the calls checked so far showed."""

    calls: int = 0
    error: ErrorStats | None = None
    paper_gate: bool | None = None
    scale_gate: bool | None = None
    checks: list[CheckOutcome] = field(default_factory=list)

    def add(self, bracket: Bracket) -> Bracket:
        """Counts a bracket's comparisons; raises WrongResultError where one fails."""
        for found in bracket.found:
            self.calls += 1
            self.paper_gate = found.paper_gate and self.paper_gate is not False
            self.scale_gate = found.scale_gate and self.scale_gate is not False
            worst = self.error is None or not found.passed or found.rel >= self.error.rel
            if found.problem is None and worst:
                self.error = _stats(found, self.calls)
            if not found.passed:
                raise WrongResultError(describe(found))
        return bracket

    def add_extra(self, bracket: Bracket, name: str) -> None:
        """The same on another distribution: by the scale-aware gate alone."""
        for found in bracket.found:
            self.calls += 1
            if not found.scale_gate:
                self.scale_gate = False
                if found.problem is None:
                    self.error = _stats(found, self.calls)
                raise WrongResultError(f"on {name} inputs {describe(found, paper=False)}")


class Checks:
    """Checks of one runner on one bench, tallied in `tally`."""

    def __init__(self, bench: Bench, tally: Tally, call_timeout_s: float):
        self.bench, self.tally = bench, tally
        self.timeout_s = call_timeout_s

    def distributions(self, runner: RunnerProcess) -> None:
        """One call on each distribution under which the reference says something. Raises WrongResultError."""
        if self.bench.verifier.noise:
            return
        if faulting := self.bench.verifier.faulting:
            detail = f"not tried: {faulting} faults on values that the task never draws"
            self.tally.checks.append(CheckOutcome(check=DISTRIBUTIONS_CHECK, passed=True, detail=detail))
            return
        held: list[str] = []
        skipped: list[str] = []
        since = time.monotonic()
        for distribution in DISTRIBUTIONS:
            if time.monotonic() - since > EXTRA_BUDGET_S:
                skipped.append(f"{distribution.name} (no time)")
                continue
            why = self._distribution(runner, distribution)
            if why is None:
                held.append(distribution.name)
            elif why:
                skipped.append(f"{distribution.name} ({why})")
        detail = f"right on {', '.join(held)}" if held else "none applies"
        detail += f"; not judged on {', '.join(skipped)}" if skipped else ""
        if held or skipped:
            self.tally.checks.append(CheckOutcome(check=DISTRIBUTIONS_CHECK, passed=True, detail=detail))

    def _distribution(self, runner: RunnerProcess, distribution: Distribution) -> str | None:
        """None where the candidate is right; else why it is not judged, empty where nothing would change."""
        drawn = self.bench.reference.draw_inputs

        def draw(seed: int) -> list:
            inputs = drawn(seed)
            return distribution.apply(inputs) or inputs

        call = self.bench.fresh(draw, paper=False)
        if distribution.apply(drawn(call.input_seed)) is None:
            return ""
        why = self.bench.verifier.usable(call)
        if why:
            return why
        bracket = self.bench.run(runner, self.timeout_s, call=call)
        (found,) = bracket.found
        # No accuracy excuses a value that is not finite, or of another form, where the reference's is.
        if not found.scale_gate and found.problem is None:
            if not self.bench.verifier.accurate(call):
                return "the reference is not accurate there"
            if not self.bench.verifier.resolves(call):
                return "TF32 does not resolve it"
        self.tally.add_extra(bracket, distribution.name)
        return None

    def held_out(self, runner: RunnerProcess) -> None:
        """Other layouts and shapes, told and never counted. To be called last: the runner may not survive it."""
        drawn = self.bench.reference.draw_inputs
        inputs = drawn(0)
        if self.bench.verifier.faulting or (
            any(not t.is_floating_point() for t in values.flatten(inputs)[1]) and self.bench.cuda
        ):
            # An index that a smaller tensor does not have would end this process's own context.
            return
        attempts: list[tuple[str, str, Callable[[list], list]]] = []
        if transposed(inputs) is not None:
            attempts.append((LAYOUT_CHECK, "transposed in memory", transposed))
        attempts += [(SHAPE_CHECK, name, cut) for name, cut in smaller_batches(inputs)]
        del inputs
        told: set[str] = set()
        for check, name, change in attempts:
            if check in told:
                continue
            try:
                said = self._try(runner, lambda seed, change=change: change(drawn(seed)))
            except CandidateTimedOutError:
                return
            if said is not None:
                told.add(check)
                differs, detail = said
                self.tally.checks.append(
                    CheckOutcome(check=check, passed=not differs, detail=f"{name}: {detail}")
                )

    def _try(self, runner: RunnerProcess, draw: Draw) -> tuple[bool, str] | None:
        """Whether the result of a call that the task never makes differs, and what became of the call.

        None where the reference does not make it either, or does not resolve it.
        """
        call = self.bench.fresh(draw, paper=False)
        if self.bench.verifier.usable(call):
            return None
        try:
            bracket = self.bench.run(runner, min(self.timeout_s, HELD_OUT_TIMEOUT_S), call=call)
        except CandidateTimedOutError:
            raise
        except WrongResultError as error:
            return True, f"differs ({error})"
        except SubmissionError as error:
            return False, f"not supported ({error})"
        except TaskError:
            return None
        (found,) = bracket.found
        if found.scale_gate:
            return False, "ok"
        if found.problem is None and not self.bench.verifier.resolves(call):
            return None
        return True, f"differs ({describe(found, paper=False)})"


def describe(found: gates.Comparison, *, paper: bool = True) -> str:
    """A failed comparison in one line: the gate that it failed, and how."""
    if found.problem is not None:
        return found.describe()
    gate = "the paper's gate" if paper and not found.paper_gate else "the scale-aware gate"
    return f"outside {gate}: {found.describe()}"


def _stats(found: gates.Comparison, call: int) -> ErrorStats:
    return ErrorStats(
        rel=found.rel, max_abs=found.max_abs, where=found.where, call=call,
        mismatched_fraction=found.mismatched_fraction,
    )  # fmt: skip
