"""Reading a user's task file."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.errors import TaskUnreadableError, UsageError
from warpsmith.tasks import load, load_task
from warpsmith.tasks.user_file import MAX_BYTES, check_source
from warpsmith.types import TaskSource

GOOD = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x + 1
def get_inputs():
    return [torch.rand(3)]
def get_init_inputs():
    return []
"""


def write(folder: Path, content: str | bytes, name: str = "task.py") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_reads_name_code_and_source(tmp_path: Path) -> None:
    task = load_task(write(tmp_path, GOOD, "plus_one.py"))
    assert (task.name, task.code, task.source) == ("plus_one", GOOD, TaskSource.USER_FILE)


def test_hash_is_of_the_code_alone(tmp_path: Path) -> None:
    one, two = write(tmp_path, GOOD, "a.py"), write(tmp_path, GOOD, "b.py")
    assert load_task(one).task_hash == load_task(two).task_hash


def test_byte_order_mark_is_no_part_of_the_code(tmp_path: Path) -> None:
    assert load_task(write(tmp_path, b"\xef\xbb\xbf" + GOOD.encode())).code == GOOD


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"  \n\n", "is empty"),
        (b"\x7fELF\x02\x01\x00\x00", "is a binary file"),
        (b"x = 1\n\x00", "is a binary file"),
        (b"\xff\xfe\xfa", "is not UTF-8 text"),
        (b"def f(:\n", "line 1: not valid Python"),
        (GOOD.replace("Model", "Net").encode(), "does not define Model"),
        (GOOD.replace("get_inputs", "inputs").encode(), "does not define get_inputs"),
        (b"x = 1", "does not define Model, get_inputs, get_init_inputs"),
        (b"class Outer:\n    class Model: pass\n", "does not define Model"),
    ],
)
def test_bad_content_is_one_line_with_a_hint(tmp_path: Path, content: bytes, said: str) -> None:
    with pytest.raises(TaskUnreadableError, match=said) as caught:
        load_task(write(tmp_path, content))
    assert "\n" not in str(caught.value)
    assert caught.value.hint


def test_bad_paths(tmp_path: Path) -> None:
    with pytest.raises(TaskUnreadableError, match="no such file"):
        load_task(tmp_path / "absent.py")
    with pytest.raises(TaskUnreadableError, match="is a folder"):
        load_task(tmp_path)
    for unusable in ("a\0b.py", "x" * 5000 + ".py"):
        with pytest.raises(TaskUnreadableError):
            load_task(unusable)
    fifo = tmp_path / "fifo.py"
    os.mkfifo(fifo)
    with pytest.raises(TaskUnreadableError, match="not a regular file"):
        load_task(fifo)


def test_too_large(tmp_path: Path) -> None:
    with pytest.raises(TaskUnreadableError, match="larger than"):
        load_task(write(tmp_path, b"#" * (MAX_BYTES + 1)))


@pytest.mark.parametrize(
    "model",
    [
        "Model = Other",
        "Model: type = Other",
        "from elsewhere import Model",
        "from elsewhere import Net as Model",
        "from elsewhere import *",
        "if True:\n    class Model: pass",
        "try:\n    import x\nexcept ImportError:\n    Model = None",
        "Model, other = make()",
    ],
)
def test_model_may_be_bound_in_any_way(model: str) -> None:
    check_source(f"{model}\ndef get_inputs(): ...\nget_init_inputs = list\n", "task.py")


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_in_one_line(text: str) -> None:
    try:
        check_source(text, "task.py")
    except TaskUnreadableError as error:
        assert "\n" not in str(error)


def test_nothing_is_executed(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    load_task(write(tmp_path, f"open({str(marker)!r}, 'w')\n" + GOOD))
    assert not marker.exists()


def test_spec_names_a_file_or_a_source(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    assert load(str(path)) == load(f"file:{path}") == load_task(path)


def test_spec_of_several_tasks_is_wrong_usage(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / "level1").mkdir(exist_ok=True)
        write(tmp_path / "level1", GOOD, f"{number}_x.py")
    with pytest.raises(UsageError, match="names 2 tasks"):
        load(f"kernelbench:{tmp_path}")
