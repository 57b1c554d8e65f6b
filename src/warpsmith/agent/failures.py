"""The boundary between a tool and the model that calls it."""

from warpsmith.errors import WarpsmithError


class ToolError(WarpsmithError):
    """A tool cannot do what it was asked: the message is the model's answer and says what to do instead."""
