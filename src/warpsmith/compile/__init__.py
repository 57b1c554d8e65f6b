"""Builds submissions for a target: same sources, flags, architecture and toolchain, same build.

`LocalCompiler` is looked up when it is first asked for: what runs a submission loads its binding and no compiler.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warpsmith.compile.local import LocalCompiler

__all__ = ["LocalCompiler"]


def __getattr__(name: str) -> Any:
    """The compiler (PEP 562)."""
    if name != "LocalCompiler":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from warpsmith.compile.local import LocalCompiler

    return LocalCompiler
