"""Tries an operator at small sizes, on the CPU and on the meta device, to find what its template does not say.

Which values it takes without giving NaN or jumping, which it gives, whether it keeps the shape, what it calls.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch

from warpsmith.synthesis.arithmetic import evaluate
from warpsmith.synthesis.records import InputTemplate, LeftOut, Operator, Parameter, Values
from warpsmith.synthesis.templates import Template
from warpsmith.synthesis.tracing import traced

_DIMS = {2: (16, 64), 3: (4, 32, 64), 4: (2, 16, 16, 32), 5: (2, 8, 8, 8, 8)}
_OTHER_DIMS = {2: (16, 3), 3: (4, 16, 32), 4: (2, 8, 64, 64)}
_SEED = 11
_GROWTH = 64
"""Outputs may have this many times more elements than what flows in."""
_STEEP = 400.0
"""A slope above this between neighbouring values is a jump, or as good as one."""
_TRIED = (
    Values.ANY, Values.NONNEGATIVE, Values.POSITIVE, Values.SIGNED_UNIT, Values.UNIT, Values.POSITIVE_UNIT,
)  # fmt: skip
_NARROW_FIRST = tuple(reversed(_TRIED))


class NotUsableError(Exception):
    """The template is not usable; `reason` says why."""

    def __init__(self, reason: LeftOut, detail: str = ""):
        super().__init__(detail)
        self.reason = reason


@dataclass(frozen=True)
class Probed:
    """What trying found."""

    takes: Values
    gives: dict[Values, Values]
    void_on: tuple[Values, ...]
    keeps_shape: bool
    floating: bool
    trace: tuple[str, ...]
    ranks: tuple[int, ...]


def namespace() -> dict[str, Any]:
    """What the code of a template may name."""
    return {"torch": torch, "nn": torch.nn, "F": torch.nn.functional}


def drawn_parameters(
    parameters: tuple[Parameter, ...], requires: tuple[str, ...], dims: Mapping[str, int], choices: list[int]
) -> dict[str, Any] | None:
    """Parameters at the given places of their choices; None where a requirement does not hold."""
    names: dict[str, Any] = dict(dims)
    for parameter, place in zip(parameters, choices, strict=True):
        names[parameter.name] = evaluate(parameter.choices[place], names)
        if parameter.size and names[parameter.name] < 1:
            return None
    if not all(evaluate(condition, names) for condition in requires):
        return None
    return {parameter.name: names[parameter.name] for parameter in parameters}


def dimension_names(shape: tuple[int, ...]) -> dict[str, int]:
    """`d0`, `d1`, … and `last`."""
    return {**{f"d{i}": n for i, n in enumerate(shape)}, "last": shape[-1]}


def probe(template: Template | Operator) -> Probed:
    """Raises NotUsableError where it runs at no rank, or gives nothing that a task can use."""
    found: Probed | None = None
    ranks, last = [], NotUsableError(LeftOut.FAILS, "its requirements hold at no size tried")
    for rank in template.ranks:
        try:
            one = _at_rank(template, rank)
        except NotUsableError as error:
            last = error
            continue
        ranks.append(rank)
        found = found or one
    if found is None:
        raise last
    return Probed(**{**found.__dict__, "ranks": tuple(ranks)})


def keeps_shape(template: Template) -> bool:
    """Whether it runs on the meta device and gives the shape that flows in, at its first rank."""
    shape = _DIMS[template.ranks[0]]
    try:
        y, _ = _Trial(template, shape, dimension_names(shape)).run_meta()
    except NotUsableError:
        return False
    return y.shape == torch.Size(shape)


def _at_rank(template: Template | Operator, rank: int) -> Probed:
    reason = NotUsableError(LeftOut.FAILS, "its requirements hold at no size tried")
    for shape in (_DIMS[rank], _OTHER_DIMS.get(rank, _DIMS[rank])):
        dims = dimension_names(shape)
        for choices in product(*(range(len(p.choices)) for p in template.parameters)):
            parameters = drawn_parameters(template.parameters, template.requires, dims, list(choices))
            if parameters is None:
                continue
            trial = _Trial(template, shape, {**dims, **parameters})
            try:
                return trial.found(rank)
            except NotUsableError as error:
                reason = error
                break
    raise reason


class _Trial:
    """One template at one shape with one set of parameters."""

    def __init__(self, template: Template | Operator, shape: tuple[int, ...], names: dict[str, Any]):
        self.template, self.shape, self.names = template, shape, names

    def found(self, rank: int) -> Probed:
        on_meta, trace = self.run_meta()
        takes, x, y = self._takes()
        if y.shape != on_meta.shape:
            raise NotUsableError(LeftOut.DATA_DEPENDENT_SHAPE)
        if y.is_complex():
            raise NotUsableError(LeftOut.COMPLEX)
        if torch.equal(x, y) if x.shape == y.shape else False:
            raise NotUsableError(LeftOut.UTILITY, "it hands its input back")
        if not torch.equal(self._run(x), y):
            raise NotUsableError(LeftOut.RANDOM)
        floating = y.is_floating_point()
        known = [v for v in _NARROW_FIRST if _subset(v, takes)]
        return Probed(
            takes=takes,
            gives={v: self._gives(v) for v in known} if floating else {},
            void_on=tuple(v for v in known if self._void(v)) if floating else (),
            keeps_shape=y.shape == x.shape,
            floating=floating,
            trace=trace,
            ranks=(rank,),
        )

    def _takes(self) -> tuple[Values, torch.Tensor, torch.Tensor]:
        last: NotUsableError | None = None
        if self.template.first is not None:
            x = self._drawn(self.template.first)
            return Values.ANY, x, self._run(x)
        for values in _TRIED:
            x = sample(values, self.shape)
            try:
                y = self._run(x)
            except NotUsableError as error:
                last = error
                continue
            if not bool(torch.isfinite(y).all()):
                last = NotUsableError(LeftOut.FAILS, "it is not finite on any values tried")
            elif self._jumps(values):
                last = NotUsableError(LeftOut.DISCONTINUOUS)
            else:
                return values, x, y
        assert last is not None
        raise last

    def _jumps(self, values: Values) -> bool:
        """Whether neighbouring inputs give far outputs, for operators that work element by element."""
        low, high = _BOUNDS[values]
        count = 1
        for n in self.shape:
            count *= n
        for part in range(8):  # a fine grid, a piece at a time
            begin, end = low + (high - low) * part / 8, low + (high - low) * (part + 1) / 8
            x = torch.linspace(begin, end, count).reshape(self.shape)
            y = self._run(x)
            if y.shape != x.shape or not y.is_floating_point() or not self._elementwise(x, y):
                return False
            slope = y.flatten().diff().abs() / x.flatten().diff().clamp_min(1e-9)
            if bool((slope > _STEEP).any()):
                return True
        return False

    def _elementwise(self, x: torch.Tensor, y: torch.Tensor) -> bool:
        """Whether an element's result depends on it alone, as far as one change shows. Others have no slope here."""
        other = x.clone()
        other.view(-1)[-1] = x.view(-1)[0]
        changed = (self._run(other) != y).contiguous()
        changed.view(-1)[-1] = False
        return not bool(changed.any()) and not self.template.inputs

    def _gives(self, values: Values) -> Values:
        if self.template.first is not None:
            return narrowest(self._run(self._drawn(self.template.first)))
        samples = [sample(values, self.shape)]
        if values is Values.ANY:
            samples += [samples[0] - 5, samples[0] * 0.1, samples[0] * 5 + 9]
        return min((narrowest(self._run(x)) for x in samples), key=lambda v: _WIDTH[v])

    def _void(self, values: Values) -> bool:
        if self.template.first is not None:
            return False
        x = sample(values, self.shape)
        y = self._run(x)
        constant = y.numel() > 1 and bool((y == y.flatten()[0]).all())
        return constant or (x.shape == y.shape and torch.allclose(x, y, rtol=1e-6, atol=1e-7))

    def _drawn(self, template: InputTemplate) -> torch.Tensor:
        shape = (
            self.shape
            if template.shape == ("same",)
            else tuple(evaluate(e, self.names) for e in template.shape)
        )
        text = template.draw.format(shape=", ".join(map(str, shape)), **self.names)
        return eval(text, namespace())

    def _run(self, x: torch.Tensor) -> torch.Tensor:
        try:
            with torch.no_grad():
                return self._call(x)
        except NotUsableError:
            raise
        except Exception as error:  # whatever an operator raises, it cannot be used this way
            raise NotUsableError(LeftOut.FAILS, f"{type(error).__name__}: {_first(error)}") from error

    def run_meta(self) -> tuple[torch.Tensor, tuple[str, ...]]:
        """Output and aten operators at these sizes; nothing is allocated."""
        with torch.device("meta"):
            x = torch.empty(self.shape) if self.template.first is None else self._drawn(self.template.first)
            call = self._prepared()
            try:
                y, trace = traced(lambda: call(x))
            except Exception as error:  # without shape inference it cannot be composed
                raise NotUsableError(LeftOut.FAILS, f"on the meta device: {_first(error)}") from error
        if isinstance(y, torch.Tensor) and y.numel() > _GROWTH * max(x.numel(), 1):
            raise NotUsableError(LeftOut.TOO_LARGE, "its output is far larger than what flows in")
        return self._checked(y), trace.names

    def _call(self, x: torch.Tensor) -> torch.Tensor:
        return self._checked(self._prepared()(x))

    def _prepared(self) -> Any:
        """The call as a function of what flows in, its module and other inputs made from a fixed seed."""
        torch.manual_seed(_SEED)
        scope = namespace()
        texts: dict[str, Any] = {**self.names, "x": "x", "self": "module"}
        for template in self.template.inputs:
            scope[template.name] = self._drawn(template)
            texts[template.name] = template.name
        if self.template.constructor is not None:
            scope["module"] = eval(self.template.constructor.format(**texts), scope).eval()
        return eval("lambda x: " + self.template.code.format(**texts), scope)

    def _checked(self, y: Any) -> torch.Tensor:
        if not isinstance(y, torch.Tensor):
            raise NotUsableError(LeftOut.FAILS, f"it gives a {type(y).__name__}")
        if y.numel() < 2:
            raise NotUsableError(LeftOut.FAILS, "it gives a single number")
        return y


_BOUNDS = {
    Values.ANY: (-4.0, 4.0), Values.NONNEGATIVE: (0.0, 4.0), Values.POSITIVE: (0.1, 4.0),
    Values.SIGNED_UNIT: (-0.999, 0.999), Values.UNIT: (0.0, 0.999), Values.POSITIVE_UNIT: (0.1, 0.999),
}  # fmt: skip
_WIDTH = {v: i for i, v in enumerate((
    Values.ANY, Values.SIGNED_UNIT, Values.NONNEGATIVE, Values.POSITIVE, Values.UNIT, Values.POSITIVE_UNIT,
))}  # fmt: skip


def sample(values: Values, shape: tuple[int, ...]) -> torch.Tensor:
    """Values of the class, spread over its bounds, the bound at zero among them where it belongs to it."""
    generator = torch.Generator().manual_seed(_SEED)
    low, high = _BOUNDS[values]
    if values is Values.ANY:
        return torch.randn(shape, generator=generator) * 2
    x = low + (high - low) * torch.rand(shape, generator=generator)
    if low == 0.0:
        x.view(-1)[:2] = 0.0
    return x


def within(y: torch.Tensor, values: Values) -> bool:
    """Whether every element lies within the class."""
    least, most = float(y.min()), float(y.max())
    return {
        Values.ANY: True, Values.SIGNED_UNIT: least >= -1 and most <= 1, Values.NONNEGATIVE: least >= 0,
        Values.UNIT: least >= 0 and most <= 1, Values.POSITIVE: least > 0,
        Values.POSITIVE_UNIT: least > 0 and most <= 1,
    }[values]  # fmt: skip


def narrowest(y: torch.Tensor) -> Values:
    """The narrowest class that holds every element."""
    return next(v for v in sorted(_WIDTH, key=lambda v: -_WIDTH[v]) if within(y, v))


def _subset(inner: Values, outer: Values) -> bool:
    return inner is outer or outer in WIDER[inner]


WIDER: dict[Values, frozenset[Values]] = {
    Values.ANY: frozenset(),
    Values.SIGNED_UNIT: frozenset({Values.ANY}),
    Values.NONNEGATIVE: frozenset({Values.ANY}),
    Values.POSITIVE: frozenset({Values.ANY, Values.NONNEGATIVE}),
    Values.UNIT: frozenset({Values.ANY, Values.NONNEGATIVE, Values.SIGNED_UNIT}),
    Values.POSITIVE_UNIT: frozenset(set(Values) - {Values.POSITIVE_UNIT}),
}
"""Classes that hold every value of a class."""


def allowed(known: Values, wanted: Values) -> bool:
    """Whether a tensor of the class `known` may flow where `wanted` is taken."""
    return _subset(known, wanted)


def _first(error: BaseException) -> str:
    return (str(error).strip().splitlines() or ["(no message)"])[0][:160]
