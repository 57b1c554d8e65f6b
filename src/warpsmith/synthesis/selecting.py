"""What becomes of the tasks that passed: structures, no two alike, none of the benchmark's, the mix's shares."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from warpsmith.store.record_log import RecordLog
from warpsmith.synthesis.decontaminate import Known, Match, contaminated, counts, duplicates
from warpsmith.synthesis.mixes import Mix
from warpsmith.synthesis.records import ComposedTask, Origin
from warpsmith.synthesis.structure import Structure, structures
from warpsmith.types import Record, Task, sha256_hex
from warpsmith.types.protocols import Sandbox

_CHUNK = 32


class StructureRow(Record):
    """The structure of one text."""

    code_hash: str
    structure: Structure


class StructureLog(RecordLog[StructureRow]):
    """Structures by the hash of the text: tracing is most of the work, and is done once."""

    def __init__(self, path: Path):
        super().__init__(path, StructureRow, lambda row: row.code_hash)


class Selection(Record):
    """What was left out, and how many are left."""

    offered: int
    contaminated: dict[str, int]
    duplicates: dict[str, int]
    over_share: int
    """More of their kind than the mix has room for."""
    kept: int


def known_structures(
    named: Sequence[tuple[str, str]],
    log: StructureLog,
    *,
    sandbox: Sandbox | None = None,
    told: Callable[[int, int], None] = lambda done, of: None,
) -> list[Known]:
    """Each text (name, code) with its structure; what the log lacks is traced and logged in pieces."""
    missing = list(dict.fromkeys(code for _, code in named if log.get(sha256_hex(code)) is None))
    for start in range(0, len(missing), _CHUNK):
        chunk = missing[start : start + _CHUNK]
        for code, structure in zip(chunk, structures(chunk, sandbox=sandbox), strict=True):
            log.append(StructureRow(code_hash=sha256_hex(code), structure=structure), durable=False)
        told(start + len(chunk), len(missing))
    found = []
    for name, code in named:
        row = log.get(sha256_hex(code))
        assert row is not None
        found.append(Known(name, code, row.structure))
    return found


def select(
    tasks: Sequence[ComposedTask],
    log: StructureLog,
    benchmark: Sequence[Task],
    *,
    mix: Mix | None = None,
    count: int | None = None,
    sandbox: Sandbox | None = None,
    told: Callable[[int, int], None] = lambda done, of: None,
) -> tuple[list[tuple[ComposedTask, Structure]], Selection]:
    """The tasks that stay, in order, with their structures.

    First none that repeats a benchmark's task goes in, then no two alike; of those `count` in the shares of `mix`,
    fewer where there are not enough of a kind.
    """
    offered = known_structures([(t.name, t.code) for t in tasks], log, sandbox=sandbox, told=told)
    named = [(f"level {t.level} problem {t.problem_id}", t.code) for t in benchmark]
    against = known_structures(named, log, sandbox=sandbox, told=told)
    tainted = contaminated(offered, against)
    clean = _without(range(len(tasks)), tainted)
    repeated = duplicates([offered[place] for place in clean])
    unique = _without(clean, repeated)
    chosen = unique if mix is None or count is None else _in_shares(tasks, unique, mix, count)
    kept = [(tasks[place], offered[place].structure) for place in chosen]
    return kept, Selection(
        offered=len(tasks), contaminated=counts(tainted), duplicates=counts(repeated),
        over_share=len(unique) - len(chosen), kept=len(kept),
    )  # fmt: skip


def _without(places: Sequence[int], matches: Sequence[Match]) -> list[int]:
    """The places that no match names; a match counts within `places`."""
    gone = {match.place for match in matches}
    return [place for number, place in enumerate(places) if number not in gone]


def kind_of(task: ComposedTask) -> str:
    """What a mix counts by: `block`, or the number of operators."""
    return "block" if task.provenance.origin is Origin.BLOCK else str(len(task.ops))


def _in_shares(tasks: Sequence[ComposedTask], places: Sequence[int], mix: Mix, count: int) -> list[int]:
    shares: Mapping[str, float] = {"block": mix.blocks, **{str(n): s for n, s in mix.operators.items()}}
    whole = sum(shares.values())
    room = Counter({kind: round(count * share / whole) for kind, share in shares.items()})
    chosen = []
    for place in places:
        kind = kind_of(tasks[place])
        if room[kind] > 0:
            room[kind] -= 1
            chosen.append(place)
    return chosen
