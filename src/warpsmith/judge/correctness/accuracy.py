"""How accurate a candidate is, and which of PyTorch's modes are accurate enough to be compared with it.

Errors are relative Frobenius errors against the task in float64, on inputs that are fixed for one judgement and
secret: as the task draws them, centred to mean zero, and heavy-tailed about zero. On positive inputs the same
roundings give errors a hundred times smaller, so a mean of zero is always among them.

A mode's errors are measured anew in every judgement and never kept: float64, which costs most, is needed for the
candidate on fresh inputs anyway, and errors compared on the same inputs and weights need no allowance for others.
"""

import copy
import math
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from warpsmith.errors import TaskRefusedError, TaskUnsupportedError
from warpsmith.judge.correctness import distributions, gates, moments
from warpsmith.judge.correctness.verifier import Call, Draw, Verifier
from warpsmith.judge.runner import values
from warpsmith.judge.runner.process import RunnerProcess
from warpsmith.judge.timing.bracket import Bench
from warpsmith.judge.timing.modes import DEFAULT, MODES, Mode, computing, flags
from warpsmith.types import Accuracy, ModeAccuracy

DIGIT = 10.0
EXACT_UNITS = 4
"""Rounding units of the output's dtype below which an error is no error."""
AS_DRAWN = "as drawn"
HEAVY = distributions.Distribution("heavy-tailed", lambda x, s: (x - s.mean) * ((x - s.mean) / s.rms).abs())
ZERO_MEAN = next(d for d in distributions.DISTRIBUTIONS if d.name == "zero-mean")
SAME = "gives default's very bits: what is true of default is true of it"
TASK_ONLY = "the reference is off from its own float64 run by more than the gate"
Errors = Mapping[str, float]
"""By distribution."""


# ---- the rule -------------------------------------------------------------------------------------------------


def within_a_digit(candidate: Errors, mode: Errors, eps: float) -> str:
    """A distribution on which a mode is not a decimal digit less accurate than the candidate; empty if there is none.

    On such a distribution err_mode > 10 · max(err_candidate, 4 eps) does not hold. A mode is shut out only by being
    worse on every distribution: a candidate cannot shut it out by being careful on some kind of inputs alone.
    """
    return next(
        (name for name, error in mode.items() if error <= DIGIT * max(candidate[name], EXACT_UNITS * eps)), ""
    )


def judged(
    candidate: Errors,
    errors: Mapping[str, Errors],
    refused: Mapping[str, str],
    *,
    eps: float,
    no_oracle: str = "",
    modes: Sequence[Mode] = MODES,
) -> Accuracy:
    """Which modes compete, and why. `refused`: modes that do not, whatever their errors, and the reason.

    `no_oracle`: why no errors are known; then only those compete that always do. An error that is not a number
    counts as infinite.
    """
    told = {} if no_oracle else _plain(candidate)
    rows = []
    for mode in modes:
        own = {} if no_oracle else _plain(errors.get(mode.name, {}))
        own = own if own.keys() == told.keys() else {}
        near = within_a_digit(told, own, eps)
        if mode.name in refused:
            competes, why = False, refused[mode.name]
        elif mode.always:
            competes, why = True, "always competes"
        elif not own:
            competes, why = False, f"its error is not known: {no_oracle or 'it was not measured'}"
        elif near:
            competes, why = True, f"within a decimal digit of the candidate on {near} inputs"
        else:
            competes, why = False, "a decimal digit less accurate than the candidate, or more, on all inputs"
        rows.append(ModeAccuracy(mode=mode.name, errors=own, competes=competes, why=why))
    return Accuracy(
        oracle=not no_oracle, oracle_problem=no_oracle, eps=eps, candidate=told, modes=tuple(rows)
    )


def at_least(measured: float, seen: float, default: float) -> float:
    """The candidate's error as drawn, given the largest disagreement with the reference `seen` in any checked call.

    The reference's own error is `default`, so by the triangle inequality some call's was `seen - default` or more.
    Timed calls are among these: a candidate gains nothing by being accurate only where its accuracy is measured.
    """
    return max(measured, seen - default)


def relative_error(oracle: object, actual: object) -> float:
    """‖actual − oracle‖ / ‖oracle‖, the largest over tensors of floats; inf where forms differ or one is not finite.

    Where the oracle is not finite, the same value is no error. Evaluated in float64 and bounded memory, on the device
    of `actual`.
    """
    try:
        pairs = list(zip(values.flatten(oracle)[1], values.flatten(actual)[1], strict=True))
    except (ValueError, values.UnsupportedValue):
        return math.inf
    return max((_tensor_error(e, a) for e, a in pairs if _has_error(e) and e.numel()), default=0.0)


def _has_error(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _tensor_error(e: torch.Tensor, a: torch.Tensor) -> float:
    if e.shape != a.shape or e.is_complex() != a.is_complex():
        return math.inf
    e, a = moments.real(e), moments.real(a)
    errors, norms = [], []
    for block in moments.blocks(a.shape, moments.chunk(a.device)):
        exact, got = moments.double(e[block].to(a.device)), moments.double(a[block])
        special = ~torch.isfinite(exact)
        same = (got == exact) | (torch.isnan(got) & torch.isnan(exact))
        got = torch.where(special, torch.where(same, 0.0, math.inf), got)
        exact = torch.where(special, 0.0, exact)
        errors.append(torch.linalg.vector_norm(got - exact))
        norms.append(torch.linalg.vector_norm(exact))
    error, norm = (math.hypot(*torch.stack(parts).tolist()) for parts in (errors, norms))
    if error == 0:
        return 0.0
    ratio = error / norm if norm > 0 else math.inf
    return ratio if math.isfinite(ratio) else math.inf


def _plain(errors: Errors) -> dict[str, float]:
    return {name: math.inf if math.isnan(error) else float(error) for name, error in errors.items()}


# ---- what it is applied to ------------------------------------------------------------------------------------


@dataclass
class _Found:
    """What the distributions so far have shown."""

    candidate: dict[str, float] = field(default_factory=dict)
    errors: dict[str, dict[str, float]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    differ: set[str] = field(default_factory=set)
    """Modes that gave other bits than the default on some distribution."""
    eps: float = 0.0

    def forget(self, name: str) -> None:
        """Drop a distribution that was not finished."""
        for errors in (self.candidate, *self.errors.values()):
            errors.pop(name, None)


class _Watch:
    """In a bench's verifier's place for one bracket: hands the outputs on and judges nothing."""

    def __init__(self, look: Callable[[object], None]):
        self._look = look

    def verify(self, call: Call, actual: object, shared: list[torch.Tensor]) -> gates.Comparison:
        self._look(actual)
        return gates.Comparison(True, True)


def measure(bench: Bench, runner: RunnerProcess, timeout_s: float, *, seen: float) -> Accuracy:
    """The accuracy of a runner's candidate and of every mode, one set of inputs at a time.

    `seen`: the largest relative error, against the reference, of any checked call on inputs as the task draws them.
    Raises the errors of RunnerProcess where the candidate does not answer.
    """
    # A copy, so that what it has to allow for in the modes is not told of the candidate.
    judge = copy.copy(bench.verifier)
    found, problem = _Found(), ""
    seeds = secrets.randbits(62), secrets.randbits(62)
    for name, draw in _draws(judge):
        call = Call(draw, *seeds, paper=name == AS_DRAWN)
        try:
            why = _one(bench, judge, runner, timeout_s, call, name, found)
        except (TaskUnsupportedError, torch.OutOfMemoryError):
            found.forget(name)
            why = "no memory is left for it"
        if why and name == AS_DRAWN:
            problem = why
            break
    _release(bench)
    if not problem:
        default = found.errors[DEFAULT.name][AS_DRAWN]
        found.candidate[AS_DRAWN] = at_least(found.candidate[AS_DRAWN], seen, default)
        # Not only for the time: the fastest of several measurements of one thing is too fast by their noise.
        same = [m for m in found.errors if m not in found.differ and m != DEFAULT.name]
        found.refused = dict.fromkeys(same, SAME) | found.refused
    return judged(found.candidate, found.errors, found.refused, eps=found.eps, no_oracle=problem)


def _release(bench: Bench) -> None:
    """Give back what float64 took here: the candidate, and baselines after it, need the memory."""
    if bench.cuda:
        torch.cuda.empty_cache()


def _draws(judge: Verifier) -> Iterator[tuple[str, Draw]]:
    """How inputs are drawn, by name."""
    drawn = judge.reference.draw_inputs
    yield AS_DRAWN, drawn
    if judge.noise or judge.faulting:
        return
    for distribution in (ZERO_MEAN, HEAVY):
        if distribution.apply(drawn(0)) is not None:
            yield distribution.name, lambda seed, d=distribution: d.apply(inputs := drawn(seed)) or inputs


def _one(
    bench: Bench,
    judge: Verifier,
    runner: RunnerProcess,
    timeout_s: float,
    call: Call,
    name: str,
    found: _Found,
) -> str:
    """Errors on one distribution, added to `found`; or why there are none."""
    if not call.paper and judge.usable(call):
        return "the reference says nothing there"
    judge.wear(call)
    reference, model = judge.reference, judge.model
    inputs = call.inputs()
    dtypes = _dtypes([*values.flatten(inputs)[1], *model.state_dict().values()])
    expected = reference.forward(model, inputs, seed=call.forward_seed)
    outputs = values.flatten(expected)[1]
    for mode in MODES:
        if reason := _refused_before(mode, judge, dtypes | _dtypes(outputs)):
            found.refused[mode.name] = reason
    if not any(_has_error(t) for t in outputs):
        return "the output holds no floats"
    oracle = reference.oracle(model, call.inputs(), seed=call.forward_seed)
    if oracle is None:
        return "float64 does not run, for want of memory or by the task's own code"
    if gates.largest_errors(expected, oracle) is None:
        return TASK_ONLY
    found.eps = max(torch.finfo(t.dtype).eps for t in outputs if _has_error(t))
    _release(bench)
    seen: list[float] = []
    kept, bench.verifier = bench.verifier, _Watch(lambda actual: seen.append(relative_error(oracle, actual)))
    try:
        bench.run(runner, timeout_s, call=call)
    finally:
        bench.verifier = kept
    found.candidate[name] = max(seen)
    found.errors.setdefault(DEFAULT.name, {})[name] = relative_error(oracle, expected)
    out_dtypes = [values.dtype_name(t.dtype) for t in outputs]
    for mode in MODES[1:]:
        why = found.refused.get(mode.name, "")
        if not why:
            try:
                output = _in_mode(mode, judge, call, out_dtypes)
                found.errors.setdefault(mode.name, {})[name] = relative_error(oracle, output)
                if not all(map(moments.identical, outputs, values.flatten(output)[1])):
                    found.differ.add(mode.name)
                why = "" if mode.always else _gated(judge, expected, output, call, name)
            except (TaskRefusedError, TaskUnsupportedError, torch.OutOfMemoryError) as error:
                # One that always competes says so itself, as a baseline.
                why = "" if mode.always else f"does not run: {error}"
        if why:
            found.refused[mode.name] = why
    return ""


def _dtypes(tensors: Iterable[torch.Tensor]) -> set[str]:
    return {values.dtype_name(t.dtype) for t in tensors}


def _refused_before(mode: Mode, judge: Verifier, dtypes: set[str]) -> str:
    if why := mode.inapplicable(dtypes):
        return why
    if judge.faulting and not mode.always:
        return f"not tried: {judge.faulting} faults on values that the task never draws"
    return ""


def _in_mode(mode: Mode, judge: Verifier, call: Call, dtypes: Sequence[str]) -> Any:
    """The reference's outputs in `mode`, eager, in this process; its flags are as before afterwards."""
    reference = judge.reference
    with flags(mode):
        forward = computing(mode, judge.model, dtypes, reference.device.type)
        return reference.forward(forward, call.inputs(), seed=call.forward_seed)


def _gated(judge: Verifier, expected: object, output: object, call: Call, name: str) -> str:
    """Why a mode's outputs fail the gates that a candidate's must pass; empty where they hold."""
    compared = judge.compare(expected, output, call)
    if compared.scale_gate and (compared.paper_gate or not call.paper):
        return ""
    if not call.paper and compared.problem is None and not judge.resolves(call):
        return ""
    return f"fails the correctness gates on {name} inputs"
