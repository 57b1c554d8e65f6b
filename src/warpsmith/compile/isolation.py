"""What a compiler sees of the machine: itself, its headers and the sources before it.

Sources can name any file (`#include` of a computed name, `.incbin`, `#embed`), and what is read so can be printed
by a diagnostic or by the kernel.
"""

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from warpsmith.sandbox import best_available
from warpsmith.types.protocols import Sandbox, SandboxSpec, SandboxUser

_PREFIXES = ("-I", "-isystem", "-idirafter", "-ccbin=", "-B")
_COMMON = ("/", "/usr", "/bin", "/lib", "/lib64", "/tmp", "/proc", "/dev")


@lru_cache(maxsize=1)
def default_sandbox() -> Sandbox:
    """The best that works here; finding out takes 0.2 s."""
    return best_available()


def isolated(
    argv: Sequence[str],
    sandbox: Sandbox,
    cwd: Path,
    sources: Path,
    written: Path,
    cpu_s: int,
    file_bytes: int,
) -> list[str]:
    """`argv`, to be run in `cwd`, so that it reads `sources` and the folders that it names, and writes `written`.

    Unchanged where nothing here can isolate.
    """
    if sandbox.name == "none":
        return list(argv)
    spec = SandboxSpec(
        cwd=str(cwd),
        read_only=(*dict.fromkeys((*_shown(argv), str(sources))),),
        writable=(str(written),),
        # compilers side by side, and one after the other, write there
        user=SandboxUser.SHARED,
        cpu_seconds=cpu_s,
        max_file_bytes=file_bytes,
        tmp_bytes=4 << 30,
    )
    return sandbox.command(argv, spec)


def _shown(argv: Sequence[str]) -> Iterator[str]:
    """The folders that a compiler needs, read off its own arguments."""
    for number, word in enumerate(argv):
        prefix = next((p for p in _PREFIXES if word.startswith(p)), "")
        path = Path(word.removeprefix(prefix))
        if not path.is_absolute() or not path.exists():
            continue
        if path.is_dir():
            yield str(path)
        elif number == 0 or prefix == "-ccbin=":
            home = path.resolve().parent.parent
            if str(home) not in _COMMON:
                yield str(home)


def lay_out(files: Mapping[str, str], folder: Path) -> None:
    """Writes path → text below `folder`, readable for the user of the sandbox whatever the umask."""
    folder.mkdir()
    folder.chmod(0o755)
    for path, text in files.items():
        place = folder / path
        for parent in reversed(place.relative_to(folder).parents[:-1]):
            (folder / parent).mkdir(exist_ok=True)
            (folder / parent).chmod(0o755)
        place.write_text(text, newline="")
        place.chmod(0o644)


def take(path: Path, target: Path, limit: int) -> bool:
    """Copies what a sandboxed process wrote to `path` into a file of our own; False where it wrote no file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
            return False
        with open(fd, "rb", closefd=False) as file:
            target.write_bytes(file.read(limit))
    finally:
        os.close(fd)
    return True
