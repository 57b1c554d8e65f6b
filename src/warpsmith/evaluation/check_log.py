"""Checks of a set of tasks in one JSONL file: one row a task, appended as it comes, gone on with after a kill."""

from pathlib import Path

from warpsmith.store.record_log import RecordLog
from warpsmith.types import Fitness, TaskCheck


class CheckLog(RecordLog[TaskCheck]):
    """A log of checks by the question that each answers."""

    def __init__(self, path: Path):
        super().__init__(path, TaskCheck, lambda row: row.question)

    def find(self, question: str) -> TaskCheck | None:
        """The row that answers this question; one that says `infrastructure` answers none."""
        row = self.get(question)
        return row if row is not None and row.fitness is not Fitness.INFRASTRUCTURE else None
