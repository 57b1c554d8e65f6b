"""Whose fault it is that a referee's process ended."""

import signal
from pathlib import Path

import pytest

from warpsmith.errors import TaskRefusedError, TaskUnsupportedError
from warpsmith.judge.task_mark import fault, lay, marked
from warpsmith.types import JobOutcome, JobResult

SEGFAULT = JobResult(outcome=JobOutcome.CRASHED, signal=signal.SIGSEGV)


class Ended(BaseException):
    """Stands for the end of the process: nothing after it runs."""


@pytest.fixture
def in_forward(tmp_path: Path) -> Path:
    """A folder whose process ended in the task's forward."""
    lay(tmp_path)
    with marked(tmp_path / "task.py", "forward"):
        (tmp_path / "kept").write_text((tmp_path / "in_task").read_text())
    (tmp_path / "kept").rename(tmp_path / "in_task")
    return tmp_path


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (SEGFAULT, r"in forward \(SIGSEGV\)"),
        (JobResult(outcome=JobOutcome.CRASHED, exit_code=3), r"in forward \(exit status 3\)"),
    ],
)
def test_what_ends_the_process_in_the_tasks_code_is_the_tasks_fault(
    in_forward: Path, result: JobResult, said: str
) -> None:
    found = fault(in_forward, result)
    assert isinstance(found, TaskRefusedError)
    with pytest.raises(TaskRefusedError, match=said):
        raise found


def test_being_killed_there_is_for_want_of_memory(in_forward: Path) -> None:
    killed = JobResult(outcome=JobOutcome.CRASHED, signal=signal.SIGKILL)
    assert isinstance(fault(in_forward, killed), TaskUnsupportedError)


def test_a_time_limit_proves_nothing(in_forward: Path) -> None:
    assert fault(in_forward, JobResult(outcome=JobOutcome.TIMED_OUT)) is None


def test_at_any_other_time_it_is_ours(tmp_path: Path) -> None:
    assert fault(tmp_path, SEGFAULT) is None
    lay(tmp_path)
    assert fault(tmp_path, SEGFAULT) is None
    with pytest.raises(Ended), marked(tmp_path / "task.py", "forward"):
        raise Ended
    assert fault(tmp_path, SEGFAULT) is None


def test_no_mark_is_left_where_none_was_asked_for(tmp_path: Path) -> None:
    with marked(tmp_path / "task.py", "forward"):
        assert list(tmp_path.iterdir()) == []
