"""Append-only JSONL segments: one line a record, and a line counts only once its newline is on disk.

Every writer starts a segment of its own, so that a line torn by a kill or a full disk is the last of its
segment for ever: nothing is written behind it, and nothing before it is touched.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from warpsmith.errors import InfrastructureError
from warpsmith.store.files import make_folder, refused, sync_folder
from warpsmith.types import Episode, Pins, Record, TaskRef, Turn, Verdict
from warpsmith.types.kinds import Device


class Manifest(Record):
    """What a run was asked to do. All but `versions`, `started_at` and `pins` must agree for a run to be resumed."""

    schema_version: int = 1
    command: str
    """Such as `optimize`."""
    task_hash: str
    task_name: str
    policy: str
    device: Device
    settings: dict[str, str | int | float | bool | None] = Field(default_factory=dict)
    tasks: tuple[TaskRef, ...] = ()
    """All tasks of a run over a set, whatever became of them; `task_hash` is then the set's."""
    versions: dict[str, str] = Field(default_factory=dict)
    started_at: str = ""
    protocol: str = ""
    """By name, where the run follows one."""
    variant: str = ""
    """What was left out, where the run is an ablation."""
    pins: Pins | None = None
    """Those of the process that started the run; each session's manifest holds its own."""

    def canonical_json(self) -> str:
        """As any record's, but that what is not there leaves no trace: older runs keep their key."""
        added = {"tasks": (), "protocol": "", "variant": "", "pins": None}
        absent = {name for name, default in added.items() if getattr(self, name) == default}
        return json.dumps(self.model_dump(mode="json", exclude=absent), sort_keys=True, separators=(",", ":"))


class SessionLine(Record):
    """A process began to write: its own manifest, with the versions it ran with."""

    kind: Literal["session"] = "session"
    manifest: Manifest
    """Without `tasks`, which stand in `manifest.json`."""


class TurnLine(Record):
    """A turn of an episode."""

    kind: Literal["turn"] = "turn"
    episode_id: str
    turn: Turn


class VerdictLine(Record):
    """A verdict, and the settings that it was reached under."""

    kind: Literal["verdict"] = "verdict"
    settings_hash: str
    verdict: Verdict


class EpisodeLine(Record):
    """A finished episode."""

    kind: Literal["episode"] = "episode"
    episode: Episode


class FailureLine(Record):
    """An episode of a task of the manifest (`task_hash` is the one there) that ended for no fault of the policy's."""

    kind: Literal["failure"] = "failure"
    task_hash: str
    sample: int
    detail: str
    at: str


Line = SessionLine | TurnLine | VerdictLine | EpisodeLine | FailureLine
_LINES: TypeAdapter[Line] = TypeAdapter(Annotated[Line, Field(discriminator="kind")])


def read_segment(path: Path) -> Iterator[Line]:
    """The whole lines of a segment, in order; a torn last line is left out.

    Raises InfrastructureError where a whole line cannot be read (damaged, or written by another version).
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise refused("read", path, error) from error
    for number, raw in enumerate(data.split(b"\n")[:-1], start=1):
        try:
            yield _LINES.validate_json(raw)
        except ValidationError as error:
            raise InfrastructureError(
                f"{path} is damaged or was written by another version: line {number} cannot be read",
                hint="move the run folder away and start anew",
            ) from error


def segment_paths(folder: Path) -> list[Path]:
    """The segments in `folder`, oldest first."""
    return sorted(folder.glob("[0-9]*.jsonl"))


class SegmentWriter:
    """Appends lines to a segment of its own, made with the first; each is on disk when `append` returns."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._fd: int | None = None

    def append(self, line: Line) -> None:
        """Raises InfrastructureError where the system refuses; the next line then starts another segment."""
        data = line.model_dump_json().encode() + b"\n"
        path = self._folder
        try:
            if self._fd is None:
                path, self._fd = self._start()
            written = 0
            while written < len(data):
                written += os.write(self._fd, data[written:])
            os.fsync(self._fd)
        except OSError as error:
            self.close()
            raise refused("write to", path, error) from error

    def close(self) -> None:
        """Closes the segment; a later `append` starts another."""
        if self._fd is not None:
            fd, self._fd = self._fd, None
            os.close(fd)

    def _start(self) -> tuple[Path, int]:
        make_folder(self._folder)
        paths = segment_paths(self._folder)
        number = int(paths[-1].stem) + 1 if paths else 1
        path = self._folder / f"{number:06d}.jsonl"
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o666)
        sync_folder(self._folder)
        return path, fd
