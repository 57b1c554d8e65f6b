"""Reading KernelBench-shaped sets, with small tasks of our own."""

import json
from pathlib import Path

import pytest

from warpsmith.errors import TaskUnreadableError
from warpsmith.tasks import kernelbench, load, load_all
from warpsmith.types import TaskSource

CODE = "class Model: ...\ndef get_inputs(): ...\ndef get_init_inputs(): ...\n# {}\n"
PROBLEMS = ((1, 2, "2_Scale"), (1, 10, "10_Shift"), (2, 1, "1_Both"))


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    with path.open("w") as file:
        for level, problem, name in reversed(PROBLEMS):
            row = {"level": level, "problem_id": problem, "name": name, "code": CODE.format(name)}
            file.write(json.dumps(row | {"extra": 1}) + "\n\n")
    return path


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    root = tmp_path / "clone"
    for level, _, name in PROBLEMS:
        folder = root / "KernelBench" / f"level{level}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.py").write_text(CODE.format(name))
        (folder / "README.md").write_text("not a task")
        (folder / "helper.py").write_text("not a task")
    (root / "KernelBench" / "levels").mkdir()
    return root


def test_rows_come_in_order_with_their_place(rows: Path) -> None:
    tasks = kernelbench.load(rows)
    assert [(t.level, t.problem_id, t.name) for t in tasks] == list(PROBLEMS)
    assert tasks[0].code == CODE.format("2_Scale")
    assert tasks[0].source is TaskSource.KERNELBENCH


def test_clone_and_rows_are_the_same_tasks_and_revision(rows: Path, clone: Path) -> None:
    assert kernelbench.load(rows) == kernelbench.load(clone) == kernelbench.load(clone / "KernelBench")


def test_revision_changes_with_any_code(rows: Path) -> None:
    before = kernelbench.load(rows)[0].revision
    rows.write_text(rows.read_text().replace("# 1_Both", "# other"))
    after = kernelbench.load(rows)
    assert after[0].revision != before
    assert after[0].task_hash == kernelbench.load(rows, level=1, problem_id=2)[0].task_hash


def test_selection(rows: Path) -> None:
    assert load(f"kernelbench:{rows}#1/10").name == "10_Shift"
    assert [t.problem_id for t in load_all(f"kernelbench:{rows}#1")] == [2, 10]
    assert len(load_all(f"kernelbench:{rows}")) == 3


@pytest.mark.parametrize("selection", ["#3", "#1/3", "#", "#one", "#1/", "#1/2/3", "#-1"])
def test_selection_of_nothing(rows: Path, selection: str) -> None:
    with pytest.raises(TaskUnreadableError):
        load_all(f"kernelbench:{rows}{selection}")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 1: not JSON"),
        ("[]", "line 1: level, problem_id, name, code missing"),
        ('{"level": 1, "problem_id": "2", "name": "x", "code": "y"}', "problem_id missing or of the wrong"),
        ('{"level": true, "problem_id": 2, "name": "x", "code": "y"}', "level missing or of the wrong"),
        ('{"level": 1, "problem_id": 2, "name": "x", "code": "y = 1"}', "does not define Model"),
        ("", "is empty"),
    ],
)
def test_malformed_rows(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(line)
    with pytest.raises(TaskUnreadableError, match=said):
        kernelbench.load(path)


def test_missing_binary_or_empty(tmp_path: Path) -> None:
    with pytest.raises(TaskUnreadableError, match="cannot read"):
        kernelbench.load(tmp_path / "absent.jsonl")
    (tmp_path / "b.jsonl").write_bytes(b"\xff\x00")
    with pytest.raises(TaskUnreadableError, match="not UTF-8"):
        kernelbench.load(tmp_path / "b.jsonl")
    with pytest.raises(TaskUnreadableError, match="holds no level"):
        kernelbench.load(tmp_path)


@pytest.mark.parametrize(
    ("selection", "names"),
    [
        ("1,2", ["2_Scale", "10_Shift", "1_Both"]),
        ("1/3-10", ["10_Shift"]),
        ("2/1,1/2", ["2_Scale", "1_Both"]),
        ("1,1/2", ["2_Scale", "10_Shift"]),
    ],
)
def test_several_levels_and_ranges(rows: Path, selection: str, names: list[str]) -> None:
    assert [task.name for task in load_all(f"kernelbench:{rows}#{selection}")] == names


def test_parquet_as_the_hub_has_it_is_the_same_set(rows: Path, tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")

    folder = tmp_path / "data"
    folder.mkdir()
    for level in (1, 2):
        part = [
            r for line in rows.read_text().splitlines() if line if (r := json.loads(line))["level"] == level
        ]
        parquet.write_table(pyarrow.Table.from_pylist(part), folder / f"level_{level}.parquet")
    assert load_all(f"kernelbench:{folder}") == kernelbench.load(rows)
    one = folder / "level_2.parquet"
    assert [task.name for task in load_all(f"kernelbench:{one}")] == ["1_Both"]
    one.write_bytes(b"no parquet")
    with pytest.raises(TaskUnreadableError, match="as parquet"):
        load_all(f"kernelbench:{one}")
