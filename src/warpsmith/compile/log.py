"""Compiler output for a reader: errors first, short, paths relative to the submission."""

import re
from pathlib import Path

MAX_CHARS = 6000
_MAX_LINE = 300
_ERROR = re.compile(
    r"\b(?:fatal )?error\b[ :#]|^\S*\bfatal\b|undefined reference|multiple definition|undefined symbol",
    re.IGNORECASE,
)
# a message of g++ (file:1:2: kind:), nvcc (file(1): kind:), ptxas or the linker begins a block
_START = re.compile(
    r"^[^\s:()]+(?::\d+(?::\d+)?:|\(\d+\):)\s|^(?:ptxas|nvlink|nvcc|/\S*ld|collect2|cc1plus)\b"
)
# where a message comes from stands before it
_CONTEXT = re.compile(r"^In file included from |^\s+from \S+[,:]$|^\S+: (?:In|At) ")
_CARET = re.compile(r"^[\s|]*[~^][~^\s|]*$")
_NOISE = re.compile(
    r"errors? detected in the compilation of|^collect2: error: ld returned"
    r"|^Remark: The warnings can be suppressed|^compilation terminated\.$|^\s*$"
)


def trimmed(output: str, folders: tuple[Path, ...] = (), limit: int = MAX_CHARS) -> str:
    """`output` in at most about `limit` characters, blocks with errors before the others.

    `folders` are taken off the front of paths, so that what is left is relative to the submission.
    """
    for folder in sorted(map(str, folders), key=len, reverse=True):
        output = output.replace(f"{folder}/", "")
    blocks: list[list[str]] = [[]]
    for line in output.splitlines():
        if _NOISE.search(line) or (len(line) > _MAX_LINE and _CARET.match(line)):
            continue
        starts = _START.match(line) or _CONTEXT.match(line)
        if starts and not all(_CONTEXT.match(earlier) for earlier in blocks[-1]):
            blocks.append([])
        blocks[-1].append(line if len(line) <= _MAX_LINE else line[:_MAX_LINE] + " …")
    texts = ["\n".join(block) for block in blocks if block]
    unique = list(dict.fromkeys(texts))
    ordered = [t for t in unique if _ERROR.search(t)] + [t for t in unique if not _ERROR.search(t)]
    kept: list[str] = []
    room = limit
    for index, text in enumerate(ordered):
        if len(text) > room:
            if not kept:
                kept.append(text[:room] + " …")
                index += 1
            if left := len(ordered) - index:
                kept.append(f"… {left} more messages left out")
            break
        kept.append(text)
        room -= len(text) + 1
    return "\n".join(kept)


def undefined_references(output: str) -> tuple[str, ...]:
    """The symbols that the linker reports as undefined, each once."""
    return tuple(dict.fromkeys(re.findall(r"undefined reference to `([^']+)'", output)))
