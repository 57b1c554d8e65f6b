"""Is a task fit to be judged at all? What would let anything pass is refused; what weakens it is flagged."""

import contextlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from warpsmith.errors import TaskRefusedError
from warpsmith.judge.correctness import gates, indices, moments
from warpsmith.judge.reference import weights
from warpsmith.judge.reference.model import Reference
from warpsmith.judge.reference.seeding import seed_all
from warpsmith.judge.runner import values
from warpsmith.types import Weakness

REPEATS = gates.TOLERANCE / 100
"""Two unseeded runs must agree within this."""
SAME = 1e-6
"""Outputs that agree within this, or one rounding unit of their dtype, cannot be told apart."""
JITTER = 2.0**-20
"""Relative change of the inputs that no honest computation can be asked to resolve in float32."""
_SEEDS = (101, 202, 303)
_FORWARD_SEED = 404
_RECURRENT = (torch.nn.RNNBase, torch.nn.RNNCellBase)


@dataclass(frozen=True)
class Admission:
    """`problems` make a task unfit; `flags` are said beside its results."""

    problems: tuple[str, ...]
    flags: tuple[str, ...]
    weaknesses: tuple[Weakness, ...] = ()
    """The kinds of `problems` and `flags`, each once."""
    inputs_matter: tuple[bool, ...] = ()
    """For each input tensor, in order: does changing it alone change the output?"""
    rounding_noise: bool = False
    """The output turns over with the inputs' last bits: no other honest computation can meet the scale gate."""
    draws: bool = False
    """forward draws random numbers: it repeats only under one seed."""
    returns_state: frozenset[int] = frozenset()
    """Outputs, by their place, that share memory with the model's own state."""
    faulting: str = ""
    """On a GPU, an operator for which inputs that the task never draws would end the process's CUDA context."""


@dataclass
class _Findings:
    problems: list[str] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)
    weaknesses: list[Weakness] = field(default_factory=list)
    matter: list[bool] = field(default_factory=list)
    noise: bool = False
    draws: bool = False
    returns_state: frozenset[int] = frozenset()
    faulting: str = ""

    def flag(self, kind: Weakness, text: str) -> None:
        self.flags.append(text)
        self.note(kind)

    def note(self, kind: Weakness) -> None:
        if kind not in self.weaknesses:
            self.weaknesses.append(kind)


class _UnfitError(TaskRefusedError):
    """A problem of a kind that code can tell."""

    def __init__(self, kind: Weakness, message: str):
        super().__init__(message)
        self.kind = kind


def admit(reference: Reference, model: torch.nn.Module) -> Admission:
    """`examine`, and TaskRefusedError with the first problem where there is one."""
    found = examine(reference, model)
    if found.problems:
        raise TaskRefusedError(found.problems[0])
    return found


def examine(reference: Reference, model: torch.nn.Module) -> Admission:
    """Runs the reference a few times and says what is wrong with the task; stops at the first problem.

    For n input tensors: 5 forwards where n is 1, else 5 + n; up to 3 more where the output seems not to
    depend on its inputs, one more where moved inputs leave what a function takes. Holds at most two sets of
    inputs and two outputs (three sets where forward changes its inputs). Raises TaskUnsupportedError where
    memory does not suffice.
    """
    found = _Findings()
    try:
        _Examination(reference, model, found).run()
    except TaskRefusedError as e:
        found.problems.append(str(e))
        # whatever else refuses comes of the task's own code
        found.note(e.kind if isinstance(e, _UnfitError) else Weakness.RAISES)
    return Admission(
        tuple(found.problems), tuple(found.flags), tuple(found.weaknesses), tuple(found.matter),
        found.noise, found.draws, found.returns_state, found.faulting,
    )  # fmt: skip


class _Examination:
    """One task's examination. Each step raises TaskRefusedError with what makes the task unfit."""

    def __init__(self, reference: Reference, model: torch.nn.Module, found: _Findings):
        self.reference = reference
        self.model = model
        self.found = found
        self.changes_inputs = False

    def run(self) -> None:
        self.spec, self.base = values.flatten(self.reference.draw_inputs(_SEEDS[0]))
        for name, tensor in zip(values.paths(self.spec, "inputs"), self.base, strict=True):
            if not tensor.numel():
                raise TaskRefusedError(f"{name} has no elements (shape {list(tensor.shape)})")
        copy = [t.clone() for t in self.base]
        seed_all(_FORWARD_SEED)
        before = _generators()
        self.output = self._forward(copy, seed=None)
        self.found.draws = before != _generators()
        self.changes_inputs = not all(map(moments.identical, self.base, copy))
        if not self.changes_inputs:
            # The output may share memory with the inputs it was made from.
            self.base = copy
        del copy
        self.found.faulting = self.reference.faulting_operator(self.model, self._rebuilt(self._base_copy()))
        self._check_output()
        self.found.returns_state = weights.returned(self.output, self.model)
        self._check_memory()
        self._check_repeats()
        self._check_draws()
        self._check_each_input()
        self._check_jitter()

    def _forward(self, tensors: list[torch.Tensor], *, seed: int | None = _FORWARD_SEED) -> Any:
        return self.reference.forward(self.model, self._rebuilt(tensors), seed=seed)

    def _rebuilt(self, tensors: list[torch.Tensor]) -> list[Any]:
        return values.unflatten(self.spec, tensors)

    def _base_copy(self) -> list[torch.Tensor]:
        return [t.clone() for t in self.base] if self.changes_inputs else list(self.base)

    def _compare(self, other: Any, tolerance: float) -> gates.Comparison:
        return gates.compare(self.output, other, tolerance=tolerance)

    def _check_output(self) -> None:
        try:
            summaries = [s for s in gates.summarise(self.output) if s.count]
        except values.UnsupportedValue as e:
            raise _UnfitError(Weakness.NOT_JUDGEABLE, f"the output cannot be judged: {e}") from e
        if not summaries:
            raise _UnfitError(Weakness.NOT_JUDGEABLE, "the output has no tensor with elements and no number")
        if not any(s.finite for s in summaries):
            raise _UnfitError(Weakness.NOT_FINITE, "the output is NaN or infinite throughout")
        if all(s.finite == s.count and s.largest == 0 for s in summaries):
            raise _UnfitError(Weakness.ZERO_OUTPUT, "the output is zero throughout")
        if any(s.finite < s.count for s in summaries):
            self.found.flag(Weakness.NOT_FINITE, "the output is NaN or infinite in places")
        if max(s.largest for s in summaries) <= gates.TOLERANCE:
            self.found.flag(Weakness.ZEROS_PASS, "zeros pass the paper gate")
        if any(gates.compare(self.output, t).passed for t in self.base):
            self.found.flag(Weakness.COPY_PASSES, "an input handed back unchanged passes")

    def _check_repeats(self) -> None:
        again = self._compare(self._forward(self._base_copy(), seed=None), REPEATS)
        # The paper gate would let a tiny output be wholly random.
        if again.scale_gate:
            return
        if not (self.found.draws and _is_recurrent(self.model)):
            raise _UnfitError(
                Weakness.RANDOM, f"random reference: two runs on the same inputs differ ({again.describe()})"
            )
        alike = self._compare(self._forward(self._base_copy()), REPEATS)
        if not alike.scale_gate:
            raise _UnfitError(
                Weakness.RANDOM, f"random reference: two runs from the same seed differ ({alike.describe()})"
            )
        self.found.flag(
            Weakness.DRAWS_STATE,
            "forward draws a state that its output depends on: seeded alike on both sides",
        )

    def _check_memory(self) -> None:
        """Memory that nothing has written must not reach the output: filled with NaN, it shows."""
        with _filled_memory():
            try:
                filled = self._compare(self._forward(self._base_copy()), gates.TOLERANCE)
            except TaskRefusedError:
                return
        if not filled.scale_gate and filled.problem is not None:
            raise _UnfitError(
                Weakness.UNWRITTEN_MEMORY,
                f"the output holds memory that nothing has written ({filled.describe()})",
            )

    def _check_draws(self) -> None:
        """Different inputs must give outputs that can be told apart, and should by the gates."""
        drawn = self._forward(self._drawn(_SEEDS[1]))
        if not self._compare(drawn, SAME).scale_gate:
            gate = self._compare(drawn, gates.TOLERANCE)
            if gate.paper_gate or gate.scale_gate:
                which = (
                    "both gates" if gate.passed else "the paper gate" if gate.paper_gate else "the scale gate"
                )
                self.found.flag(
                    Weakness.INDISTINGUISHABLE, f"outputs for different inputs lie within {which}"
                )
            return
        del drawn
        variants = (
            lambda: self._drawn(_SEEDS[2]),
            lambda: [_floating(t, lambda x: x * 3) for t in self.base],
            lambda: [_floating(t, lambda x: x - 1.5) for t in self.base],
        )
        # Values that a task's code never draws may be refused by it, which shows that they matter.
        for variant in variants[: 1 if self.found.faulting else None]:
            try:
                same = self._compare(self._forward(variant()), SAME).scale_gate
            except TaskRefusedError:
                same = False
            if not same:
                self.found.flag(Weakness.INDISTINGUISHABLE, "outputs for different draws are interchangeable")
                return
        raise _UnfitError(
            Weakness.CONSTANT_OUTPUT, "the reference ignores its inputs: its output is constant"
        )

    def _drawn(self, seed: int) -> list[torch.Tensor]:
        spec, tensors = values.flatten(self.reference.draw_inputs(seed))
        if spec != self.spec or [t.shape for t in tensors] != [t.shape for t in self.base]:
            raise TaskRefusedError("get_inputs() gives another structure or other shapes on each call")
        return tensors

    def _check_each_input(self) -> None:
        if len(self.base) == 1:
            self.found.matter = [True]
            return
        names = values.paths(self.spec, "input")
        for i, name in enumerate(names):
            matters = self._matters(i)
            self.found.matter.append(matters)
            if not matters:
                self.found.flag(Weakness.IDLE_INPUT, f"{name} does not matter")

    def _matters(self, i: int) -> bool:
        other = self._drawn(_SEEDS[1])[i]
        if moments.identical(other, self.base[i]):
            other = _altered(other)
            if moments.identical(other, self.base[i]):
                return True
        mixed = self._base_copy()
        mixed[i] = other
        try:
            return not self._compare(self._forward(mixed), SAME).scale_gate
        except TaskRefusedError:
            return True

    def _check_jitter(self) -> None:
        """A reference that a change in the last bits turns over is made of rounding errors."""
        if self.found.faulting or not any(t.is_floating_point() for t in self.base):
            return
        jittered = self._jittered(1 + JITTER)
        if _leaves_finite(self.output, jittered):
            del jittered
            jittered = self._jittered(1 - JITTER)
        expected = self.output
        if indices.differ(expected, jittered):
            # Of two elements that rounding makes equal either may be chosen.
            choices = indices.observe(lambda: self._forward(self._base_copy()))
            expected = indices.settled(expected, jittered, choices, [])
        if not gates.compare(expected, jittered).scale_gate:
            self.found.noise = True
            self.found.flag(
                Weakness.ROUNDING_NOISE,
                "the output is rounding noise: it turns over with the inputs' last bits",
            )

    def _jittered(self, factor: float) -> Any:
        return self._forward([_floating(t, lambda x: x * factor) for t in self.base])


def _leaves_finite(before: Any, after: Any) -> bool:
    """Whether a value is no longer finite: the inputs left what a function takes, as 1.1 does an arc sine's."""
    pairs = zip(gates.summarise(before), gates.summarise(after), strict=False)
    return any(there.finite < here.finite for here, there in pairs)


def _is_recurrent(model: torch.nn.Module) -> bool:
    """True where a random state is a state: noise added by any other model is part of its result."""
    return any(isinstance(module, _RECURRENT) for module in model.modules())


def _generators() -> list[bytes]:
    """The state of torch's generators, which every draw changes."""
    states = [torch.get_rng_state()]
    if torch.cuda.is_initialized():
        states.append(torch.cuda.get_rng_state())
    return [bytes(state.tolist()) for state in states]


@contextlib.contextmanager
def _filled_memory() -> Iterator[None]:
    """Whatever `torch.empty` gives is NaN, or the largest integer.

    Operators without a deterministic form still run.
    """
    before = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    # Not torch.use_deterministic_algorithms, which loads the compiler for a second.
    switch = torch._C._set_deterministic_algorithms
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        switch(True, warn_only=True)
        try:
            yield
        finally:
            switch(before[0], warn_only=before[1])


def _floating(t: torch.Tensor, change: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    return change(t) if t.is_floating_point() or t.is_complex() else t.clone()


def _altered(t: torch.Tensor) -> torch.Tensor:
    """Other values of a kind that the task may know: bools negated, floats moved, integers put in reverse."""
    if t.dtype == torch.bool:
        return ~t
    if t.is_floating_point() or t.is_complex():
        return t * 1.5 + 0.25
    return t.flip(list(range(t.dim())))
