"""The boundaries between the model and its tools, and between the agent and the model's service."""

from warpsmith.errors import ModelUnavailableError, RequestRefusedError, WarpsmithError
from warpsmith.types import StopReason


class ToolError(WarpsmithError):
    """A tool cannot do what it was asked: the message is the model's answer and says what to do instead."""


def no_answer(error: ModelUnavailableError | RequestRefusedError) -> tuple[StopReason, str]:
    """How an episode ends where the model's service gave no answer, and the line that says what to do."""
    said = f"{error}; {error.hint}" if error.hint else str(error)
    if isinstance(error, RequestRefusedError):
        return StopReason.MODEL_REFUSED, f"the model's service takes no question: {said}"
    return StopReason.MODEL_UNAVAILABLE, f"no answer came from the model's service: {said}"
