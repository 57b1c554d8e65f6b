"""Limits and privileges: the commands that an isolated program is started through, inside its namespaces."""

from shlex import join

from warpsmith.sandbox.view import OWN_UID_VARIABLE
from warpsmith.types.protocols import SandboxSpec
from warpsmith.types.users import UID

FIRST_TO_GO = "{ echo 1000 >/proc/self/oom_score_adj; } 2>/dev/null || :"
"""A line of shell. Where memory runs out, what runs there ends before whoever judges it; not everyone may say so."""
STAY = 'read -r status || status=137; exit "$status"'
"""A line of shell behind the program: the sandbox stays until its stdin says how what entered it has ended."""


def prlimit(spec: SandboxSpec, *, processes: bool = True) -> list[str]:
    """Resource limits. Never on address space, which CUDA reserves without using it."""
    argv = ["prlimit", "--core=0:0", f"--fsize={spec.max_file_bytes}:{spec.max_file_bytes}"]
    if processes:
        argv.append(f"--nproc={spec.max_processes}:{spec.max_processes}")
    if spec.cpu_seconds:
        argv.append(f"--cpu={spec.cpu_seconds}:{spec.cpu_seconds}")
    return [*argv, "--"]


def drop_privileges(*, change_user: bool) -> list[str]:
    """No capabilities now or later, and user UID where the caller may become another one."""
    user = [f"--reuid={UID}", f"--regid={UID}", "--clear-groups"] if change_user else []
    return [
        "setpriv",
        *user,
        "--bounding-set=-all",
        "--inh-caps=-all",
        "--ambient-caps=-all",
        "--no-new-privs",
        "--",
    ]


def become_own_user() -> str:
    """Words of a shell, before a program: no capabilities now or later, and the user that `as_own_user` chose."""
    plain = join(["env", f"--unset={OWN_UID_VARIABLE}", *drop_privileges(change_user=True)])
    return plain.replace(f"--reuid={UID}", f'--reuid="${OWN_UID_VARIABLE}"')
