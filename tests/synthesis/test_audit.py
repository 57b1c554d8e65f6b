import json
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from tests.synthesis.planted import COPIES, NEAR_MISSES, TASK

from warpsmith.errors import TaskUnreadableError
from warpsmith.sandbox import best_available
from warpsmith.synthesis.audit import Finding, audit, audit_lines
from warpsmith.synthesis.decontaminate import benchmark
from warpsmith.synthesis.published import PublishedRow, read_rows
from warpsmith.synthesis.structure import FingerprintKind, Outcome, Structure
from warpsmith.synthesis.structure_log import StructureLog, StructureRow, logged
from warpsmith.types import sha256_hex

OPS = ["torch.nn.Linear", "torch.nn.LayerNorm"]
OTHER = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.cumsum(x, dim=1).relu()


def get_inputs():
    return [torch.randn(128, 128)]


def get_init_inputs():
    return []
"""
MISSES = {name: NEAR_MISSES[name] for name in ("another order", "columns scaled")}


def _row(code: str, ops: object = OPS) -> dict:
    return {"ops": ops, "data_source": "torch#2", "code": code}


PLANTED: list[tuple[dict, set[str]]] = [
    (_row(OTHER, ["torch.cumsum", "F.relu"]), set()),
    (_row(OTHER.replace("128", "4096"), ["torch.cumsum"]), {"duplicate.same_structure"}),
    (_row(OTHER.replace("128", "4096"), ["torch.cumsum"]), {"duplicate.same_text"}),
    (_row(OTHER.replace(".relu()", ".exp()"), ["torch.cumsum", "torch.relu"]), {"mislabelled"}),
    (_row("class Model(:"), {"refused.not_python"}),
    (_row("def get_inputs(): ...\ndef get_init_inputs(): ..."), {"refused.no_model"}),
    (_row("class Model: ...\ndef get_init_inputs(): ..."), {"refused.no_inputs"}),
    (
        _row(OTHER.replace("dim=1", "dim=7"), ["torch.cumsum"]),
        {"refused.does_not_run", "duplicate.near_text"},
    ),
    *((_row(code), {"contaminated.same_structure"}) for name, code in COPIES.items() if name != "functional"),
    *((_row(code), set()) for code in MISSES.values()),
]


def _parquet(path: Path, rows: list[dict]) -> Path:
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


def _kernelbench(folder: Path) -> Path:
    path = folder / "benchmark.jsonl"
    path.write_text(json.dumps({"level": 1, "problem_id": 7, "name": "7_gate", "code": TASK}) + "\n")
    return path


def test_every_planted_fault_is_found_and_nothing_else(tmp_path: Path) -> None:
    rows = read_rows(_parquet(tmp_path / "set.parquet", [row for row, _ in PLANTED]))
    sandbox = best_available()
    result = audit(
        rows, benchmark(_kernelbench(tmp_path), sandbox=sandbox), run=True, sandbox=sandbox, workers=2
    )

    found: dict[int, set[str]] = {row.number: set() for row in rows}
    for finding in result.findings:
        found[finding.row].add(finding.finding.value)
    copies = range(9, 9 + len(COPIES) - 1)
    for number, (_, expected) in enumerate(PLANTED, 1):
        # copies of the benchmark's task repeat each other too; the rule on near texts takes near misses as well
        ignored = {"duplicate.same_structure"} if number in copies else {"contaminated.near_text"}
        assert found[number] - ignored == expected, number
    assert sum("duplicate.same_structure" in found[number] for number in copies) == len(copies) - 1
    assert result.traced == len(PLANTED) - 4 and result.untraced == {"raised": 1}
    assert {f.detail for f in result.findings if f.finding is Finding.CONTAMINATED_STRUCTURE} == {
        "level 1 problem 7"
    }
    assert "does not run torch.relu" in "\n".join(audit_lines(result))


def test_a_clean_set_is_clean() -> None:
    rows = [
        PublishedRow(number=1, ops=("torch.cumsum",), data_source="torch#1", code=OTHER),
        PublishedRow(number=2, ops=("torch.nn.Linear",), data_source="torch#1", code=TASK),
    ]
    result = audit(rows)
    assert result.clean and set(result.counts.values()) == {0} and result.rows_with_findings == 0
    with pytest.raises(ValueError, match="no rows"):
        audit([])


def test_rows_are_read_whatever_their_container(tmp_path: Path) -> None:
    rows = [_row(OTHER), _row(OTHER, str(OPS)), _row(OTHER, "torch.nn.Linear, torch.nn.LayerNorm")]
    lines = tmp_path / "set.jsonl"
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"ops": [], "code": 1}\nno json\n')
    read = read_rows(lines)
    assert [row.ops for row in read[:3]] == [tuple(OPS)] * 3
    assert [bool(row.malformed) for row in read] == [False, False, False, True, True]
    assert read_rows(_parquet(tmp_path / "set", rows[1:])) == [
        row.model_copy(update={"number": row.number - 1}) for row in read[1:3]
    ]


def test_files_that_hold_no_set_are_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("\n")
    (tmp_path / "other.jsonl").write_text('{"level": 1}\n')
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "torn.parquet").write_bytes(b"PAR1 and nothing more")
    pyarrow.parquet.write_table(pyarrow.table({"ops": ["x"]}), tmp_path / "columns.parquet")
    pyarrow.parquet.write_table(
        pyarrow.table({"ops": [], "data_source": [], "code": []}), tmp_path / "no_rows.parquet"
    )
    for path in (*sorted(tmp_path.iterdir()), tmp_path, tmp_path / "missing"):
        with pytest.raises(TaskUnreadableError) as caught:
            read_rows(path)
        assert "\n" not in str(caught.value)


def test_a_log_answers_for_what_was_traced(tmp_path: Path) -> None:
    def told(done: int, of: int) -> None:
        raise AssertionError("nothing is missing")

    codes = [OTHER, OTHER.replace("128", "256")]
    known = Structure(kind=FingerprintKind.GRAPH, fingerprint="graph-1", called=("torch.cumsum",))
    rows = [PublishedRow(number=n, ops=("torch.cumsum",), data_source="torch#1", code=code)
            for n, code in enumerate(codes, 1)]  # fmt: skip
    with StructureLog(tmp_path / "structures.jsonl") as log:
        for code in codes:
            log.append(StructureRow(code_hash=sha256_hex(code), structure=known))
        found = audit(rows, log=log, told=told)
        # that it was traced does not say that it runs
        assert log.find(OTHER) == known and log.find(OTHER, run=True) is None
        ran = known.model_copy(update={"run": Outcome.OK})
        log.append(StructureRow(code_hash=sha256_hex(OTHER), structure=ran))
        assert log.find(OTHER) == log.find(OTHER, run=True) == ran
    assert [f.finding for f in found.findings] == [Finding.DUPLICATE_STRUCTURE]


def test_a_log_keeps_what_is_traced(tmp_path: Path) -> None:
    with StructureLog(tmp_path / "structures.jsonl") as log:
        found = logged([OTHER, OTHER], log)
        assert found == [log.find(OTHER)] * 2 and found[0].kind is FingerprintKind.GRAPH
    assert (tmp_path / "structures.jsonl").read_text().count("\n") == 1
