"""The arguments that a task gives its model's constructor: found out by a sandboxed process, and remembered.

A submission whose constructor builds an extension from its arguments can be looked through only with the real ones.
It is given these and nothing else of the task.

Started as `python -I -m warpsmith.compile.constructor TASK OUT`: runs the task's file and writes `Arguments` to OUT.
"""

import os
import sys
import types
from pathlib import Path

from warpsmith.compile.cache import Cache
from warpsmith.compile.isolation import lay_out, take
from warpsmith.compile.toolchain import require_torch
from warpsmith.sandbox import python_paths
from warpsmith.sandbox.process import run_tree
from warpsmith.types import Task, sha256_hex
from warpsmith.types.arguments import constructor_arguments
from warpsmith.types.protocols import Sandbox, SandboxSpec

FILE = "arguments.pt"
_ASKED = "arguments"
_REVISION = 1
_MAX_BYTES = 64 << 20
_TIMEOUT_S = 90.0


def arguments_of(task: Task, cache: Cache, sandbox: Sandbox) -> bytes | None:
    """What `torch.save` makes of the task's `Arguments`, never read here; None where the task does not give any."""
    key = sha256_hex(f"{_REVISION} {task.task_hash} {require_torch().version} {sys.version}")
    entry = cache.lookup(_ASKED, key)
    if entry is not None:
        return (entry.files / FILE).read_bytes()
    with cache.workspace() as folder:
        files = folder / "files"
        files.mkdir()
        if not _asked(task, folder, files / FILE, sandbox):
            return None
        return (cache.publish(_ASKED, key, files).files / FILE).read_bytes()


def _asked(task: Task, folder: Path, target: Path, sandbox: Sandbox) -> bool:
    root, out = folder / "task", folder / "out"
    lay_out({"task.py": task.code}, root)
    out.mkdir()
    spec = SandboxSpec(
        cwd=str(root),
        read_only=(*python_paths(), str(root)),
        writable=(str(out),),
        cpu_seconds=int(_TIMEOUT_S),
    )
    argv = [
        sys.executable,
        "-I",
        "-m",
        "warpsmith.compile.constructor",
        str(root / "task.py"),
        str(out / FILE),
    ]
    end = run_tree(sandbox.command(argv, spec), timeout_s=_TIMEOUT_S, cwd=root, env=environment())
    return end.exit_code == 0 and take(out / FILE, target, _MAX_BYTES)


def environment() -> dict[str, str]:
    """Variables for a sandboxed Python that runs code which is not ours."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": "/tmp",
        "LC_ALL": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def main() -> int:
    """Runs the task; whatever it raises ends the process."""
    path, out = Path(sys.argv[1]), Path(sys.argv[2])
    import torch

    torch.set_num_threads(1)
    module = types.ModuleType("task")
    module.__file__ = str(path)
    sys.modules["task"] = module
    with torch.no_grad():
        exec(compile(path.read_text(), str(path), "exec", dont_inherit=True), module.__dict__)
        torch.save(constructor_arguments(module.get_init_inputs(), module.Model), out)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
