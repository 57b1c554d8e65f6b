"""A stage's folder: what was asked for, its curves, its checkpoints, what came of it.

- `manifest.json`: what was asked; another question is refused
- `lock`: held by the process that runs the stage
- `curves.jsonl`: one line a step; `tensorboard/` holds the same
- `checkpoints/global_step_N/`, each counted only once its `sealed.json` names every file with its size
- `stopped.json`: why a run was stopped early; `good.json`: the last checkpoint before anything looked wrong
- `result.json`, `report.md`
"""

import json
import math
import os
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from pydantic import Field, JsonValue, ValidationError

from warpsmith.errors import InfrastructureError, UsageError
from warpsmith.store.files import make_folder, refused, write_atomic
from warpsmith.store.lock import FolderLock
from warpsmith.training.watch import Alarm
from warpsmith.types import Record

R = TypeVar("R", bound=Record)
CHECKPOINTS = "checkpoints"
CURVES = "curves.jsonl"
_STEP = "global_step_"
_SEAL = "sealed.json"
_LATEST = "latest_checkpointed_iteration.txt"
"""What the engine goes on from."""
_STOPPED, _GOOD, _RESULT = "stopped.json", "good.json", "result.json"


class Stage(StrEnum):
    """The commands of training."""

    WARMUP = "warmup"
    COLLECT = "collect"
    RFT = "rft"
    VALUE = "value"
    PPO = "ppo"
    EVAL = "eval"


class StageManifest(Record):
    """What a stage was asked to do. All but `versions` and `started_at` must agree for it to be resumed."""

    schema_version: int = 1
    stage: Stage
    settings: dict[str, JsonValue]
    versions: dict[str, str] = Field(default_factory=dict)
    started_at: str = ""


class StageResult(Record):
    """What came of a stage. `model` is a folder in Hugging Face's format; `stopped` names the alarm that ended it.

    `paused`: its budget was spent, and the same command goes on; such a result is not stored.
    """

    stage: Stage
    model: str | None = None
    steps: int = 0
    figures: dict[str, float] = Field(default_factory=dict)
    stopped: Alarm | None = None
    paused: bool = False
    seconds: float = 0.0


class Stopped(Record):
    """A run was stopped early at this step."""

    step: int
    alarm: Alarm


class Good(Record):
    """The last step whose checkpoint may be trusted."""

    step: int


class StageFolder:
    """`with StageFolder(path) as folder: folder.open(manifest)`. Raises RunLockedError where it is in use."""

    def __init__(self, path: Path):
        self.path = path.absolute()
        self._lock = FolderLock(self.path)

    def __enter__(self) -> Self:
        if self.path.exists() and not self.path.is_dir():
            raise UsageError(f"{self.path} is not a folder", hint="choose a folder for the stage")
        make_folder(self.path)
        self._lock.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def open(self, manifest: StageManifest) -> StageResult | None:
        """Starts the stage or goes on with it; the result where it had ended. Raises UsageError for another stage."""
        path = self.path / "manifest.json"
        stored = read_record(path, StageManifest)
        if stored is None:
            now = datetime.now(UTC).isoformat(timespec="seconds")
            write_atomic(
                path, manifest.model_copy(update={"started_at": now}).model_dump_json(indent=2) + "\n"
            )
        elif differences := _differences(stored, manifest):
            raise UsageError(
                f"{self.path} holds another run: {'; '.join(differences)}",
                hint="give the same options as before, or choose another folder",
            )
        return self.result()

    def result(self) -> StageResult | None:
        """What came of the stage, if it has ended."""
        return read_record(self.path / _RESULT, StageResult)

    def finish(self, result: StageResult) -> StageResult:
        """Stores what came of it."""
        write_atomic(self.path / _RESULT, result.model_dump_json(indent=2) + "\n")
        return result

    def stopped(self) -> Stopped | None:
        """Why the run was stopped early, if it was."""
        return read_record(self.path / _STOPPED, Stopped)

    def stop(self, step: int, alarm: Alarm) -> None:
        """Stores why the run is stopped."""
        write_atomic(self.path / _STOPPED, Stopped(step=step, alarm=alarm).model_dump_json() + "\n")

    def good(self) -> int | None:
        """The last step whose checkpoint is whole and whose figures looked right."""
        found = read_record(self.path / _GOOD, Good)
        return None if found is None or not is_whole(self.checkpoint(found.step)) else found.step

    def mark_good(self, step: int) -> None:
        """This step's checkpoint may be trusted."""
        write_atomic(self.path / _GOOD, Good(step=step).model_dump_json() + "\n")

    def checkpoint(self, step: int) -> Path:
        """Where the checkpoint of a step lies."""
        return self.path / CHECKPOINTS / f"{_STEP}{step}"

    def last_whole(self) -> int:
        """The step of the last checkpoint that is whole; 0: none."""
        paths = (self.path / CHECKPOINTS).glob(f"{_STEP}*")
        return max((int(path.name.removeprefix(_STEP)) for path in paths if is_whole(path)), default=0)

    def forget(self) -> None:
        """Removes checkpoints that nothing goes on from: all but the last whole one and the last good one.

        The engine itself knows of none that it did not write since it was started.
        """
        kept = {self.checkpoint(step) for step in (self.last_whole(), self.good()) if step}
        for path in (self.path / CHECKPOINTS).glob(f"{_STEP}*"):
            if path not in kept:
                shutil.rmtree(path, ignore_errors=True)

    def prepare_resume(self) -> int:
        """Makes the engine go on from the last whole checkpoint, and removes what was cut short; its step, 0: none.

        Curves behind that step are dropped: they will be drawn again.
        """
        self.forget()
        step = self.last_whole()
        tracker = self.path / CHECKPOINTS / _LATEST
        if step:
            write_atomic(tracker, str(step))
        else:
            tracker.unlink(missing_ok=True)
        Curves(self.path).keep_until(step)
        return step


class Curves:
    """Figures by step. `TensorBoard` files are written beside where its package is installed."""

    def __init__(self, folder: Path):
        self._path = folder / CURVES
        self._folder = folder

    def append(self, step: int, figures: Mapping[str, float]) -> None:
        """One line, durable when it returns. Figures that are no numbers are kept as such."""
        numbers = {name: float(value) for name, value in figures.items()}
        line = json.dumps({"step": step} | numbers) + "\n"
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise refused("write to", self._path, error) from error
        self._tensorboard(step, numbers)

    def rows(self) -> list[dict[str, float]]:
        """Every whole line; a torn last one is left out."""
        try:
            lines = self._path.read_text("utf-8").split("\n")[:-1]
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in lines]

    def keep_until(self, step: int) -> None:
        """Drops the lines behind `step`."""
        rows = self.rows()
        kept = [row for row in rows if row["step"] <= step]
        if self._path.exists():
            write_atomic(self._path, "".join(json.dumps(row) + "\n" for row in kept))

    def _tensorboard(self, step: int, numbers: Mapping[str, float]) -> None:
        try:
            from tensorboard.compat.proto.event_pb2 import Event
            from tensorboard.compat.proto.summary_pb2 import Summary
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError:
            return
        writer = EventFileWriter(str(self._folder / "tensorboard"))
        values = [
            Summary.Value(tag=name, simple_value=value)
            for name, value in numbers.items()
            if math.isfinite(value)
        ]
        now = datetime.now(UTC).timestamp()
        writer.add_event(Event(step=step, wall_time=now, summary=Summary(value=values)))
        writer.close()


def seal(checkpoint: Path) -> None:
    """Says that everything below `checkpoint` is written, with the sizes: what a kill or a full disk cut is not."""
    sizes = {
        str(path.relative_to(checkpoint)): path.stat().st_size
        for path in sorted(checkpoint.rglob("*"))
        if path.is_file() and path.name != _SEAL
    }
    if not sizes:
        raise InfrastructureError(f"the checkpoint {checkpoint} is empty", hint="see the log of the stage")
    write_atomic(checkpoint / _SEAL, json.dumps(sizes))


def is_whole(checkpoint: Path) -> bool:
    """Whether a checkpoint was sealed and every file still has its size."""
    try:
        sizes = json.loads((checkpoint / _SEAL).read_text())
        return all((checkpoint / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError):
        return False


def read_record(path: Path, kind: type[R]) -> R | None:
    """The record in a file; None where there is none. Raises InfrastructureError where it cannot be read."""
    try:
        return kind.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise refused("read", path, error) from error
    except ValidationError as error:
        raise InfrastructureError(
            f"{path} is damaged or was written by another version",
            hint="move the folder away and start anew",
        ) from error


def _differences(stored: StageManifest, wanted: StageManifest) -> list[str]:
    old = {"stage": stored.stage.value} | stored.settings
    new = {"stage": wanted.stage.value} | wanted.settings
    names = [name for name in old | new if old.get(name) != new.get(name)]
    return [f"{name} was {old.get(name)!r}, now {new.get(name)!r}" for name in names]
