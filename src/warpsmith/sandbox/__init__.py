"""Runs commands isolated from the rest of the machine, and ends whole process trees."""

import os

from warpsmith.errors import InfrastructureError, UsageError
from warpsmith.sandbox.bwrap import BwrapSandbox
from warpsmith.sandbox.docker import DockerSandbox
from warpsmith.sandbox.local import LocalSandbox
from warpsmith.sandbox.namespaces import NamespacesSandbox
from warpsmith.sandbox.view import python_paths
from warpsmith.types.protocols import Sandbox

SANDBOXES: tuple[type[Sandbox], ...] = (NamespacesSandbox, BwrapSandbox, DockerSandbox, LocalSandbox)
"""Best first. The last always works and isolates nothing."""
LEAST_ISOLATION = "WARPSMITH_LEAST_ISOLATION"
"""Environment variable: the weakest sandbox that submissions may run in; below it nothing judges."""


def best_available(least: str = LocalSandbox.name) -> Sandbox:
    """The best sandbox that works here; its name is `none` where nothing can isolate. Tries them (0.2 s).

    `least`: the name of the weakest that will do. Raises UsageError for a name that there is not,
    InfrastructureError where none from that on works here.
    """
    by_name(least)
    names = [kind.name for kind in SANDBOXES]
    reasons = []
    for kind in SANDBOXES[: names.index(least) + 1]:
        sandbox = kind()
        reason = sandbox.unavailable()
        if reason is None:
            return sandbox
        reasons.append(reason)
    raise InfrastructureError(
        f"nothing here isolates a submission as {least} does: {'; '.join(reasons)}",
        hint="see warpsmith doctor, or ask for a lower least level",
    )


def for_submissions() -> Sandbox:
    """The best sandbox here, no weaker than the environment's LEAST_ISOLATION. Raises as `best_available`."""
    return best_available(os.environ.get(LEAST_ISOLATION) or LocalSandbox.name)


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
