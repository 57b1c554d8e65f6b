"""Builds submissions for a target: same sources, flags, architecture and toolchain, same build."""

from warpsmith.compile.local import LocalCompiler

__all__ = ["LocalCompiler"]
