"""Runs commands isolated from the rest of the machine, and ends whole process trees."""

from warpsmith.errors import UsageError
from warpsmith.sandbox.bwrap import BwrapSandbox
from warpsmith.sandbox.docker import DockerSandbox
from warpsmith.sandbox.local import LocalSandbox
from warpsmith.sandbox.namespaces import NamespacesSandbox
from warpsmith.sandbox.view import python_paths
from warpsmith.types.protocols import Sandbox

SANDBOXES: tuple[type[Sandbox], ...] = (NamespacesSandbox, BwrapSandbox, DockerSandbox, LocalSandbox)
"""Best first. The last always works and isolates nothing."""


def best_available() -> Sandbox:
    """The best sandbox that works here; its name is `none` where nothing can isolate. Tries them (0.2 s)."""
    return next(sandbox for kind in SANDBOXES if (sandbox := kind()).unavailable() is None)


def by_name(name: str) -> Sandbox:
    """The sandbox with this name, available or not. Raises UsageError where there is none."""
    for kind in SANDBOXES:
        if kind.name == name:
            return kind()
    known = ", ".join(kind.name for kind in SANDBOXES)
    raise UsageError(f"unknown sandbox {name!r}", hint=f"choose one of {known}")


__all__ = [
    "SANDBOXES",
    "BwrapSandbox",
    "DockerSandbox",
    "LocalSandbox",
    "NamespacesSandbox",
    "best_available",
    "by_name",
    "python_paths",
]
