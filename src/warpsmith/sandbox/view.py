"""What an isolated process sees of the file system: a list of mounts, parents first, on an empty root."""

import os
import stat
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from warpsmith.errors import InfrastructureError, UsageError
from warpsmith.types.protocols import SandboxSpec, SandboxUser
from warpsmith.types.users import OWN_UIDS, UID

OWN_UID_VARIABLE = "WARPSMITH_SANDBOX_UID"
"""Of the shell that starts a sandbox, whose process id becomes the sandbox's."""

_SYSTEM = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
)
_COPIED = (
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
    "/etc/localtime",
    "/dev/fd",
    "/dev/stdin",
    "/dev/stdout",
    "/dev/stderr",
)
# the rest of /sys tells of the host, and control groups under it may be the user's own
_SYS = ("/sys/devices/system",)
_SYS_GPU = ("/sys/devices", "/sys/bus", "/sys/class", "/sys/module")
_DEVICES = ("null", "zero", "full", "random", "urandom")
# where container runtimes put the driver's libraries, when not under /usr
_GPU_LIBRARIES = "/run/nvidia"
# there in every view, made anew
_NEVER = ("/", "/proc", "/dev", "/tmp", "/dev/shm")
_GPU_DEVICES = ("nvidia*", "dxg")


class Kind(StrEnum):
    """How a path comes into view."""

    READ_ONLY = "read_only"
    WRITABLE = "writable"
    DEVICE = "device"
    SYMLINK = "symlink"
    COPY = "copy"
    FOLDER = "folder"


@dataclass(frozen=True)
class Mount:
    """`path` inside shows `source` outside; for a symlink `source` is its text, for a folder nothing.

    A copy stands for small files and links of the system that may as well be mounted.
    """

    kind: Kind
    path: str
    source: str = ""


def python_paths() -> tuple[str, ...]:
    """What this interpreter needs to see to run Python with the packages it has now, this one among them."""
    schemes = sysconfig.get_paths()
    package = Path(__file__).resolve().parents[2]
    wanted = [
        sys.prefix,
        sys.base_prefix,
        sys.exec_prefix,
        sys.base_exec_prefix,
        str(Path(sys.executable).parent),
        str(Path(os.path.realpath(sys.executable)).parent.parent),
        *(schemes[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        *_added(schemes["stdlib"]),
        str(package),
    ]
    both = (form for path in wanted for form in (os.path.abspath(path), os.path.realpath(path)))
    return _outermost(path for path in dict.fromkeys(both) if os.path.isdir(path) and path != "/")


def _added(stdlib: str) -> list[str]:
    """What `.pth` files add to sys.path: it stands behind the standard library.

    Before it stand PYTHONPATH and the script's own folder, which an isolated Python does not use either.
    """
    return sys.path[sys.path.index(stdlib) + 1 :] if stdlib in sys.path else []


def system_mounts(*, gpu: bool) -> list[Mount]:
    """The system, read-only, and the devices that any program needs."""
    linked = {path for path in _SYSTEM if os.path.islink(path)}
    folders = [path for path in _SYSTEM if path not in linked]
    folders += [*_SYS_GPU, _GPU_LIBRARIES] if gpu else _SYS
    devices = [f"/dev/{name}" for name in _DEVICES]
    if gpu:
        devices += [str(path) for pattern in _GPU_DEVICES for path in sorted(Path("/dev").glob(pattern))]
    return [
        *(Mount(Kind.COPY, path, path) for path in (*sorted(linked), *_COPIED) if os.path.lexists(path)),
        *(Mount(Kind.READ_ONLY, path, path) for path in folders if os.path.isdir(path)),
        *(Mount(Kind.DEVICE, path, path) for path in devices if os.path.exists(path)),
    ]


def job_mounts(spec: SandboxSpec, *, other_user: bool) -> list[Mount]:
    """The paths that `spec` names, and its working folder if none of them shows it.

    With `other_user` a read-only folder that others may not enter is rebuilt from its present entries.
    Raises InfrastructureError where a path does not exist.
    """
    shown: dict[str, Kind] = {}
    for kind, paths in ((Kind.READ_ONLY, spec.read_only), (Kind.WRITABLE, spec.writable)):
        for path in paths:
            if not os.path.exists(path):
                raise InfrastructureError(f"cannot show {path} in the sandbox: it does not exist")
            if os.path.realpath(path) in _NEVER:
                raise UsageError(f"the sandbox never shows {path}", hint="name the folders that it needs")
            for form in (os.path.abspath(path), os.path.realpath(path)):
                shown[form] = kind
    cwd = os.path.realpath(spec.cwd)
    if cwd not in _NEVER and not any(_inside(cwd, path) for path in (*shown, *_SYSTEM)):
        shown[cwd] = Kind.READ_ONLY
    mounts: list[Mount] = []
    for path, kind in sorted(shown.items(), key=lambda item: (item[0].count("/"), item[0])):
        parent = next((p for p in map(str, Path(path).parents) if p in shown), None)
        if kind is Kind.READ_ONLY and (
            shown.get(parent or "") is Kind.READ_ONLY or any(_inside(path, base) for base in _SYSTEM)
        ):
            continue
        if other_user and kind is Kind.READ_ONLY and _closed(path, None if own_user(spec) else UID):
            mounts += _entries(path)
        else:
            mounts.append(Mount(kind, path, path))
    return mounts


def own_user(spec: SandboxSpec) -> bool:
    """True where a tree of `spec` gets a user of its own: as root, where this user namespace maps `OWN_UIDS`."""
    return os.geteuid() == 0 and spec.user is SandboxUser.OWN and _mapped(OWN_UIDS)


def as_own_user(argv: Sequence[str], first: str = "") -> list[str]:
    """`argv` with OWN_UID_VARIABLE set to a user that nobody else is while it runs; `first`: a shell line before."""
    number = f"export {OWN_UID_VARIABLE}=$(({OWN_UIDS.start} + $$))"
    return ["sh", "-euc", "\n".join(filter(None, [number, first, 'exec "$@"'])), "sandbox", *argv]


def _mapped(users: range) -> bool:
    rows = (map(int, line.split()) for line in Path("/proc/self/uid_map").read_text().splitlines())
    return any(first <= users[0] and users[-1] < first + count for first, _, count in rows)


def cwd_inside(spec: SandboxSpec) -> str:
    """The working folder's path inside."""
    return os.path.realpath(spec.cwd)


def _closed(path: str, owner: int | None) -> bool:
    info = os.stat(path)
    return stat.S_ISDIR(info.st_mode) and owner != info.st_uid and info.st_mode & 0o005 != 0o005


def _entries(path: str) -> list[Mount]:
    mounts = [Mount(Kind.FOLDER, path)]
    for entry in sorted(os.scandir(path), key=lambda entry: entry.name):
        if entry.is_symlink():
            mounts.append(Mount(Kind.SYMLINK, entry.path, os.readlink(entry.path)))
        elif entry.is_dir() or entry.is_file():
            mounts.append(Mount(Kind.READ_ONLY, entry.path, entry.path))
    return mounts


def _inside(path: str, base: str) -> bool:
    return path == base or path.startswith(base.rstrip("/") + "/")


def _outermost(paths: Iterable[str]) -> tuple[str, ...]:
    kept: list[str] = []
    for path in sorted(paths, key=len):
        if not any(_inside(path, base) for base in kept):
            kept.append(path)
    return tuple(kept)
