"""Options that several commands share, and what their words mean."""

import re
from enum import StrEnum
from typing import Annotated, TypeVar

import typer

from warpsmith.errors import UsageError

DeviceOption = Annotated[
    str, typer.Option("--device", metavar="auto|cuda|sim", help="Where kernels run; auto takes a GPU if any.")
]
RulesOption = Annotated[
    str,
    typer.Option(
        "--rules", metavar="practical|paper", help="What ModelNew's forward may do besides its own kernels."
    ),
]
VaryOption = Annotated[
    list[str] | None,
    typer.Option(
        "--vary",
        metavar="NAME=V,V…",
        help="Other sizes of the task, or inputs=normal,uniform,sparse,large; repeat it for combinations.",
    ),
]
BaselinesOption = Annotated[
    str,
    typer.Option(
        "--baselines",
        metavar="paper|matched|all",
        help="What a GPU's times are compared with: PyTorch's default modes, those of matched accuracy too, or all.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else.")]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]

Choice = TypeVar("Choice", bound=StrEnum)


def choose(kind: type[Choice], word: str, option: str) -> Choice:
    """The member of `kind` that `word` names; UsageError in one line otherwise."""
    try:
        return kind(word)
    except ValueError:
        raise unknown(option, word, [member.value for member in kind]) from None


def slug(name: str) -> str:
    """A name that is safe as that of a folder."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._") or "task"


def unknown(option: str, word: str, known: list[str]) -> UsageError:
    """The error for a word that an option does not know."""
    return UsageError(f"unknown {option} {word!r}", hint=f"choose one of: {', '.join(sorted(known))}")
