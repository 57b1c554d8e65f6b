"""Files of a workspace by path strings that nobody has checked; none of them leads out of it.

Every component is opened relative to the folder before it and never through a link: a link is read, and its
text walked in the same way. A process that swaps folders for links meanwhile gains nothing.
"""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from warpsmith.agent.failures import ToolError
from warpsmith.agent.search import MAX_DEPTH

_MAX_LINKS = 40
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


@dataclass(frozen=True)
class Place:
    """An entry of an open folder; `name` is `.` for the workspace itself and need not exist yet.

    `path` is relative to the workspace, without links.
    """

    folder: int
    name: str
    path: str


@dataclass(frozen=True)
class Entry:
    """A regular file found by `walk`."""

    path: str
    modified_ns: int


class Workspace:
    """The folder that file tools work in. Paths are absolute or relative to it.

    Every method raises ToolError with an answer for the model: a path that leads out, a missing file, a
    folder, a special file, no permission, a full disk.
    """

    def __init__(self, root: Path | str):
        self.root = Path(os.path.realpath(root))
        self._forms = (str(self.root), os.path.abspath(root))

    @contextmanager
    def place(self, path: str, *, make_folders: bool = False, follow: bool = True) -> Iterator[Place]:
        """The entry that `path` names, links followed; missing folders on the way are made on demand.

        Without `follow` a link in the last place is the entry itself.
        """
        with _told(path):
            walk = _Walk(self._forms, make_folders, follow)
            try:
                yield walk.to(path)
            finally:
                walk.close()

    @contextmanager
    def open(self, path: str) -> Iterator[tuple[int, os.stat_result, str]]:
        """A descriptor of the regular file `path`, what stat says of it, and its path without links."""
        with self.place(path) as place:
            fd = os.open(place.name, _FILE, dir_fd=place.folder)
            try:
                info = os.fstat(fd)
                if stat.S_ISDIR(info.st_mode):
                    raise ToolError(f"{path} is a folder, not a file: list it with Glob, or with ls in Bash")
                if not stat.S_ISREG(info.st_mode):
                    raise ToolError(f"{path} is not a regular file (a pipe, socket or device)")
                yield fd, info, place.path
            finally:
                os.close(fd)

    def read(self, path: str, limit: int) -> tuple[bytes, str]:
        """The content of a file of at most `limit` bytes, and its path without links."""
        with self.open(path) as (fd, info, real):
            data = bytearray()
            while len(data) <= limit and (chunk := os.read(fd, min(1 << 20, limit + 1 - len(data)))):
                data += chunk
            if len(data) > limit:
                size = max(info.st_size, len(data))
                raise ToolError(
                    f"{path} is too large ({size} bytes, the limit is {limit}): use Bash (head, tail, sed)"
                )
            return bytes(data), real

    def exists(self, path: str) -> bool:
        """Whether `path` names something, of whatever kind."""
        try:
            with self.place(path) as place:
                os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
        except MissingError:
            return False
        return True

    def relative(self, path: str) -> str:
        """The path of the existing file or folder `path` relative to the workspace, without links."""
        with self.place(path) as place:
            os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
            return place.path

    def write(self, path: str, data: bytes) -> str:
        """Replaces or makes a file, whole or not at all; its path without links.

        It keeps its mode, and belongs to whom its folder belongs to.
        """
        with self.place(path, make_folders=True) as place:
            if place.name == ".":
                raise ToolError(f"{path} is a folder, not a file")
            mode = 0o644
            with contextlib.suppress(FileNotFoundError):
                info = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
                if not stat.S_ISREG(info.st_mode):
                    raise ToolError(f"{path} is not a regular file: give another path")
                mode = stat.S_IMODE(info.st_mode) & 0o777
            _replace(place, data, mode)
            return place.path

    def replace(self, path: str, data: bytes, mode: int) -> None:
        """As `write`, but what stands at `path` itself is replaced, a link or a special file too."""
        with self.place(path, make_folders=True, follow=False) as place:
            if place.name == ".":
                raise ToolError(f"{path} is a folder, not a file")
            _replace(place, data, mode)

    def walk(self, path: str = ".", *, enter: Callable[[str], bool] | None = None) -> Iterator[Entry]:
        """Every regular file at and below the folder `path`, links not followed, unreadable ones left out.

        `enter` says of a folder's name whether to look into it (None: into all).
        """
        with self.place(path) as place:
            top = os.open(place.name, _FOLDER, dir_fd=place.folder)
            prefix = "" if place.path == "." else place.path + "/"
        yield from _files(top, prefix, enter or _any_folder)


class MissingError(ToolError):
    """There is no such file."""


@contextmanager
def _told(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise MissingError(f"{path} does not exist: find files with Glob") from error
    except NotADirectoryError as error:
        raise ToolError(f"{path}: a part of the path that should be a folder is a file") from error
    except OSError as error:
        raise ToolError(f"{path}: {error.strerror or type(error).__name__}") from error
    except ValueError as error:
        raise ToolError("a path cannot hold NUL bytes or lone surrogates") from error


class _Walk:
    """The folders from the workspace down to where the walk stands."""

    def __init__(self, roots: tuple[str, ...], make_folders: bool, follow: bool):
        self._roots = roots
        self._make = make_folders
        self._follow = follow
        self._links = 0
        self._folders = [os.open(roots[0], _FOLDER)]
        self._names: list[str] = []

    def close(self) -> None:
        for fd in self._folders:
            os.close(fd)

    def to(self, path: str) -> Place:
        """Walks to the last component, which it does not open unless it is a folder to be left again."""
        if not path:
            raise ToolError("the path is empty")
        if "\0" in path:
            raise ToolError("a path cannot hold NUL bytes or lone surrogates")
        todo = self._parts(path, path)[::-1]
        while todo:
            part = todo.pop()
            if part == ".":
                continue
            if part == "..":
                self._up(path)
                continue
            link = self._link(part) if todo or self._follow else None
            if link is not None:
                self._links += 1
                if self._links > _MAX_LINKS:
                    raise ToolError(f"{path}: too many links")
                todo += self._parts(link, path)[::-1]
            elif todo:
                self._down(part)
            else:
                return Place(self._folders[-1], part, "/".join([*self._names, part]))
        # the path ends in the folder that the walk stands in
        return Place(self._folders[-1], ".", "/".join(self._names) or ".")

    def _parts(self, text: str, path: str) -> list[str]:
        """Components of `text`; those of an absolute one from the workspace on, to which the walk goes back."""
        if text.startswith("/"):
            root = next((r for r in self._roots if text == r or text.startswith(r.rstrip("/") + "/")), None)
            if root is None:
                raise _outside(path, self._roots[0])
            text = text[len(root) :]
            while self._names:
                self._up(path)
        parts = [part for part in text.split("/") if part]
        # a slash at the end asks for a folder
        return [*parts, "."] if text.endswith("/") and parts else parts

    def _link(self, name: str) -> str | None:
        try:
            return os.readlink(name, dir_fd=self._folders[-1])
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno == errno.EINVAL:  # not a link
                return None
            raise

    def _down(self, name: str) -> None:
        folder = self._folders[-1]
        if self._make:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o755, dir_fd=folder)
                _give(os.open(name, _FOLDER, dir_fd=folder), folder, close=True)
        self._folders.append(os.open(name, _FOLDER, dir_fd=folder))
        self._names.append(name)

    def _up(self, path: str) -> None:
        if not self._names:
            raise _outside(path, self._roots[0])
        os.close(self._folders.pop())
        self._names.pop()


def _outside(path: str, root: str) -> ToolError:
    return ToolError(f"{path} is outside the workspace: use paths under {root}")


def _give(fd: int, folder: int, *, close: bool) -> None:
    """Hands `fd` to the owner of `folder`: commands run as another user where this process is root."""
    try:
        if os.geteuid() == 0:
            owner = os.fstat(folder)
            os.fchown(fd, owner.st_uid, owner.st_gid)
    finally:
        if close:
            os.close(fd)


def _replace(place: Place, data: bytes, mode: int) -> None:
    new = f".{secrets.token_hex(8)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(new, flags, 0o600, dir_fd=place.folder)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            _give(file.fileno(), place.folder, close=False)
            os.fchmod(file.fileno(), mode)
        os.rename(new, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(new, dir_fd=place.folder)
        raise


def _any_folder(name: str) -> bool:
    return True


def _files(folder: int, prefix: str, enter: Callable[[str], bool], depth: int = 0) -> Iterator[Entry]:
    """Owns `folder`. Only the folders of one branch are open at a time."""
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: os.fsencode(entry.name))
        for entry in found:
            try:
                info = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(info.st_mode):
                    yield Entry(prefix + entry.name, info.st_mtime_ns)
                elif stat.S_ISDIR(info.st_mode) and depth + 1 < MAX_DEPTH and enter(entry.name):
                    below = os.open(entry.name, _FOLDER, dir_fd=folder)
                    yield from _files(below, f"{prefix}{entry.name}/", enter, depth + 1)
            except OSError:
                # gone, closed to us, or no descriptor is left at this depth
                continue
    finally:
        os.close(folder)
