"""TodoWrite."""

from enum import StrEnum

from pydantic import Field

from warpsmith.agent.base import Answer, say
from warpsmith.agent.context import ToolContext
from warpsmith.agent.failures import ToolError
from warpsmith.types.base import Record


class TodoStatus(StrEnum):
    """How far a thing to do is."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"


class Todo(Record):
    """One thing to do."""

    content: str = Field(
        min_length=1, max_length=2000, description="What to do: Fuse the bias into the kernel."
    )
    status: TodoStatus = Field(description="pending, in_progress or completed.")
    activeForm: str = Field("", max_length=2000, description="The same while it is done: Fusing the bias.")


class TodoWriteArguments(Record):
    """Arguments of TodoWrite."""

    todos: tuple[Todo, ...] = Field(
        max_length=100, description="The whole list, which replaces the one before."
    )


_MARKS = {TodoStatus.PENDING: "[ ]", TodoStatus.IN_PROGRESS: "[>]", TodoStatus.COMPLETED: "[x]"}


class TodoWrite:
    """Keeps the model's plan."""

    name = "TodoWrite"
    arguments = TodoWriteArguments
    description = """\
Writes your list of things to do, whole, in place of the one before. Use it for work of three steps or more.

- Keep exactly one item in_progress while you work, and mark it completed as soon as it is done and checked.
- Add what you find on the way; leave out what no longer matters."""

    def run(self, arguments: TodoWriteArguments, context: ToolContext) -> Answer:
        """Raises ToolError where several are in progress."""
        if sum(todo.status is TodoStatus.IN_PROGRESS for todo in arguments.todos) > 1:
            raise ToolError("more than one item is in_progress: work on one at a time")
        context.todos = tuple(f"{_MARKS[todo.status]} {todo.content}" for todo in arguments.todos)
        return say(
            "\n".join(["The list is now:", *context.todos]) if context.todos else "The list is now empty."
        )
