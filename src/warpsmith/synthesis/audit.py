"""What is wrong with a set of tasks in the published schema: duplicates, wrong labels, contamination, unfit rows."""

import ast
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from enum import StrEnum

from warpsmith.synthesis.decontaminate import Known, Likeness, Match, contaminated, duplicates
from warpsmith.synthesis.labels import not_run
from warpsmith.synthesis.published import PublishedRow
from warpsmith.synthesis.structure import FingerprintKind, Outcome, Structure
from warpsmith.synthesis.structure_log import StructureLog, logged
from warpsmith.tasks.user_file import bound_names
from warpsmith.types import Record
from warpsmith.types.protocols import Sandbox


class Finding(StrEnum):
    """What is wrong with a row, and in what way; a row can have several."""

    REFUSED_MALFORMED = "refused.malformed"
    REFUSED_NOT_PYTHON = "refused.not_python"
    REFUSED_NO_MODEL = "refused.no_model"
    REFUSED_NO_INPUTS = "refused.no_inputs"
    """It lacks `get_inputs` or `get_init_inputs`."""
    REFUSED_DOES_NOT_RUN = "refused.does_not_run"
    DUPLICATE_TEXT = "duplicate.same_text"
    DUPLICATE_STRUCTURE = "duplicate.same_structure"
    DUPLICATE_NEAR_TEXT = "duplicate.near_text"
    MISLABELLED = "mislabelled"
    CONTAMINATED_TEXT = "contaminated.same_text"
    CONTAMINATED_STRUCTURE = "contaminated.same_structure"
    CONTAMINATED_NEAR_TEXT = "contaminated.near_text"


_DUPLICATE = {
    Likeness.SAME_TEXT: Finding.DUPLICATE_TEXT,
    Likeness.SAME_STRUCTURE: Finding.DUPLICATE_STRUCTURE,
    Likeness.NEAR_TEXT: Finding.DUPLICATE_NEAR_TEXT,
}
_CONTAMINATED = {
    Likeness.SAME_TEXT: Finding.CONTAMINATED_TEXT,
    Likeness.SAME_STRUCTURE: Finding.CONTAMINATED_STRUCTURE,
    Likeness.NEAR_TEXT: Finding.CONTAMINATED_NEAR_TEXT,
}


class RowFinding(Record):
    """One thing that is wrong with one row."""

    row: int
    """From 1."""
    finding: Finding
    detail: str = ""


class Audit(Record):
    """What was looked at and what was found."""

    schema_version: int = 1
    rows: int
    against: int
    """Tasks of the benchmark that rows were compared with; 0 where none was given."""
    ran: bool
    """Whether rows were run; where not, a row that fails when run is found only if it cannot be traced either."""
    traced: int
    """Rows whose operator graph was taken; the others are compared by their text alone."""
    untraced: dict[str, int]
    """The others, by what became of the attempt."""
    findings: tuple[RowFinding, ...]
    seconds: float

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    @property
    def counts(self) -> dict[str, int]:
        """Rows by finding, every finding named."""
        found = Counter(f.finding for f in self.findings)
        return {finding.value: found[finding] for finding in Finding}

    @property
    def rows_with_findings(self) -> int:
        """Rows with at least one finding."""
        return len({f.row for f in self.findings})


def audit(
    rows: Sequence[PublishedRow],
    against: Sequence[Known] = (),
    *,
    run: bool = False,
    sandbox: Sandbox | None = None,
    workers: int = 1,
    log: StructureLog | None = None,
    told: Callable[[int, int], None] = lambda done, total: None,
) -> Audit:
    """Looks at every row. `run`: runs each at small sizes on the CPU as well, and refuses those that fail.

    `log` answers for texts that were traced before, and keeps what is traced now. `told` is called with the tasks
    traced so far and how many there are. Raises ValueError for no rows, InfrastructureError where tasks cannot be
    traced.
    """
    if not rows:
        raise ValueError("an audit of no rows says nothing")
    began = time.monotonic()
    refused = {row.number: found for row in rows if (found := _refusal(row)) is not None}
    readable = [row for row in rows if row.number not in refused]
    codes = [row.code for row in readable]
    found = logged(codes, log, sandbox=sandbox, run=run, workers=workers, told=told)
    findings = [
        *refused.values(),
        *_not_running(readable, found),
        *_mislabelled(readable, found),
        *_repeated(readable, found, against),
    ]
    order = {finding: place for place, finding in enumerate(Finding)}
    untraced = Counter(s.trace.value for s in found if s.kind is not FingerprintKind.GRAPH)
    return Audit(
        rows=len(rows),
        against=len(against),
        ran=run,
        traced=len(found) - untraced.total(),
        untraced=dict(sorted(untraced.items())),
        findings=tuple(sorted(findings, key=lambda f: (f.row, order[f.finding]))),
        seconds=time.monotonic() - began,
    )


def _refusal(row: PublishedRow) -> RowFinding | None:
    """Why a row's text is no task; None where it is one."""
    if row.malformed:
        return RowFinding(row=row.number, finding=Finding.REFUSED_MALFORMED, detail=row.malformed)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(row.code)
    except SyntaxError as error:
        detail = f"line {error.lineno}: {error.msg}"
        return RowFinding(row=row.number, finding=Finding.REFUSED_NOT_PYTHON, detail=detail)
    except (ValueError, RecursionError, MemoryError) as error:
        return RowFinding(row=row.number, finding=Finding.REFUSED_NOT_PYTHON, detail=type(error).__name__)
    names = set(bound_names(tree.body))
    if "*" in names:
        return None
    if "Model" not in names:
        return RowFinding(row=row.number, finding=Finding.REFUSED_NO_MODEL)
    missing = [name for name in ("get_inputs", "get_init_inputs") if name not in names]
    if not missing:
        return None
    return RowFinding(row=row.number, finding=Finding.REFUSED_NO_INPUTS, detail=f"no {', '.join(missing)}")


def _not_running(rows: Sequence[PublishedRow], found: Sequence[Structure]) -> list[RowFinding]:
    return [
        RowFinding(row=row.number, finding=Finding.REFUSED_DOES_NOT_RUN, detail=structure.detail)
        for row, structure in zip(rows, found, strict=True)
        if structure.run not in (None, Outcome.OK)
    ]


def _mislabelled(rows: Sequence[PublishedRow], found: Sequence[Structure]) -> list[RowFinding]:
    findings = []
    for row, structure in zip(rows, found, strict=True):
        if lacking := not_run(row.ops, row.code, structure):
            detail = f"does not run {', '.join(lacking)}"
            findings.append(RowFinding(row=row.number, finding=Finding.MISLABELLED, detail=detail))
    return findings


def _repeated(
    rows: Sequence[PublishedRow], found: Sequence[Structure], against: Sequence[Known]
) -> list[RowFinding]:
    tasks = [Known(row.name, row.code, structure) for row, structure in zip(rows, found, strict=True)]

    def told(matches: Sequence[Match], findings: dict[Likeness, Finding]) -> list[RowFinding]:
        return [
            RowFinding(row=rows[m.place].number, finding=findings[m.likeness], detail=_like(m))
            for m in matches
        ]

    return told(duplicates(tasks), _DUPLICATE) + told(contaminated(tasks, against), _CONTAMINATED)


def _like(match: Match) -> str:
    return match.like if match.similarity is None else f"{match.like} (similarity {match.similarity:.3f})"


def audit_lines(result: Audit, most: int = 20) -> list[str]:
    """The audit for a person: counts, and of each finding the first `most` rows."""
    compared = f"; compared with {result.against} tasks of the benchmark" if result.against else ""
    lines = [f"{result.rows} rows, {result.rows_with_findings} with findings{compared}"]
    others = ", ".join(f"{count} {name}" for name, count in result.untraced.items())
    lines.append(
        f"{result.traced} compared by operator graph" + (f", by text alone: {others}" if others else "")
    )
    if not result.ran:
        lines.append("not run: --run also finds rows that fail when they are run")
    for finding, count in result.counts.items():
        lines.append(f"{count:7,}  {finding}")
    for finding in Finding:
        told = [f for f in result.findings if f.finding is finding]
        if told:
            lines += ["", f"{finding.value}:"]
            lines += [f"  row {f.row}: {f.detail}" if f.detail else f"  row {f.row}" for f in told[:most]]
            lines += [f"  … and {len(told) - most:,} more (--json lists all)"] if len(told) > most else []
    return lines
