"""Structures that were found, by the hash of the text: tracing is most of the work, and is done once."""

from collections.abc import Callable, Sequence
from pathlib import Path

from warpsmith.store.record_log import RecordLog
from warpsmith.synthesis.structure import Structure, structures
from warpsmith.types import Record, sha256_hex
from warpsmith.types.protocols import Sandbox

_CHUNK = 256
"""Texts traced by one process, whose start takes as long as thirty of them; as many are traced anew where it ends."""


class StructureRow(Record):
    """The structure of one text."""

    code_hash: str
    structure: Structure


class StructureLog(RecordLog[StructureRow]):
    """One row a text; the last one counts."""

    def __init__(self, path: Path):
        super().__init__(path, StructureRow, lambda row: row.code_hash)

    def find(self, code: str, *, run: bool = False) -> Structure | None:
        """The structure of a text; with `run` only where it was run as well."""
        row = self.get(sha256_hex(code))
        return None if row is None or (run and row.structure.run is None) else row.structure


def logged(
    codes: Sequence[str],
    log: StructureLog | None,
    *,
    sandbox: Sandbox | None = None,
    run: bool = False,
    workers: int = 1,
    told: Callable[[int, int], None] = lambda done, of: None,
) -> list[Structure]:
    """`structures` of the texts, in order; what the log lacks is traced and logged in pieces.

    `told` is called with the texts traced so far and how many were missing.
    """
    if log is None:
        count = len(set(codes))
        return structures(
            codes, sandbox=sandbox, run=run, workers=workers, told=lambda done: told(done, count)
        )
    missing = list(dict.fromkeys(code for code in codes if log.find(code, run=run) is None))
    for start in range(0, len(missing), _CHUNK * workers):
        chunk = missing[start : start + _CHUNK * workers]
        for code, structure in zip(
            chunk, structures(chunk, sandbox=sandbox, run=run, workers=workers), strict=True
        ):
            log.append(StructureRow(code_hash=sha256_hex(code), structure=structure), durable=False)
        told(start + len(chunk), len(missing))
    found = [log.find(code, run=run) for code in codes]
    return [structure for structure in found if structure is not None]
