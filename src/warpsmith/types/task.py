"""A task: a PyTorch `Model` with its inputs, in KernelBench's form."""

from enum import StrEnum

from warpsmith.types.base import Record, sha256_hex


class TaskSource(StrEnum):
    """Where a task came from."""

    USER_FILE = "user_file"
    KERNELBENCH = "kernelbench"
    OPS6K = "ops6k"
    SYNTHESIZED = "synthesized"
    DERIVED = "derived"


class Task(Record):
    """Python source that defines `Model`, `get_inputs()` and `get_init_inputs()`, plus where it came from."""

    name: str
    code: str
    source: TaskSource = TaskSource.USER_FILE
    revision: str | None = None
    level: int | None = None
    problem_id: int | None = None
    derived_from: str | None = None
    """`task_hash` of the full-size task that this one was shrunk from."""

    @property
    def task_hash(self) -> str:
        """Identity: the hash of the code alone, so that metadata never splits a baseline."""
        return sha256_hex(self.code)


class TaskRef(Record):
    """A task without its text, as a run's manifest names it."""

    name: str
    task_hash: str
    source: TaskSource
    revision: str | None = None
    level: int | None = None
    problem_id: int | None = None

    @classmethod
    def of(cls, task: Task) -> "TaskRef":
        """What names `task`."""
        return cls.model_validate({name: getattr(task, name) for name in cls.model_fields})
