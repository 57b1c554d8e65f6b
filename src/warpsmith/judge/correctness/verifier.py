"""What the reference says of one call of a runner: are its outputs right, and its inputs as they should be?"""

import contextlib
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from warpsmith.errors import TaskRefusedError, TaskUnsupportedError, WrongResultError
from warpsmith.judge.correctness import distributions, gates, indices, moments
from warpsmith.judge.reference.model import Reference
from warpsmith.judge.reference.moving import Move, MovingWeights
from warpsmith.judge.reference.seeding import seed_all
from warpsmith.judge.runner import values

NOISE_FACTOR = 16.0
"""The same where nothing but rounding is compared: another order of summation alone makes a few times more of it."""
JITTERS = 4
HALF_GATE = gates.TOLERANCE / 2
"""A few random moves that go half as far as the gate say that an honest kernel may leave it."""
Draw = Callable[[int], list[Any]]
"""Inputs from a seed; the same seed gives the same inputs."""


@dataclass(frozen=True)
class Call:
    """One call: how its inputs are drawn, and the seeds of its inputs and of what forward itself draws.

    `paper`: judged by the paper's gate too. `moves`: of the weights, in force during the call on both sides.
    """

    draw: Draw
    input_seed: int
    forward_seed: int
    paper: bool = True
    moves: tuple[Move, ...] = ()

    def inputs(self) -> list[Any]:
        """A fresh copy of its inputs."""
        return self.draw(self.input_seed)


class Verifier:
    """Judges outputs by the reference. `model` is the reference with the weights in force.

    `noise`: the task's output is rounding noise, so that both gates allow for the reference's own rounding.
    `faulting`: an operator of the reference for which strange inputs would end this process's CUDA context.
    """

    def __init__(self, reference: Reference, model: torch.nn.Module, *, noise: bool, faulting: str = ""):
        self.reference, self.model, self.noise, self.faulting = reference, model, noise, faulting
        self.rounding = self.unresolved = 0.0
        """What was allowed for at most: the reference's rounding, and what TF32 does not resolve."""
        self.noisy = False
        """The reference's rounding was allowed for in both gates."""
        self._moving = MovingWeights(model)

    def load(self, state: dict[str, torch.Tensor]) -> None:
        """Give the reference other weights."""
        self.model.load_state_dict(state)
        self._moving.forget()

    def wear(self, call: Call) -> None:
        """Give the reference the weights of this call."""
        self._moving.use(call.moves)

    def verify(self, call: Call, actual: object, shared: list[torch.Tensor]) -> gates.Comparison:
        """Compares `actual`.

        Raises WrongResultError where `shared`, the inputs after the call, are not as the reference leaves them.
        """
        self.wear(call)
        inputs = call.inputs()
        tensors = values.flatten(inputs)[1]
        versions = [t._version for t in tensors]
        expected = self.reference.forward(self.model, inputs, seed=call.forward_seed)
        found = self.compare(expected, actual, call)
        for j, (drawn, left) in enumerate(zip(tensors, shared, strict=True)):
            if drawn._version == versions[j]:
                if not moments.identical(drawn, left):
                    raise WrongResultError(f"input {j} was changed, which the reference does not do")
            elif not gates.compare(drawn, left).scale_gate:
                raise WrongResultError(f"input {j} is not changed as the reference changes it")
        return found

    def compare(self, expected: object, actual: object, call: Call) -> gates.Comparison:
        """`gates.compare`; what fails is looked at again.

        Chosen indices are judged by value. On the task's own inputs, what the reference cannot tell is allowed for.
        """
        found = gates.compare(expected, actual)
        if found.passed:
            return found
        if indices.differ(expected, actual):
            inputs = call.inputs()
            tensors = values.flatten(inputs)[1]
            choices = indices.observe(lambda: self._forward(inputs, call))
            expected = indices.settled(expected, actual, choices, tensors)
            del inputs, tensors, choices
            found = gates.compare(expected, actual)
        if call.paper and not found.passed and found.problem is None:
            found = self._with_slack(found, expected, actual, call)
        return found

    def usable(self, call: Call) -> str:
        """Why the reference says nothing under this call's inputs; empty where it does."""
        self.wear(call)
        try:
            output = self._forward(call.inputs(), call)
            summaries = [s for s in gates.summarise(output) if s.count]
        except (TaskRefusedError, values.UnsupportedValue):
            return "the reference does not take it"
        except (TaskUnsupportedError, torch.OutOfMemoryError):
            return "no memory for it"
        if any(s.finite < s.count for s in summaries):
            return "the reference is not finite"
        if all(s.std <= 1e-6 * s.rms if s.count > 1 else s.rms == 0 for s in summaries):
            return "the reference is constant"
        return ""

    def accurate(self, call: Call) -> bool:
        """False where the reference leaves the scale-aware gate of its own float64 run: an intermediate overflowed,
        or cancelled. Then the more accurate of two kernels is the one that disagrees. True where float64 cannot tell.
        """
        self.wear(call)
        try:
            expected = self._forward(call.inputs(), call)
            return self._agrees(expected, self._oracle(call), call)
        except (TaskRefusedError, TaskUnsupportedError, torch.OutOfMemoryError):
            return False

    def resolves(self, call: Call) -> bool:
        """False where a unit of TF32 in inputs and weights carries the reference out of the scale-aware gate.

        Then two honest kernels of different accuracy disagree there as well.
        """
        self.wear(call)
        try:
            expected = self._forward(call.inputs(), call)
            return all(self.compare(expected, moved, call).scale_gate for moved in self._jittered(call))
        except (TaskRefusedError, TaskUnsupportedError, torch.OutOfMemoryError):
            return False

    def _forward(self, inputs: list[Any], call: Call) -> Any:
        return self.reference.forward(self.model, inputs, seed=call.forward_seed)

    def _jittered(self, call: Call) -> Iterator[object]:
        """Outputs of the reference with inputs and weights moved by one unit of TF32, each time otherwise."""
        model = copy.deepcopy(self.model)
        own = self.model.state_dict()
        for number in range(JITTERS):
            inputs = _moved_inputs(call, number)
            for name, tensor in model.state_dict().items():
                if tensor.is_floating_point():
                    tensor.copy_(distributions.jitter(own[name]))
            yield self.reference.forward(model, inputs, seed=call.forward_seed)

    def _with_slack(
        self, found: gates.Comparison, expected: object, actual: object, call: Call
    ) -> gates.Comparison:
        """The comparison with each gate that fails widened by what the reference itself cannot tell."""
        oracle = self._oracle(call)
        noise = self.noise or not self._agrees(expected, oracle, call) or self._zero_by_luck(expected, call)
        paper = scale = None
        if oracle is not None and (noise or not found.paper_gate):
            errors = self._rounding(expected, oracle, call, noise)
            if errors is not None:
                paper = [gates.ROUNDING_FACTOR * e for e in errors]
                scale = [NOISE_FACTOR * e for e in errors] if noise else None
                self.rounding = max(self.rounding, *paper, *(scale or ()))
                self.noisy = self.noisy or noise
        if not (found.scale_gate or self.noise):
            moves = self._unresolved(expected, call)
            self.unresolved = max(self.unresolved, *(moves or [0.0]))
            scale = (
                [max(each) for each in zip(scale, moves, strict=True)] if scale and moves else scale or moves
            )
        return gates.compare(expected, actual, paper_slack=paper, scale_slack=scale)

    def _oracle(self, call: Call) -> Any | None:
        return self.reference.oracle(self.model, call.inputs(), seed=call.forward_seed)

    def _agrees(self, expected: object, oracle: object, call: Call) -> bool:
        """True where there is no oracle, and where `expected` lies within its scale-aware gate."""
        told = replace(call, paper=False)
        return oracle is None or self.compare(expected, _narrowed(oracle, expected), told).scale_gate

    def _zero_by_luck(self, expected: object, call: Call) -> bool:
        """True where an output is zero throughout, in float64 as well, only because its rounding errors cancel here.

        Inputs moved by one unit of TF32 tell it from an output that is zero by its nature.
        """
        if self.faulting or all(s.rms > 0 for s in gates.summarise(expected) if s.count):
            return False
        return not all(self._agrees(*pair, call) for pair in self._moved_pairs(call))

    def _moved_pairs(self, call: Call) -> Iterator[tuple[object, object]]:
        """The reference's output and its float64 run, each time for inputs moved by one unit of TF32 otherwise."""
        with contextlib.suppress(TaskRefusedError, TaskUnsupportedError, torch.OutOfMemoryError):
            for number in range(JITTERS):
                inputs = _moved_inputs(call, number)
                moved = self._forward(copy.deepcopy(inputs), call)
                yield moved, self.reference.oracle(self.model, inputs, seed=call.forward_seed)

    def _rounding(self, expected: object, oracle: object, call: Call, noise: bool) -> list[float] | None:
        """The reference's own largest errors, where float64 can tell them."""
        found = gates.largest_errors(expected, oracle, paper=noise)
        if found is None or not noise or self.faulting:
            return found
        # The error of one draw may be zero by luck.
        pairs = self._moved_pairs(call)
        errors = [found, *(gates.largest_errors(*pair, paper=True) or found for pair in pairs)]
        return [max(each) for each in zip(*errors, strict=True)]

    def _unresolved(self, expected: object, call: Call) -> list[float] | None:
        """Twice what a unit of TF32 moves the reference, if that is half of the scale-aware gate somewhere."""
        moves, held = [], True
        if self.faulting:
            return None
        try:
            for moved in self._jittered(call):
                held = held and gates.compare(expected, moved, tolerance=HALF_GATE).scale_gate
                errors = gates.largest_errors(expected, moved, any_size=True)
                if errors is None:
                    return None
                moves.append(errors)
        except (TaskRefusedError, TaskUnsupportedError, torch.OutOfMemoryError):
            return None
        return None if held else [2 * max(each) for each in zip(*moves, strict=True)]


def _moved_inputs(call: Call, number: int) -> list[Any]:
    """The call's inputs moved by one unit of TF32, for each number otherwise: drawing inputs seeds the generators."""
    inputs = call.inputs()
    seed_all(call.input_seed + 1 + number)
    return distributions.jittered(inputs)


def _narrowed(oracle: object, expected: object) -> object:
    """A float64 result with its tensors in the dtypes of `expected`; as it is where the two differ in structure."""
    (spec, wide), (own_spec, own) = values.flatten(oracle), values.flatten(expected)
    if spec.keys() != own_spec.keys() or len(wide) != len(own):
        return oracle
    return values.unflatten(spec, [w.to(t.dtype) for w, t in zip(wide, own, strict=True)])
