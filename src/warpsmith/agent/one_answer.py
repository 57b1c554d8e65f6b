"""Working without the loop: one answer in text, whose files go into the workspace; no tool, and no second try."""

import re

from warpsmith.agent.context import ToolContext
from warpsmith.agent.failures import ToolError
from warpsmith.types import Device
from warpsmith.workspace.submission import MODEL_FILE

_SYSTEM = f"""\
You write fast CUDA kernels for a PyTorch model. You have one answer: nothing is run for you first, and nobody answers
questions. Define ModelNew in {MODEL_FILE}: the same results as Model with the same constructor, parameters and
inputs, computed by kernels of your own. A submission that gives wrong results has failed, however fast.

Give each file whole, in a fenced block whose first line names it:

```python file={MODEL_FILE}
...
```"""
_SIM = "Kernels run in a simulator, which proves results and tells no times."
_BLOCK = re.compile(
    r"^```(?P<language>\w*)[ \t]*(?P<info>[^\n`]*)\n(?P<text>.*?)^```[ \t]*$", re.DOTALL | re.MULTILINE
)
_FILE = re.compile(r"(?:file\s*=\s*)?[\"']?(?P<path>[\w./+-]+\.\w+)[\"']?")
_DEFINES = re.compile(r"^class ModelNew\b", re.MULTILINE)


def system_text(device: Device, skill: str) -> str:
    """The system message."""
    parts = [_SYSTEM, _SIM if device is Device.SIM else "", skill]
    return "\n\n".join(part for part in parts if part)


def files_in(answer: str) -> dict[str, str]:
    """Path -> text of the fenced blocks that name a file; a Python block that does not and defines ModelNew is the
    model's. Of two alike the later one counts."""
    found: dict[str, str] = {}
    for block in _BLOCK.finditer(answer):
        named = _FILE.match(block["info"])
        if named is not None:
            found[named["path"]] = block["text"]
        elif block["language"] in ("", "python", "py") and _DEFINES.search(block["text"]):
            found[MODEL_FILE] = block["text"]
    return found


def take(answer: str, context: ToolContext) -> list[str]:
    """Writes the answer's files; for each that cannot be written, or may not, the reason."""
    problems = []
    for path, text in files_in(answer).items():
        try:
            context.require_free(path, path)
            context.workspace.write(path, text.encode("utf-8", "replace"))
        except ToolError as error:
            problems.append(str(error))
    return problems
