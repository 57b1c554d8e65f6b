"""What becomes of the tasks that passed: structures, no two alike, none of the benchmark's, the mix's shares."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from pydantic import Field

from warpsmith.synthesis.bands import band_of
from warpsmith.synthesis.decontaminate import Known, Match, contaminated, counts, duplicates
from warpsmith.synthesis.mixes import Mix
from warpsmith.synthesis.records import Band, ComposedTask, Origin
from warpsmith.synthesis.structure import Structure
from warpsmith.synthesis.structure_log import StructureLog, logged
from warpsmith.types import Record, Task
from warpsmith.types.protocols import Sandbox

_BLOCK = "block"


class Selection(Record):
    """What was left out, and how many are left."""

    offered: int
    contaminated: dict[str, int]
    duplicates: dict[str, int]
    over_share: int
    """More of their kind than the mix has room for."""
    lacking: dict[str, int] = Field(default_factory=dict)
    """Kinds of which there were too few, and how many of other kinds stand in for them."""
    kept: int


def select(
    tasks: Sequence[ComposedTask],
    log: StructureLog,
    benchmark: Sequence[Task],
    *,
    mix: Mix | None = None,
    count: int | None = None,
    band: Callable[[ComposedTask], Band] = lambda task: band_of(len(task.ops), task.cost),
    sandbox: Sandbox | None = None,
    told: Callable[[int, int], None] = lambda done, of: None,
) -> tuple[list[tuple[ComposedTask, Structure]], Selection]:
    """The tasks that stay, in order, with their structures.

    First none that repeats a benchmark's task goes in, then no two alike; of those `count` in the shares of `mix`.
    Where there are too few of a kind, others stand in for them.
    """

    def known(named: Sequence[tuple[str, str]]) -> list[Known]:
        found = logged([code for _, code in named], log, sandbox=sandbox, told=told)
        return [Known(*pair, structure) for pair, structure in zip(named, found, strict=True)]

    offered = known([(t.name, t.code) for t in tasks])
    against = known([(f"level {t.level} problem {t.problem_id}", t.code) for t in benchmark])
    tainted = contaminated(offered, against)
    clean = _without(range(len(tasks)), tainted)
    repeated = duplicates([offered[place] for place in clean])
    unique = _without(clean, repeated)
    chosen, lacking = unique, {}
    if mix is not None and count is not None:
        kinds = [kind_of(tasks[place], mix, band(tasks[place])) for place in unique]
        places, lacking = _in_shares(kinds, mix, count)
        chosen = [unique[place] for place in places]
    kept = [(tasks[place], offered[place].structure) for place in chosen]
    return kept, Selection(
        offered=len(tasks), contaminated=counts(tainted), duplicates=counts(repeated),
        over_share=len(unique) - len(chosen), lacking=lacking, kept=len(kept),
    )  # fmt: skip


def _without(places: Sequence[int], matches: Sequence[Match]) -> list[int]:
    """The places that no match names; a match counts within `places`."""
    gone = {match.place for match in matches}
    return [place for number, place in enumerate(places) if number not in gone]


def kind_of(task: ComposedTask, mix: Mix, band: Band) -> str:
    """What the mix counts by: the band where it has bands, else `block` or the number of operators."""
    if mix.bands:
        return band.value
    return _BLOCK if task.provenance.origin is Origin.BLOCK else str(len(task.ops))


def rooms(shares: Mapping[str, float], held: Mapping[str, int], count: int) -> dict[str, int]:
    """How many of each kind go in: by their shares, and what one kind lacks by the shares of those that have more.

    `count` together, unless all kinds together hold fewer.
    """
    room = dict.fromkeys(shares, 0)
    left = min(count, sum(held.get(kind, 0) for kind in shares))
    while left:
        open_kinds = [kind for kind in shares if room[kind] < held.get(kind, 0) and shares[kind] > 0]
        if not open_kinds:
            break
        whole = sum(shares[kind] for kind in open_kinds)
        for kind in sorted(open_kinds, key=lambda kind: -shares[kind]):
            wanted = max(1, round(left * shares[kind] / whole))
            room[kind] += min(wanted, held.get(kind, 0) - room[kind], count - sum(room.values()))
        left = min(count, sum(held.get(kind, 0) for kind in shares)) - sum(room.values())
    return room


def _in_shares(kinds: Sequence[str], mix: Mix, count: int) -> tuple[list[int], dict[str, int]]:
    """The places that go in, in order, and how many each kind lacks of its share."""
    shares: dict[str, float] = {band.value: share for band, share in mix.bands.items()}
    shares = shares or {_BLOCK: mix.blocks, **{str(n): share for n, share in mix.operators.items()}}
    room = rooms(shares, Counter(kinds), count)
    fair = rooms(shares, dict.fromkeys(shares, count), count)
    lacking = {kind: fair[kind] - room[kind] for kind in shares if room[kind] < fair[kind]}
    chosen = []
    for place, kind in enumerate(kinds):
        if room.get(kind, 0) > 0:
            room[kind] -= 1
            chosen.append(place)
    return chosen, lacking
