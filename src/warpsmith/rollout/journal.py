"""An episode's journal: every message to and from a model, one JSON line each, on disk before anything follows."""

import os
from pathlib import Path

from pydantic import ValidationError

from warpsmith.errors import InfrastructureError
from warpsmith.store.files import make_folder, refused
from warpsmith.types.llm import Entry

FOLDER = "journal"


def journal_path(run: Path, episode_id: str) -> Path:
    """Where the journal of an episode lies in a run folder."""
    return run / FOLDER / f"{episode_id}.jsonl"


def read_journal(path: Path) -> tuple[Entry, ...]:
    """The whole lines in order, a torn last one left out; nothing where there is no file.

    Raises InfrastructureError where a whole line cannot be read.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise refused("read", path, error) from error
    try:
        return tuple(Entry.model_validate_json(line) for line in data.split(b"\n")[:-1])
    except ValidationError as error:
        raise InfrastructureError(
            f"{path} is damaged or was written by another version",
            hint="move the run folder away and start anew",
        ) from error


class Journal:
    """Appends to a journal; `entries` is what it holds, lines of earlier processes first."""

    def __init__(self, path: Path):
        self.entries = list(read_journal(path))
        self._path = path

    def append(self, entry: Entry) -> None:
        """Durable when it returns. Raises InfrastructureError where the system refuses; no torn line stays then."""
        data = entry.model_dump_json(exclude_defaults=True).encode() + b"\n"
        make_folder(self._path.parent)
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                end = _whole(fd)
                # what a kill tore off is not built upon
                os.ftruncate(fd, end)
                written = 0
                while written < len(data):
                    written += os.pwrite(fd, data[written:], end + written)
                os.fsync(fd)
            finally:
                os.close(fd)
        except OSError as error:
            raise refused("write to", self._path, error) from error
        self.entries.append(entry)


def _whole(fd: int) -> int:
    """Where the last whole line ends."""
    end, block = os.fstat(fd).st_size, 1 << 16
    while end:
        start = max(0, end - block)
        at = os.pread(fd, end - start, start).rfind(b"\n")
        if at >= 0:
            return start + at + 1
        end = start
    return 0
