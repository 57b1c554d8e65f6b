"""Tool calls in plain text, for models whose service knows no tools: how they are told of, written and read."""

import json
import re
from collections.abc import Sequence

from warpsmith.agent.text_files import read_files
from warpsmith.agent.tools import signature
from warpsmith.types.llm import Message, Role, ToolCall, ToolSpec

OPEN, CLOSE = "<tool_call>", "</tool_call>"
_RESULT = "<tool_response>\n{text}\n</tool_response>"
_MADE_UP = re.compile(r"^[ \t]*<tool_response>", re.MULTILINE)
_JSON = json.JSONDecoder(strict=False)
_LINE_OF_JSON = re.compile(r"^[ \t]*(?=\{)", re.MULTILINE)
_BETWEEN = " \t\r\n,;"
"""What may stand between two calls of one block."""
_FENCES = ("```tool_call\n", "```json\n")


def describe_tools(tools: Sequence[ToolSpec]) -> str:
    """What the system message says of the tools."""
    listed = "\n\n".join(
        f"## {tool.name}\n{tool.description}\nArguments (JSON schema): {json.dumps(tool.input_schema)}"
        for tool in tools
    )
    example = json.dumps({"name": "Read", "arguments": {"file_path": "model.py"}})
    return (
        "# How to call tools\n\n"
        f"Write each call as one JSON object between {OPEN} and {CLOSE}:\n\n{OPEN}\n{example}\n{CLOSE}\n\n"
        'Line ends inside JSON strings are written \\n and quotes \\". Several calls may follow each other; '
        "then stop: their results come in the next message.\n\n# The tools\n\n" + listed
    )


def describe_briefly(tools: Sequence[ToolSpec]) -> str:
    """The same in few words: files are given as they are, calls are for all else."""
    listed = "\n".join(
        f"- {tool.name} {signature(tool.input_schema)}: {_first(tool.description)}"
        for tool in tools
        if tool.name != "Write"
    )
    example = json.dumps({"name": "Read", "arguments": {"file_path": "kernels/NAME.cu"}})
    return (
        "# Tools\n\n"
        f"Only where you need more than files, call a tool, by one JSON object between {OPEN} and {CLOSE}:\n\n"
        f"{OPEN}\n{example}\n{CLOSE}\n\n{listed}\n\n"
        "# How to answer\n\n"
        "Give every file that you write whole, in a fenced block whose first line names it, as in the example above: "
        "```cuda file=kernels/NAME.cu and ```python file=model_new.py. The files are written and verified, and the "
        "next message says what the judge found. Then give the files anew that have to change."
    )


def read_calls(text: str, turn: int, *, files: bool = False) -> tuple[ToolCall, ...]:
    """The calls in a reply. What stands for a call but is no JSON object keeps its text as the arguments.

    Where the reply has no such tags, fenced JSON blocks with `name` and `arguments` count, and where it has none of
    these, JSON objects with both that begin a line. Where `files` is set, each file that stands in it is a call of
    Write before these, and Verify is called at the end. What stands behind a result that the reply made up counts for
    nothing.
    """
    text = _MADE_UP.split(text, maxsplit=1)[0]
    blocks = _between(text, OPEN, CLOSE)
    tagged = bool(blocks)
    if not blocks:
        blocks = [block for fence in _FENCES for block in _between(text, fence, "```")]
    calls = [(name, arguments) for block in blocks for name, arguments in _read(block) if name or tagged]
    calls = calls or _bare(text)
    if files and (given := read_files(text)):
        writes = [("Write", json.dumps({"file_path": path, "content": body})) for path, body in given.items()]
        asked = any(name == "Verify" for name, _ in calls)
        calls = [*writes, *calls, *([] if asked else [("Verify", "{}")])]
    return tuple(
        ToolCall(id=f"text_{turn}_{index}", name=name, arguments=arguments)
        for index, (name, arguments) in enumerate(calls)
    )


def without_calls(text: str) -> str:
    """What stands before the first call that is marked as one."""
    return text.partition(OPEN)[0].strip()


def as_text(messages: Sequence[Message]) -> tuple[Message, ...]:
    """A conversation without calls and tool messages: calls stand in the text, results become user messages."""
    told: list[Message] = []
    for message in messages:
        if message.role is Role.TOOL:
            text = _RESULT.format(text=message.text)
            if told and told[-1].role is Role.USER and told[-1].call_id:
                last = told[-1]
                told[-1] = last.model_copy(
                    update={"text": f"{last.text}\n{text}", "images": last.images + message.images}
                )
            else:
                told.append(message.model_copy(update={"role": Role.USER, "text": text}))
        else:
            told.append(message.model_copy(update={"calls": ()}))
    return tuple(message.model_copy(update={"call_id": None, "is_error": False}) for message in told)


def _first(description: str) -> str:
    """The first paragraph."""
    return description.partition("\n\n")[0]


def _between(text: str, start: str, end: str) -> list[str]:
    """What stands between the marks; a last one that is never closed reaches to the end."""
    return [part.partition(end)[0].strip() for part in text.split(start)[1:]]


def _read(block: str) -> list[tuple[str, str]]:
    """Name and arguments of each JSON object of a block, one after the other or in a list; no name: no call."""
    found: list[tuple[str, str]] = []
    rest = block
    while not found or rest.startswith(("{", "[")):
        try:
            value, end = _JSON.raw_decode(rest)
        except (ValueError, RecursionError):
            return [*found, (_name_of(rest), rest)]
        found += [_call(part) for part in (value if isinstance(value, list) else [value])]
        rest = rest[end:].lstrip(_BETWEEN)
    return found


def _bare(text: str) -> list[tuple[str, str]]:
    """Name and arguments of each JSON object that begins a line and can be nothing but a call."""
    found, end = [], 0
    for line in _LINE_OF_JSON.finditer(text):
        if line.end() < end:
            continue
        try:
            value, end = _JSON.raw_decode(text, line.end())
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and isinstance(value.get("arguments", value.get("parameters")), dict):
            found += [call for call in (_call(value),) if call[0]]
    return found


def _call(value: object) -> tuple[str, str]:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return "", json.dumps(value)
    arguments = value.get("arguments", value.get("parameters", {}))
    return value["name"], arguments if isinstance(arguments, str) else json.dumps(arguments)


def _name_of(block: str) -> str:
    """The name in a block that is cut or not quite JSON, so that the answer can tell what the tool takes."""
    _, found, rest = block.partition('"name"')
    parts = rest.split('"', 2)
    return parts[1] if found and len(parts) == 3 and len(parts[1]) <= 100 else ""
