"""The composer that needs no language model: operators drawn one after another, then sizes for the wanted time."""

import math
import random
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from warpsmith.errors import TaskRefusedError
from warpsmith.synthesis.bands import band_of, bands_of
from warpsmith.synthesis.cost import CostModel, look
from warpsmith.synthesis.draft import DoesNotFitError, Draft, begin, data_source
from warpsmith.synthesis.mixes import Mix
from warpsmith.synthesis.probing import allowed, dimension_names, drawn_parameters
from warpsmith.synthesis.records import (
    Band,
    Catalogue,
    ComposedTask,
    CostEstimate,
    Family,
    Operator,
    OperatorKind,
    Origin,
    Provenance,
    Values,
)
from warpsmith.synthesis.sizing import CouldNotComposeError, nice
from warpsmith.types import sha256_hex

_ATTEMPTS = 60
_TRIES_AN_OPERATOR = 12
_DIMS: dict[int, tuple[tuple[int, ...], ...]] = {
    2: ((512, 2048, 8192), (128, 256, 384, 512, 768, 1000, 1024, 2048, 3072, 4096, 8192)),
    3: ((8, 16, 32), (64, 128, 196, 256, 512, 1024), (64, 128, 256, 384, 512, 768, 1024)),
    4: ((8, 16, 32), (8, 16, 24, 32, 48, 64, 96, 128), (28, 32, 48, 56, 64, 96, 112, 128),
        (28, 32, 48, 56, 64, 96, 112, 128)),
    5: ((2, 4, 8), (8, 16, 24, 32, 64), (8, 12, 16, 24, 32), (16, 24, 28, 32, 48), (16, 24, 28, 32, 48)),
}  # fmt: skip
_RANK_WEIGHTS = {2: 1.0, 3: 1.0, 4: 1.5, 5: 0.5}
_FAMILY_WEIGHTS = {
    Family.ACTIVATION: 1.5, Family.ELEMENTWISE: 1.0, Family.BINARY: 1.2, Family.REDUCTION: 1.2, Family.NORM: 1.5,
    Family.SOFTMAX: 0.7, Family.SCAN: 0.5, Family.LINEAR: 1.4, Family.CONV: 1.6, Family.POOL: 1.0,
    Family.ATTENTION: 0.35, Family.RECURRENT: 0.04, Family.RESHAPE: 0.8, Family.RESAMPLE: 0.4,
    Family.INDEX: 0.5, Family.SORT: 0.2, Family.LOSS: 0.5, Family.DISTANCE: 0.4, Family.OTHER: 0.08,
}  # fmt: skip
_STARTS = (
    Values.ANY, Values.ANY, Values.UNIT, Values.UNIT, Values.SIGNED_UNIT, Values.POSITIVE, Values.POSITIVE_UNIT,
)  # fmt: skip
_WINDOWED = frozenset({Family.CONV, Family.POOL, Family.RESAMPLE})
_LARGEST_SOFTMAX = 64
"""Over more than this the softmax of ordinary values is too small to tell from zero under the paper's gate."""


class GrammarComposer:
    """Task `index` of a mix and seed is always the same, whichever others were made."""

    def __init__(self, catalogue: Catalogue, mix: Mix, seed: int):
        self.mix, self.seed, self._catalogue = mix, seed, catalogue
        self._cost = CostModel.of(mix.gpu)
        self._by_family: dict[Family, dict[str, list[Operator]]] = defaultdict(lambda: defaultdict(list))
        for op in catalogue.operators:
            if op.kind is not OperatorKind.BLOCK:
                self._by_family[op.family][op.name].append(op)

    def compose(self, index: int) -> ComposedTask:
        """Raises CouldNotComposeError."""
        rng = random.Random(f"{self.mix.name}/{self.seed}/{index}")
        band = _weighted(rng, self.mix.bands) if self.mix.bands else None
        counts = self.mix.operators
        if band is not None:
            counts = {n: share for n, share in counts.items() if band in bands_of(n)} or counts
        count = _weighted(rng, counts)
        for _ in range(_ATTEMPTS):
            draft = self._draft(rng, count)
            found = draft and self._sized(rng, draft, band)
            if found:
                return self._task(index, *found)
        raise CouldNotComposeError(f"no task of {count} operators in {_ATTEMPTS} attempts")

    def _draft(self, rng: random.Random, count: int) -> Draft | None:
        draft: Draft | None = None
        for place in range(count):
            last = place == count - 1
            draft = self._first(rng, last) if draft is None else self._next(rng, draft, last)
            if draft is None:
                return None
        return draft

    def _first(self, rng: random.Random, last: bool) -> Draft | None:
        for _ in range(_TRIES_AN_OPERATOR):
            op = self._operator(rng)
            rank = 2 if op.first else _weighted(rng, {r: _RANK_WEIGHTS[r] for r in op.ranks if r in _DIMS})
            starts = [v for v in _STARTS if _fits(op, v)]
            if not starts or (op.ends and not last):
                continue
            values = rng.choice(starts)
            shape = tuple(rng.choice(choices) for choices in _DIMS[rank])
            if op.first:
                shape = (rng.choice((64, 128, 256)), rng.choice((32, 64, 128, 256)))
            elif op.family is Family.ATTENTION and rank == 4:
                shape = (rng.choice((4, 8, 16)), rng.choice((4, 8, 12, 16)), rng.choice((128, 256, 512, 1024)),
                         rng.choice((32, 64, 128)))  # fmt: skip
            draft = self._applied(rng, begin(op, shape, values), op)
            if draft is not None:
                return draft
        return None

    def _next(self, rng: random.Random, draft: Draft, last: bool) -> Draft | None:
        before = draft.ops[-1]
        for _ in range(_TRIES_AN_OPERATOR):
            op = self._operator(rng)
            if (
                op.first or len(draft.shape) not in op.ranks or (op.ends and not last)
                or op.name == before.name or not _fits(op, draft.values) or _undoes(before, op)
            ):  # fmt: skip
                continue
            found = self._applied(rng, draft, op)
            if found is not None:
                return found
        return None

    def _operator(self, rng: random.Random) -> Operator:
        weights = {
            f: w * self.mix.families.get(f, 1.0) for f, w in _FAMILY_WEIGHTS.items() if f in self._by_family
        }
        named = self._by_family[_weighted(rng, weights)]
        return rng.choice(named[rng.choice(list(named))])

    def _applied(self, rng: random.Random, draft: Draft, op: Operator) -> Draft | None:
        dims = dimension_names(draft.shape)
        for _ in range(4):
            places = [rng.randrange(len(p.choices)) for p in op.parameters]
            parameters = drawn_parameters(op.parameters, op.requires, dims, places)
            if parameters is None or _too_small(op, parameters, draft.shape):
                continue
            try:
                return draft.apply(op, parameters)
            except DoesNotFitError:
                continue
        return None

    def _sized(
        self, rng: random.Random, draft: Draft, band: Band | None
    ) -> tuple[Draft, str, CostEstimate, tuple[str, ...]] | None:
        """The draft with its first size scaled until the estimated time is the one drawn."""
        low, high = self.mix.drawn_ms
        wanted = math.exp(rng.uniform(math.log(low), math.log(high)))
        name = next(iter(draft.sizes))
        if not draft.calls:
            return None  # views alone: nothing to compute
        expected_ms = self._cost.eager_ms(draft.calls)
        for _ in range(2):
            scaled = draft.scaled(name, nice(draft.sizes[name] * wanted / expected_ms))
            if scaled is None:
                return None
            code = scaled.render()
            try:
                seen = look(code)
            except TaskRefusedError:
                return None
            cost = self._cost.estimate(seen)
            if low <= cost.eager_ms <= high:
                fits = self.mix.holds(cost, seen.input_bytes)
                suits = band is None or band_of(len(draft.ops), cost) is band
                return (scaled, code, cost, seen.trace.names) if fits and suits else None
            # part of the time does not grow with the batch
            draft, expected_ms = scaled, cost.eager_ms
        return None

    def _task(
        self, index: int, draft: Draft, code: str, cost: CostEstimate, trace: tuple[str, ...]
    ) -> ComposedTask:
        libraries = sorted({op.library for op in draft.ops})
        return ComposedTask(
            name=f"{self.mix.name}_{self.seed}_{index:06d}",
            ops=tuple(op.name for op in draft.ops),
            data_source=data_source(draft.ops),
            code=code,
            provenance=Provenance(
                origin=Origin.GRAMMAR,
                libraries=tuple(f"{name} {self._catalogue.libraries[name]}" for name in libraries),
                licences=tuple(sorted({op.licence for op in draft.ops})),
                mix=self.mix.name, seed=self.seed,
            ),
            cost=cost, index=index, key=structure_key(draft), trace=trace,
        )  # fmt: skip


def structure_key(draft: Draft) -> str:
    """Equal for drafts whose graphs can be equal: aten operators in order, and the kinds of windowed calls.

    Coarser than a graph's fingerprint, and free: tasks of different keys never need to be compared by their graphs.
    """
    parts = []
    for op, rank in zip(draft.ops, draft.ranks, strict=True):
        windowed = op.family in _WINDOWED
        parts.append((op.trace, rank if windowed else 0, op.variant if windowed else ""))
    return sha256_hex(repr(parts))[:32]


def _weighted(rng: random.Random, weights: Any) -> Any:
    names: Sequence[Any] = list(weights)
    return rng.choices(names, [weights[name] for name in names])[0]


def _fits(op: Operator, values: Values) -> bool:
    """Whether values of this class may flow in and come out changed."""
    return allowed(values, op.takes) and not any(allowed(values, void) for void in op.void_on)


def _undoes(before: Operator, op: Operator) -> bool:
    """Pairs whose second makes nothing of the first, or leaves a parameter of it without effect."""
    free_of_shift = "InstanceNorm" in op.name or op.variant == "batch_statistics"
    shifts = before.family in (Family.CONV, Family.LINEAR) or before.name.endswith(
        ("InstanceNorm", "BatchNorm")
    )
    two_softmaxes = before.family is Family.SOFTMAX and op.family is Family.SOFTMAX
    two_shapes = before.family is Family.RESHAPE and op.family is Family.RESHAPE
    return (
        (free_of_shift and shifts)
        or two_softmaxes
        or two_shapes
        or bool(before.trace and before.trace == op.trace)
    )


def _too_small(op: Operator, parameters: dict[str, Any], shape: tuple[int, ...]) -> bool:
    """A softmax over so many values that each is next to nothing."""
    if op.family is not Family.SOFTMAX or "log" in op.name.lower():
        return False
    dim = parameters.get("dim", 1)
    return shape[dim] > _LARGEST_SOFTMAX
