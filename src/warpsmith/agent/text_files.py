"""Files in a reply's text: fenced blocks with a path beside them."""

import re

_FENCE = re.compile(
    r"^[ \t]*(?P<fence>`{3,}|~{3,})(?P<info>[^\n`]*)\n(?P<body>.*?)^[ \t]*(?P=fence)[ \t]*$", re.M | re.S
)
_PATH = re.compile(
    r"(?<![\w./-])(?:[\w-][\w.-]*/)*[\w-][\w.-]*\.(?:py|cuh?|cpp|cc|hpp|hh?|inl|inc|toml)(?![\w/-])"
)
_COMMENT = re.compile(r"^\s*(?://|#|/\*)\s*(?:file(?:name)?:\s*)?(?P<path>[\w./-]+)\s*(?:\*/)?\s*$", re.I)
_MAX_LEAD = 160
_NO_FILES = frozenset({"json", "tool_call", "bash", "sh", "shell", "console", "diff", "text"})
"""Languages of blocks that are no sources, whatever stands before them."""
MODEL_FILE = "model_new.py"
KERNEL_FILE = "kernels/kernel.cu"


def read_files(text: str) -> dict[str, str]:
    """Path -> text of every closed fenced block that says which file it is; of two for one path the later.

    The path stands in the block's first line behind the language, in a comment that is the block's first line, or
    at the end of the line before the block. A block without one is `model_new.py` where it defines `ModelNew`, and
    `kernels/kernel.cu` where it defines a kernel; any other is talk.
    """
    files: dict[str, str] = {}
    for block in _FENCE.finditer(text):
        path = _path(block["info"], block["body"], text[: block.start()])
        if path is not None:
            files[path] = block["body"]
    return files


def _path(info: str, body: str, before: str) -> str | None:
    if found := _PATH.findall(info):
        return found[-1]
    if info.strip().lower() in _NO_FILES:
        return None
    comment = _COMMENT.match(body.partition("\n")[0])
    if comment and _PATH.fullmatch(comment["path"]):
        return comment["path"]
    lead = before.rstrip().rpartition("\n")[2]
    if (
        len(lead) <= _MAX_LEAD
        and not lead.lstrip().startswith(("```", "~~~"))
        and (found := _PATH.findall(lead))
    ):
        return found[-1]
    if re.search(r"^class ModelNew\b", body, re.M):
        return MODEL_FILE
    return KERNEL_FILE if "__global__" in body else None
