"""Is an output right? Two gates over nested values, evaluated in bounded memory on the tensors' own device.

Paper gate:        |a - e| <= 1e-2 + 1e-2 * |e|, the published criterion.
Scale-aware gate:  |a - e| <= 1e-2 * spread(e) + 1e-2 * |e - centre(e)|, so that tiny outputs are judged by
their own size and a large common offset hides nothing:

- centre 0 and spread rms(e) in general;
- centre mean(e) and spread std(e) where std(e) < 0.1 * |mean(e)| and there are at least 16 elements (fewer
  say nothing about spread). Then one rounding unit of |mean(e)| is added, because a result near its mean
  cannot be finer: one epsilon of the output's dtype, or 64 of its accumulator's (float32; float64 for
  float64) if that is more.
- Anywhere, one smallest normal number (smallest subnormal for float16) is added for flush-to-zero; where the
  reference is all zero, that is all that is allowed.

The paper's gate is absolute, so on large outputs that cancel (a sum of 10^8 products near zero) no fp32
implementation meets it, the reference included. Where the reference's own rounding error is known (against
float64), four times its largest value is added to the paper's gate. The scale-aware gate is never finer than what
TF32 resolves of the task: `judge.verifier` says when it is widened.

Integers, bools and strings are exact. Floats of every width are compared in float64. Where the reference is
NaN or infinite, the actual value must be the same; statistics are taken over its finite elements.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from warpsmith.judge.correctness import moments
from warpsmith.judge.correctness.moments import Summary
from warpsmith.judge.runner import values

TOLERANCE = 1e-2
ROUNDING_FACTOR = 4.0
"""A result may be three times less accurate than the reference itself at its worst element."""
CENTRED_BELOW = 0.1
CENTRED_COUNT = 16
ACCUMULATOR_UNITS = 64
_HALF_SUBNORMAL = 2.0**-24


@dataclass(frozen=True)
class Comparison:
    """How an actual value compares with the expected one. Both gates are False where there is a `problem`."""

    paper_gate: bool
    scale_gate: bool
    rel: float = 0.0
    """Relative Frobenius error, the largest over outputs; inf where undefined."""
    max_abs: float = 0.0
    where: str = ""
    """Output path and index of `max_abs`."""
    mismatched_fraction: float = 0.0
    """Share of elements outside the scale-aware gate, or outside the paper gate where that is larger."""
    problem: str | None = None
    """Mismatch of type, structure, dtype, shape or NaN/Inf pattern, in one line."""
    expected: float | None = None
    """Reference value at `where`, read only where a gate failed."""
    actual: float | None = None

    @property
    def passed(self) -> bool:
        """Both gates hold."""
        return self.paper_gate and self.scale_gate

    def describe(self) -> str:
        """One line for a person."""
        if self.problem:
            return self.problem
        text = f"largest error {self.max_abs:.3g} at {self.where}" if self.where else "equal"
        if self.expected is not None:
            text += f" (expected {self.expected:.6g}, got {self.actual:.6g})"
        if self.mismatched_fraction:
            text += f", {100 * self.mismatched_fraction:.3g} % of elements outside the gate"
        return text


def compare(
    expected: object,
    actual: object,
    *,
    tolerance: float = TOLERANCE,
    paper_slack: Sequence[float] | None = None,
    scale_slack: Sequence[float] | None = None,
) -> Comparison:
    """Compares nested values of tensors, numbers and strings under both gates.

    Each gate is widened by its slack, one number for each tensor or number in `expected`. `tolerance` replaces
    1e-2 throughout, but is never finer than one rounding unit of an output's dtype. Raises UnsupportedValue if
    `expected` holds something the judge cannot take, and torch.OutOfMemoryError where even 256 MiB of temporaries
    do not fit.
    """
    expected_spec, expected_tensors = values.flatten(expected)
    pairs: list[tuple[str, torch.Tensor, torch.Tensor]] = []
    try:
        actual_spec, actual_tensors = values.flatten(actual)
        for path, e_leaf, a_leaf in _leaves(expected_spec, actual_spec, "out"):
            e, a = _tensor_of(e_leaf, expected_tensors), _tensor_of(a_leaf, actual_tensors)
            _same_form(path, e, a)
            pairs.append((path, e, a))
    except (values.UnsupportedValue, _MismatchError) as e:
        return Comparison(False, False, rel=math.inf, max_abs=math.inf, problem=str(e))
    none = [0.0] * len(pairs)
    parts = zip(pairs, paper_slack or none, scale_slack or none, strict=True)
    return _merge([_compare_tensors(path, e, a, tolerance, *s) for (path, e, a), *s in parts if e.numel()])


def largest_errors(
    expected: object, other: object, *, paper: bool = False, any_size: bool = False
) -> list[float] | None:
    """Largest |expected - other| of each tensor or number in `expected`; `other` may be wider, such as float64.

    None where the two differ in structure, integers or what is finite, or by more than the scale-aware gate (the
    paper's, with `paper`; none, with `any_size`): then one is no measure of the other.
    """
    expected_spec, expected_tensors = values.flatten(expected)
    found = []
    try:
        other_spec, other_tensors = values.flatten(other)
        for path, e_leaf, o_leaf in _leaves(expected_spec, other_spec, "out"):
            e, o = _tensor_of(e_leaf, expected_tensors), _tensor_of(o_leaf, other_tensors)
            _same_form(path, e, o.to(e.dtype))
            part = _compare_tensors(path, e, o, TOLERANCE, 0.0, 0.0) if e.numel() else None
            bad = part is not None and (part.paper_bad if paper else part.scale_bad)
            if part is not None and (part.problem or (bad and not (any_size and e.is_floating_point()))):
                return None
            found.append(part.max_abs if part is not None else 0.0)
    except (values.UnsupportedValue, _MismatchError):
        return None
    return found


def summarise(value: object) -> list[Summary]:
    """Statistics of every tensor and number in a nested value, in order. One device synchronisation each."""
    spec, tensors = values.flatten(value)
    leaves = [_tensor_of(leaf, tensors) for _, leaf, _ in _leaves(spec, spec, "out")]
    return [moments.summary(moments.real(t)) for t in leaves]


class _MismatchError(Exception):
    """The actual value has another structure, type, dtype or shape."""


def _leaves(e: dict[str, Any], a: dict[str, Any], path: str) -> Iterator[tuple[str, Any, Any]]:
    """Pairs of tensor and number leaves as (path, e, a). Raises _MismatchError where the form differs."""
    ((tag, e_body),) = e.items()
    ((a_tag, a_body),) = a.items()
    if tag != a_tag:
        raise _MismatchError(f"{path} is a {_kind(a)}, expected a {_kind(e)}")
    elif tag in ("t", "float", "int"):
        yield path, e, a
    elif tag in ("list", "tuple"):
        if len(e_body) != len(a_body):
            raise _MismatchError(f"{path} has {len(a_body)} items, expected {len(e_body)}")
        for i, (e_item, a_item) in enumerate(zip(e_body, a_body, strict=True)):
            yield from _leaves(e_item, a_item, f"{path}[{i}]")
    elif tag in ("dict", "named"):
        if tag == "named" and e_body[:2] != a_body[:2]:
            raise _MismatchError(f"{path} is a {_kind(a)}, expected a {_kind(e)}")
        e_items, a_items = (dict(body[2] if tag == "named" else body) for body in (e_body, a_body))
        if e_items.keys() != a_items.keys():
            raise _MismatchError(f"{path} has the keys {list(a_items)}, expected {list(e_items)}")
        for key, e_item in e_items.items():
            step = f".{key}" if tag == "named" else f"[{key!r}]"
            yield from _leaves(e_item, a_items[key], path + step)
    elif e_body != a_body:
        raise _MismatchError(f"{path} is {a_body!r}, expected {e_body!r}")


def _kind(node: dict[str, Any]) -> str:
    ((tag, body),) = node.items()
    return {"t": "tensor", "none": "None"}.get(tag, body[0] if tag == "named" else tag)


def _tensor_of(leaf: dict[str, Any], tensors: list[torch.Tensor]) -> torch.Tensor:
    if "t" in leaf:
        return tensors[leaf["t"]]
    if "int" in leaf:
        return torch.tensor(leaf["int"])
    return torch.tensor(float.fromhex(leaf["float"]), dtype=torch.float64)


def _same_form(path: str, e: torch.Tensor, a: torch.Tensor) -> None:
    if a.dtype != e.dtype:
        names = values.dtype_name(a.dtype), values.dtype_name(e.dtype)
        raise _MismatchError(f"{path} has dtype {names[0]}, expected {names[1]}")
    if a.shape != e.shape:
        raise _MismatchError(f"{path} has shape {list(a.shape)}, expected {list(e.shape)}")


@dataclass(frozen=True)
class _Part:
    """The comparison of one tensor."""

    count: int
    paper_bad: int
    scale_bad: int
    rel: float
    max_abs: float
    where: str
    problem: str | None
    expected: float | None
    actual: float | None


@dataclass(frozen=True)
class _Gate:
    """|a - e| <= atol + rtol * |e - centre|."""

    centre: float
    atol: float
    rtol: float


def _compare_tensors(
    path: str, e: torch.Tensor, a: torch.Tensor, tolerance: float, paper_slack: float, scale_slack: float
) -> _Part:
    is_complex = e.dtype.is_complex
    e, a = moments.real(e), moments.real(a)
    exact = not e.dtype.is_floating_point
    summary = moments.summary(e)
    if exact:
        paper = scale = _Gate(0.0, 0.0, 0.0)
    else:
        paper = _Gate(0.0, tolerance + paper_slack, tolerance)
        scale = _scale_gate(summary, e.dtype, tolerance, scale_slack)
    pure = summary.finite == summary.count
    chunks = list(moments.blocks(e.shape, moments.chunk(e.device)))
    rows = [_block_errors(e[block], a[block], paper, scale, exact, pure) for block in chunks]
    paper_ok, scale_ok, largest, at, norm = zip(*torch.stack(rows).tolist(), strict=True)
    worst = max(range(len(rows)), key=lambda i: math.inf if math.isnan(largest[i]) else largest[i])
    max_abs = math.inf if math.isnan(largest[worst]) else largest[worst]
    count = summary.count
    paper_bad, scale_bad = count - int(sum(paper_ok)), count - int(sum(scale_ok))
    index = moments.index(e[chunks[worst]].shape, int(at[worst]), chunks[worst])
    named = index[:-1] if is_complex else index
    where = (path + (str(list(named)) if named else "")) if max_abs > 0 else ""
    e_value = a_value = problem = None
    if paper_bad or scale_bad:
        e_value, a_value = e[index].item(), a[index].item()
        # Also an error beyond float64's range is infinite without any value being so.
        if not (math.isfinite(a_value) and math.isfinite(e_value)):
            problem = f"{where} is {a_value:.6g} where the reference is {e_value:.6g}"
    return _Part(
        count=count,
        paper_bad=paper_bad,
        scale_bad=scale_bad,
        rel=_relative(math.hypot(*norm), summary.rms * math.sqrt(summary.finite)),
        max_abs=max_abs,
        where=where,
        problem=problem,
        expected=e_value,
        actual=a_value,
    )


def _relative(error: float, reference: float) -> float:
    if error == 0:
        return 0.0
    return error / reference if reference > 0 and math.isfinite(error / reference) else math.inf


def _scale_gate(summary: Summary, dtype: torch.dtype, tolerance: float, slack: float) -> _Gate:
    info = torch.finfo(dtype)
    unit = info.eps
    if info.bits >= 16:
        accumulator = torch.float64 if dtype == torch.float64 else torch.float32
        unit = max(unit, ACCUMULATOR_UNITS * torch.finfo(accumulator).eps)
    tiny = _HALF_SUBNORMAL if dtype == torch.float16 else info.tiny
    tolerance = max(tolerance, unit)
    offset = abs(summary.mean)
    if summary.finite >= CENTRED_COUNT and summary.std < CENTRED_BELOW * offset:
        return _Gate(summary.mean, tolerance * summary.std + unit * offset + tiny + slack, tolerance)
    return _Gate(0.0, tolerance * summary.rms + tiny + slack, tolerance)


def _block_errors(
    e: torch.Tensor, a: torch.Tensor, paper: _Gate, scale: _Gate, exact: bool, pure: bool
) -> torch.Tensor:
    """[elements inside the paper gate, inside the scale gate, largest error, its flat index, error's norm].

    float64 on the tensors' device, nothing read back. `pure`: `e` is finite throughout.
    """
    a = a.to(e.device)
    same = (a == e).reshape(-1) if exact else None
    e, a = moments.double(e), moments.double(a)
    if not pure:
        special = ~torch.isfinite(e)
        match = (a == e) | (torch.isnan(e) & torch.isnan(a))
        a = torch.where(special, torch.where(match, 0.0, math.nan), a)
        e = torch.where(special, 0.0, e)
    error = (a - e).abs_()
    if same is None:
        paper_ok, scale_ok = _inside(error, e, paper), _inside(error, e, scale)
    else:
        # Unequal integers differ by at least 1, also where float64 cannot tell.
        error = torch.where(same, 0.0, error.clamp_min_(1.0))
        paper_ok = scale_ok = same.sum()
    largest, at = error.max(dim=0)
    norm = torch.linalg.vector_norm(error)
    return torch.stack([t.double() for t in (paper_ok, scale_ok, largest, at, norm)])


def _inside(error: torch.Tensor, e: torch.Tensor, gate: _Gate) -> torch.Tensor:
    """How many elements the gate lets pass; an error that is NaN is inside no gate."""
    magnitude = (e - gate.centre).abs_() if gate.centre else e.abs()
    return (torch.sub(error, magnitude, alpha=gate.rtol) <= gate.atol).sum()


def _merge(parts: list[_Part]) -> Comparison:
    if not parts:
        return Comparison(True, True)
    paper_bad, scale_bad = sum(p.paper_bad for p in parts), sum(p.scale_bad for p in parts)
    failing = [p for p in parts if p.paper_bad or p.scale_bad]
    worst = max(failing or parts, key=lambda p: p.max_abs)
    problem = next((p.problem for p in parts if p.problem), None)
    return Comparison(
        paper_gate=paper_bad == 0,
        scale_gate=scale_bad == 0,
        rel=max(p.rel for p in parts),
        max_abs=worst.max_abs,
        where=worst.where,
        mismatched_fraction=max(paper_bad, scale_bad) / sum(p.count for p in parts),
        problem=problem,
        expected=worst.expected,
        actual=worst.actual,
    )
