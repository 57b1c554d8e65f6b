"""Isolation with bubblewrap.

As root, bubblewrap builds the view with root's rights (dropping the user first would hide what lies under
closed folders) and setpriv changes the user inside; a plain user needs no setpriv.
"""

import os
import shutil
from collections.abc import Sequence
from pathlib import PurePath
from shlex import join

from warpsmith.sandbox.limits import FIRST_TO_GO, STAY, become_own_user, drop_privileges, prlimit
from warpsmith.sandbox.probe import missing, probe
from warpsmith.sandbox.view import (
    OWN_UID_VARIABLE,
    Kind,
    Mount,
    as_own_user,
    cwd_inside,
    job_mounts,
    own_user,
    system_mounts,
)
from warpsmith.types.protocols import SandboxSpec
from warpsmith.types.users import UID

_TOOLS = ("bwrap", "setpriv", "prlimit")
_FLAGS = {Kind.READ_ONLY: "--ro-bind", Kind.WRITABLE: "--bind", Kind.DEVICE: "--dev-bind"}


class BwrapSandbox:
    """The same view and limits as `NamespacesSandbox`, made by bubblewrap."""

    name = "bwrap"

    def unavailable(self) -> str | None:
        """None where it works here, else why not in one line. Runs a small program in it to find out."""
        return missing(_TOOLS) or probe(self)

    @property
    def enterable(self) -> bool:
        """As root: otherwise what stays would be the same user as the program, who could read and kill it."""
        return os.geteuid() == 0

    def command(self, argv: Sequence[str], spec: SandboxSpec, *, stays: bool = False) -> list[str]:
        """`argv` wrapped; inherited file descriptors pass through. A signal's end comes back as 128 + signal.

        `stays`: for a process forked elsewhere, see `warpsmith.sandbox.entering`. As root, folders in
        `spec.writable` are handed to the user that the command runs as. Raises InfrastructureError where a path of
        `spec` does not exist.
        """
        root, own = os.geteuid() == 0, own_user(spec)
        jobs = job_mounts(spec, other_user=root)
        owned = [m.path for m in jobs if root and m.kind is Kind.WRITABLE and os.path.isdir(m.path)]
        for path in owned if not own else ():
            os.chown(path, UID, UID)
        user = [] if root else ["--unshare-user", "--uid", str(UID), "--gid", str(UID)]
        system = system_mounts(gpu=spec.gpu)
        size = str(spec.tmp_bytes)
        become = ["sh", "-euc", f'exec {become_own_user()} "$@"', "sandbox"]
        if not own:
            become = drop_privileges(change_user=True) if root else []
        then = f'"$@"; {STAY}' if stays else 'exec "$@"'
        wrapped = [
            shutil.which("bwrap") or "bwrap",
            *user,
            *("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--die-with-parent"),
            *_parents(system),
            *(flag for mount in system for flag in _flags(mount)),
            *("--proc", "/proc"),
            *("--perms", "1777", "--size", size, "--tmpfs", "/tmp"),
            *("--perms", "1777", "--size", size, "--tmpfs", "/dev/shm"),
            # under /tmp too, so after it
            *_parents(jobs),
            *(flag for mount in jobs for flag in _flags(mount)),
            *("--remount-ro", "/"),
            *("--chdir", cwd_inside(spec)),
            "--",
            *("sh", "-c", f"{FIRST_TO_GO}; {then}", "sandbox"),
            *become,
            *prlimit(spec),
            *argv,
        ]
        hand_over = f'chown "${OWN_UID_VARIABLE}":{UID} {join(owned)}' if owned else ""
        return as_own_user(wrapped, hand_over) if own else wrapped


def _parents(mounts: Sequence[Mount]) -> list[str]:
    """Makes the folders above `mounts` by name: those that bubblewrap makes by itself are closed to others."""
    made = {str(folder): None for mount in mounts for folder in reversed(PurePath(mount.path).parents)}
    links = {mount.path for mount in mounts if mount.kind in (Kind.SYMLINK, Kind.COPY)}
    return [flag for path in made if path != "/" and path not in links for flag in ("--dir", path)]


def _flags(mount: Mount) -> list[str]:
    if mount.kind is Kind.FOLDER:
        return ["--dir", mount.path]
    if mount.kind is Kind.SYMLINK:
        return ["--symlink", mount.source, mount.path]
    if mount.kind is Kind.COPY:
        if os.path.islink(mount.source):
            return ["--symlink", os.readlink(mount.source), mount.path]
        return ["--ro-bind", mount.source, mount.path]
    return [_FLAGS[mount.kind], mount.source, mount.path]
