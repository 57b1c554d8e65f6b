"""All that the model of one episode can call."""

import json

from warpsmith.agent.actions import Actions, action_tools
from warpsmith.agent.base import Answer, Tool
from warpsmith.agent.context import ToolContext
from warpsmith.agent.tools import TOOLS, call, describe
from warpsmith.types import Device
from warpsmith.types.llm import ToolCall, ToolSpec

_COMPACT = frozenset({"Bash", "Read", "Write", "Edit", "Verify", "Profile"})


class Toolbox:
    """The tools on the workspace and the judge's actions. `fits` tells whether a call keeps to its schema.

    `compact`: the model is told of the most needed ones only; the others answer as well.
    """

    def __init__(self, context: ToolContext, actions: Actions, device: Device, *, compact: bool = False):
        self._actions: dict[str, Tool] = {tool.name: tool for tool in action_tools(actions, device)}
        self._tools: dict[str, Tool] = {tool.name: tool for tool in TOOLS} | self._actions
        self._context = context
        told = [tool for name, tool in self._tools.items() if not compact or name in _COMPACT]
        self.specs = tuple(ToolSpec(**describe(tool)) for tool in told)

    def fits(self, asked: ToolCall) -> bool:
        """Whether there is such a tool and the arguments are what it takes."""
        if asked.name not in self._tools:
            return False
        try:
            self._tools[asked.name].arguments.model_validate(_arguments(asked))
        except (ValueError, RecursionError):
            return False
        return True

    def run(self, asked: ToolCall) -> Answer:
        """The answer, whatever was asked for. Raises InfrastructureError where no call would help."""
        if (action := self._actions.get(asked.name)) is not None:
            # actions take no arguments: whatever was given, what is meant is clear
            return action.run(action.arguments(), self._context)
        offered = [spec.name for spec in self.specs]
        return call(asked.name, asked.arguments or "{}", self._context, offered)


def _arguments(asked: ToolCall) -> object:
    return json.loads(asked.arguments) if asked.arguments.strip() else {}
