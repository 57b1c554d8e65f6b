"""Limits and privileges: the commands that an isolated program is started through, inside its namespaces."""

from warpsmith.sandbox.view import UID
from warpsmith.types.protocols import SandboxSpec


def prlimit(spec: SandboxSpec, *, processes: bool = True) -> list[str]:
    """Resource limits. Never on address space, which CUDA reserves without using it."""
    argv = ["prlimit", "--core=0:0", f"--fsize={spec.max_file_bytes}:{spec.max_file_bytes}"]
    if processes:
        argv.append(f"--nproc={spec.max_processes}:{spec.max_processes}")
    if spec.cpu_seconds:
        argv.append(f"--cpu={spec.cpu_seconds}:{spec.cpu_seconds}")
    return [*argv, "--"]


def drop_privileges(*, change_user: bool, uid: int | str = UID) -> list[str]:
    """No capabilities now or later, and the user `uid` where the caller may become another one."""
    user = [f"--reuid={uid}", f"--regid={UID}", "--clear-groups"] if change_user else []
    return [
        "setpriv",
        *user,
        "--bounding-set=-all",
        "--inh-caps=-all",
        "--ambient-caps=-all",
        "--no-new-privs",
        "--",
    ]
