"""The agent's tools: one file a tool, one line in `TOOLS`, and `call`, which answers whatever is asked of it."""

import difflib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from warpsmith.agent.base import Answer, Block, ImageBlock, TextBlock, Tool, say
from warpsmith.agent.context import ToolContext
from warpsmith.agent.failures import ToolError
from warpsmith.agent.listing import cut
from warpsmith.agent.tools.bash import Bash
from warpsmith.agent.tools.bash_output import BashOutput
from warpsmith.agent.tools.edit import Edit
from warpsmith.agent.tools.glob import Glob
from warpsmith.agent.tools.grep import Grep
from warpsmith.agent.tools.kill_bash import KillBash
from warpsmith.agent.tools.multi_edit import MultiEdit
from warpsmith.agent.tools.notebook_edit import NotebookEdit
from warpsmith.agent.tools.read import Read
from warpsmith.agent.tools.todo_write import TodoWrite
from warpsmith.agent.tools.write import Write

TOOLS: tuple[Tool, ...] = (
    Bash(),
    BashOutput(),
    KillBash(),
    Read(),
    Write(),
    Edit(),
    MultiEdit(),
    Glob(),
    Grep(),
    NotebookEdit(),
    TodoWrite(),
)
"""Every tool, in the order in which models are told of them."""

TOOL_NAMES = tuple(tool.name for tool in TOOLS)
_MAX_PROBLEMS = 5
_MAX_PROBLEM = 300
_MAX_ERROR = 8000


def describe(tool: Tool) -> dict[str, Any]:
    """Name, description and JSON schema (`input_schema`) as interfaces for tool calling want them."""
    schema = tool.arguments.model_json_schema(by_alias=True)
    schema.pop("title", None)
    # the class's docstring, which tells the model nothing
    schema.pop("description", None)
    return {"name": tool.name, "description": tool.description, "input_schema": schema}


def call(name: str, arguments: object, context: ToolContext, offered: Sequence[str] = TOOL_NAMES) -> Answer:
    """Calls a tool as a model asks for it: `arguments` is a mapping, or JSON text of one.

    `offered` are the names of all that the model was told of, these tools or others.

    Whatever is wrong with the name or the arguments is answered, with what would be right. Raises
    InfrastructureError where the tool cannot work whatever the model does.
    """
    tool = next((tool for tool in TOOLS if tool.name == name), None)
    if tool is None:
        return say(_unknown(str(name), offered), is_error=True)
    try:
        if isinstance(arguments, str):
            arguments = json.loads(arguments)
        if not isinstance(arguments, Mapping):
            return _misfit(tool, "the arguments must be a JSON object")
        # JSON may hold halves of surrogate pairs, which no file and no command can
        json.dumps(dict(arguments), ensure_ascii=False, default=str).encode()
        checked = tool.arguments.model_validate(dict(arguments))
    except ValidationError as error:
        problems = [_problem(dict(entry)) for entry in error.errors(include_url=False, include_input=False)]
        more = [f"and {len(problems) - _MAX_PROBLEMS} more"] if len(problems) > _MAX_PROBLEMS else []
        return _misfit(tool, "; ".join([*problems[:_MAX_PROBLEMS], *more]))
    except json.JSONDecodeError as error:
        return _misfit(tool, f"the arguments are not JSON ({error.msg} at character {error.pos})")
    except UnicodeEncodeError:
        return _misfit(tool, "the arguments hold half a surrogate pair, which is no text")
    except RecursionError:
        return _misfit(tool, "the arguments are nested too deeply")
    except ValueError:
        # Python reads no longer one
        return _misfit(tool, "the arguments hold a number of thousands of digits")
    try:
        return tool.run(checked, context)
    except ToolError as error:
        return say(cut(str(error), _MAX_ERROR), is_error=True)


def _unknown(name: str, names: Sequence[str]) -> str:
    lower = {known.lower(): known for known in names}
    near = difflib.get_close_matches(name.lower()[:100], lower, n=1)
    hint = f" Did you mean {lower[near[0]]}?" if near else ""
    return f"There is no tool {name[:100]!r}.{hint} The tools are: {', '.join(names)}."


def _misfit(tool: Tool, what: str) -> Answer:
    return say(
        f"{tool.name} was not called: {what}. It takes {signature(tool.arguments.model_json_schema(by_alias=True))}.",
        is_error=True,
    )


def _problem(entry: dict[str, Any]) -> str:
    where = ".".join(str(part) for part in entry["loc"])
    return cut(f"{where}: {entry['msg']}" if where else str(entry["msg"]), _MAX_PROBLEM)


def signature(schema: Mapping[str, Any]) -> str:
    """A JSON schema of arguments in one line: `{file_path: string, offset?: integer}`."""
    required = schema.get("required", [])
    fields = [
        f"{name}{'' if name in required else '?'}: {_kind(field, schema)}"
        for name, field in schema.get("properties", {}).items()
    ]
    return "{" + ", ".join(fields) + "}"


def _kind(field: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    if "$ref" in field:
        return _kind(schema["$defs"][field["$ref"].rsplit("/", 1)[1]], schema)
    if "anyOf" in field:
        return next(_kind(part, schema) for part in field["anyOf"] if part.get("type") != "null")
    if "enum" in field:
        return " or ".join(json.dumps(value) for value in field["enum"])
    if field.get("type") == "array":
        return f"[{_kind(field['items'], schema)}, ...]"
    if field.get("type") == "object":
        needed = field.get("required", [])
        inner = (
            f"{name}{'' if name in needed else '?'}: {_kind(part, schema)}"
            for name, part in field["properties"].items()
        )
        return "{" + ", ".join(inner) + "}"
    return str(field.get("type", "value"))


__all__ = [
    "TOOLS",
    "Answer",
    "Block",
    "ImageBlock",
    "TextBlock",
    "Tool",
    "ToolContext",
    "ToolError",
    "call",
    "describe",
    "signature",
]
