"""Finds out whether a sandbox works on this machine, by running this Python in it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

from warpsmith.sandbox.view import python_paths
from warpsmith.types.protocols import Sandbox, SandboxSpec

_TIMEOUT_S = 30.0
SBIN = "/usr/sbin:/sbin"
"""Where pivot_root lies, and where a plain user's PATH does not look."""


def missing(tools: Sequence[str]) -> str | None:
    """The first of `tools` that is not installed, as a reason in one line."""
    path = f"{os.environ.get('PATH', os.defpath)}:{SBIN}"
    absent = next((tool for tool in tools if shutil.which(tool, path=path) is None), None)
    return None if absent is None else f"{absent} is not installed"


def probe(sandbox: Sandbox) -> str | None:
    """None where this Python starts in the sandbox and finds this package, else the reason in one line."""
    spec = SandboxSpec(cwd="/", read_only=python_paths())
    argv = [sys.executable, "-I", "-c", "import warpsmith.errors; print('works')"]
    try:
        done = subprocess.run(
            sandbox.command(argv, spec),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{sandbox.name} does not start here: {type(error).__name__}"
    if done.returncode == 0 and done.stdout == "works\n":
        return None
    said = done.stderr.strip().splitlines()
    return f"{sandbox.name} does not work here: {said[-1] if said else f'exit code {done.returncode}'}"
