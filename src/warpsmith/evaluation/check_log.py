"""The answers that `warpsmith check` gave, one JSON line a task, gone on with after a kill."""

from pathlib import Path

from warpsmith.store.record_log import RecordLog, read_records
from warpsmith.types import Fitness, TaskCheck


def read_checks(path: Path) -> tuple[TaskCheck, ...]:
    """The whole lines of such a file, the latest of each question; needs no lock.

    Raises InfrastructureError where it cannot be read or holds something else.
    """
    return read_records(path, TaskCheck, _question)


class CheckLog(RecordLog[TaskCheck]):
    """A log of checks by the question that each answers."""

    def __init__(self, path: Path):
        super().__init__(path, TaskCheck, _question)

    def find(self, question: str) -> TaskCheck | None:
        """The row that answers this question; one that says `infrastructure` answers none."""
        row = self.get(question)
        return row if row is not None and row.fitness is not Fitness.INFRASTRUCTURE else None


def _question(row: TaskCheck) -> str:
    return row.question
