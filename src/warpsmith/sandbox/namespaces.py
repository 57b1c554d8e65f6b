"""Isolation with what every Linux has: util-linux's unshare, mount, setpriv and prlimit.

As root the namespaces are made directly and the user is changed inside them, to the one that `SandboxSpec.user` asks
for: one of its own is named after the wrapper's process id, which nobody else has while the wrapper lives. A plain
user gets a user namespace for the mounts and a second one inside it, where the program is user 65534, owns nothing
and has a count of processes of its own. The shell that builds the view stays as the first process of the pid
namespace: the wrapper's death kills it (`--kill-child`), and its death kills everything. It cannot become the
program, since a change of user clears the death signal.
"""

import os
import shutil
from collections.abc import Sequence
from shlex import join, quote

from warpsmith.sandbox.limits import FIRST_TO_GO, STAY, become_own_user, drop_privileges, prlimit
from warpsmith.sandbox.probe import SBIN, missing, probe
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

_TOOLS = ("unshare", "setpriv", "prlimit", "mount", "umount", "pivot_root", "sh")
_ROOT = "/tmp"
_OLD = "/.old"


class NamespacesSandbox:
    """Own mount, pid, net, ipc and uts namespaces; another user; no capabilities; a root with only a view."""

    name = "namespaces"
    enterable = True

    def unavailable(self) -> str | None:
        """None where it works here, else why not in one line. Runs a small program in it to find out."""
        return missing(_TOOLS) or probe(self)

    def command(self, argv: Sequence[str], spec: SandboxSpec, *, stays: bool = False) -> list[str]:
        """`argv` wrapped; inherited file descriptors pass through. A signal's end comes back as 128 + signal.

        `stays`: for a process forked elsewhere, see `warpsmith.sandbox.entering`. As root, folders in
        `spec.writable` are handed to the user that the command runs as. Raises InfrastructureError where a path of
        `spec` does not exist.
        """
        root = os.geteuid() == 0
        namespaces = ["--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "--kill-child"]
        user = [] if root else ["--user", "--map-root-user"]
        script = _script(spec, root=root, stays=stays)
        wrapped = [
            shutil.which("unshare") or "unshare",
            *user,
            *namespaces,
            "--propagation=private",
            "--",
            "sh",
            "-euc",
            script,
            "sandbox",
            *argv,
        ]
        return as_own_user(wrapped) if own_user(spec) else wrapped


def _script(spec: SandboxSpec, *, root: bool, stays: bool) -> str:
    system = system_mounts(gpu=spec.gpu)
    jobs = job_mounts(spec, other_user=root)
    copies = [mount.path for mount in system if mount.kind is Kind.COPY]
    writable = [mount.path for mount in jobs if mount.kind is Kind.WRITABLE]
    owned = [path for path in writable if root and os.path.isdir(path)]
    tmpfs = f"mount -t tmpfs -o nosuid,nodev,mode=1777,size={spec.tmp_bytes} tmpfs"
    own = own_user(spec)
    inner = [*drop_privileges(change_user=root and not own), *prlimit(spec)]
    program = f"{become_own_user()} {join(prlimit(spec))}" if own else join(inner)
    owner = f'"${OWN_UID_VARIABLE}":{UID}' if own else f"{UID}:{UID}"
    if not root:
        inner = ["unshare", "--user", f"--map-user={UID}", f"--map-group={UID}", "--keep-caps", "--", *inner]
        program = join(inner)
    lines = [
        FIRST_TO_GO,
        # the program is another user, who must get through the folders made here
        "umask 022",
        f'PATH="$PATH:{SBIN}"',
        f"mount -t tmpfs -o mode=755,size=16m sandbox {_ROOT}",
        f"mkdir -p {_ROOT}{_OLD} {_ROOT}/proc {_ROOT}/dev/shm {_ROOT}/tmp",
        # from the root: cp looks for the parents' modes relative to where it stands
        f"cd /; cp -rP --preserve=mode --parents -t {_ROOT} {join(copies)}",
        *_show(system, source_prefix="", target_prefix=_ROOT, root=root),
        f"mount -t proc -o nosuid,nodev,noexec proc {_ROOT}/proc",
        f"{tmpfs} {_ROOT}/tmp",
        f"{tmpfs} {_ROOT}/dev/shm",
        # the old root moves aside with whatever lay under the folder that the new one was built on
        f"cd {_ROOT}",
        f"pivot_root . .{_OLD}",
        "cd /",
        *_show(jobs, source_prefix=_OLD, target_prefix="", root=root),
        *([f"chown {owner} {join(owned)}"] if owned else []),
        f"umount -l {_OLD}; rmdir {_OLD}",
        *_read_only_but(["/proc", "/dev", "/tmp", *writable]),
        f"cd -- {quote(cwd_inside(spec))}",
        # not the last command, else the shell would become the program
        f'set +e; {program} "$@"',
        # this shell is the first process, which has to wait for all that lose their parent
        f"exec 3<&0; ( {STAY} ) <&3 & exec 3<&-; wait $!" if stays else "",
        "exit $?",
    ]
    return "\n".join(lines)


def _show(mounts: Sequence[Mount], *, source_prefix: str, target_prefix: str, root: bool) -> list[str]:
    """Shell lines that bring `mounts` into view, in order; copies are made elsewhere."""
    folders, lines = [], []
    # root sets the flags with the mount; a user namespace must keep those it finds: `_read_only_but`
    read_only = "-o ro,nosuid,nodev " if root else ""
    for mount in mounts:
        target, source = quote(target_prefix + mount.path), quote(source_prefix + mount.source)
        is_folder = mount.kind is Kind.FOLDER or (
            mount.kind is not Kind.SYMLINK and os.path.isdir(mount.source)
        )
        if mount.kind is not Kind.COPY:
            folders.append(target_prefix + (mount.path if is_folder else os.path.dirname(mount.path)))
        if mount.kind is Kind.SYMLINK:
            lines.append(f"ln -s {quote(mount.source)} {target}")
        elif mount.kind in (Kind.READ_ONLY, Kind.WRITABLE, Kind.DEVICE):
            if not is_folder:
                lines.append(f"[ -e {target} ] || : >{target}")
            options = read_only if mount.kind is Kind.READ_ONLY else ""
            lines.append(f"mount --rbind {options}{source} {target}")
    made = [f"mkdir -p {join(dict.fromkeys(folders))}"] if folders else []
    # folders first and in one go: one that lies under a later mount is there in what is mounted
    return [*made, *lines]


def _read_only_but(kept: Sequence[str]) -> list[str]:
    """Shell lines that make every mount read-only but those at and under `kept`, their other flags kept."""
    patterns = "|".join(f"{quote(path)}|{quote(path)}/*" for path in kept)
    return [
        "while read -r _ _ _ _ point options _; do",
        # mountinfo writes spaces and the like as octal escapes
        r'case "$point" in *\\*) point=$(printf %b "$point");; esac',
        f'case "$point" in {patterns}) ;; *) case "$options" in',
        'rw|rw,*) mount -o "remount,bind,ro${options#rw}" "$point";; esac;; esac',
        "done </proc/self/mountinfo",
    ]
