"""Sets in the form of CUDA-Agent-Ops-6K, folders and lists of files, and the hub where it cannot be reached."""

import sys
import types
from pathlib import Path

import pytest

from warpsmith.errors import MissingExtraError, TaskUnreadableError, UsageError
from warpsmith.tasks import load, load_all, ops6k
from warpsmith.types import TaskSource

CODE = "class Model: ...\ndef get_inputs(): ...\ndef get_init_inputs(): ...\n# {}\n"
ROWS = [
    {"ops": ["torch.nn.Linear", "torch.relu"], "data_source": "torch#2", "code": CODE.format("a")},
    {"ops": ["nn.GELU()"], "data_source": "torch#1", "code": CODE.format("b")},
    {"ops": [], "data_source": "transformers#1", "code": CODE.format("c")},
]


@pytest.fixture
def ops(tmp_path: Path) -> Path:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")

    parquet.write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "ops.parquet")
    return tmp_path / "ops.parquet"


def test_rows_of_ops6k_are_tasks(ops: Path) -> None:
    tasks = load_all(f"ops6k:{ops}")
    assert [(t.name, t.problem_id) for t in tasks] == [
        ("00000_linear_relu", 0),
        ("00001_gelu", 1),
        ("00002", 2),
    ]
    assert {t.source for t in tasks} == {TaskSource.OPS6K} and tasks[0].code == CODE.format("a")
    assert len({t.revision for t in tasks}) == 1
    assert load(f"ops6k:{ops}#1") == tasks[1]
    assert load_all(f"ops6k:{ops}#1-2") == tasks[1:]
    changed = ops6k.tasks_of([*ROWS[:2], ROWS[2] | {"code": CODE.format("d")}], "memory")
    assert changed[0].revision != tasks[0].revision and changed[0].task_hash == tasks[0].task_hash


@pytest.mark.parametrize("selection", ["7", "x", "1-", "5-9"])
def test_a_selection_of_nothing_is_one_line(ops: Path, selection: str) -> None:
    with pytest.raises(TaskUnreadableError, match=r"selects nothing|none of them selected"):
        load_all(f"ops6k:{ops}#{selection}")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"ops": "relu", "data_source": "x", "code": CODE}, "row 0 of memory: ops, data_source or code"),
        ({"ops": ["relu"], "data_source": "x", "code": "x ="}, "row 0 of memory, line 1: not valid Python"),
        ({"ops": ["relu"], "data_source": "x", "code": "x = 1"}, "does not define Model"),
    ],
)
def test_a_malformed_row_is_named(row: dict[str, object], said: str) -> None:
    with pytest.raises(TaskUnreadableError, match=said):
        ops6k.tasks_of([row], "memory")


def test_a_file_of_other_columns_says_which_it_has(ops: Path) -> None:
    with pytest.raises(TaskUnreadableError, match="has no column level, problem_id, name"):
        load_all(f"kernelbench:{ops}")


def test_without_its_library_a_set_says_what_to_install(ops: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtraError, match="needs pyarrow") as error:
        load_all(f"ops6k:{ops}")
    assert error.value.hint == "pip install 'warpsmith[sets]'"
    with pytest.raises(MissingExtraError, match="the hub needs the datasets library"):
        load_all("kernelbench:hub#1")


def test_the_hub_and_its_absence(monkeypatch: pytest.MonkeyPatch) -> None:
    library = types.ModuleType("datasets")
    asked = []

    def load_dataset(name: str, revision: str | None) -> dict[str, list[dict[str, object]]]:
        asked.append((name, revision))
        if revision is None:
            raise ConnectionError("no\nroute to host")
        row = {"level": 1, "problem_id": 3, "name": "3_Add", "code": CODE, "more": 0}
        return {"level_1": [row], "level_2": [row | {"level": 2, "name": "3_Mul"}]}

    library.load_dataset = load_dataset
    monkeypatch.setitem(sys.modules, "datasets", library)
    assert [task.name for task in load_all("kernelbench:hub@abc")] == ["3_Add", "3_Mul"]
    assert [task.name for task in load_all("kernelbench:hub@abc#2")] == ["3_Mul"]
    assert asked[0] == ("ScalingIntelligence/KernelBench", "abc")
    with pytest.raises(TaskUnreadableError, match="ConnectionError: no route to host") as error:
        load_all("ops6k:hub")
    assert "give its path" in error.value.hint


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.py", "a.py", "deep/c.py", "_helper.py", ".hidden/d.py"):
        path = tmp_path / "mine" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(CODE.format(name))
    (tmp_path / "mine" / "notes.txt").write_text("none")
    return tmp_path / "mine"


def test_a_folder_of_files(folder: Path) -> None:
    assert [task.name for task in load_all(str(folder))] == ["a", "b", "deep/c"]
    assert load_all(f"folder:{folder}") == load_all(str(folder))
    with pytest.raises(TaskUnreadableError, match="is a folder"):
        load(str(folder))
    with pytest.raises(UsageError, match="names 3 tasks"):
        load(f"folder:{folder}")
    (folder / "bad.py").write_text("x = 1")
    with pytest.raises(TaskUnreadableError, match=r"bad\.py does not define Model"):
        load_all(str(folder))


def test_a_list_of_files_and_specs(folder: Path, tmp_path: Path) -> None:
    text = "# mine\nmine/a.py\n\nmine/deep/c.py # with a comment\nfolder:mine/deep\n"
    (tmp_path / "tasks.txt").write_text(text)
    assert [task.name for task in load_all(f"list:{tmp_path}/tasks.txt")] == ["a", "c", "c"]
    (tmp_path / "empty.txt").write_text("# nothing\n")
    with pytest.raises(TaskUnreadableError, match="names no task"):
        load_all(f"list:{tmp_path}/empty.txt")
    with pytest.raises(TaskUnreadableError, match="No such file"):
        load_all(f"list:{tmp_path}/missing.txt")
