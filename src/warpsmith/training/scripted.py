"""A trainer that does what a file tells it to, in verl's place: for tests and dry runs of the stages.

Started as `python -m warpsmith.training.scripted JOB.json`; `script.json` lies in the stage's folder.
"""

import errno
import json
import os
import signal
import sys
from enum import StrEnum
from pathlib import Path

from pydantic import Field, TypeAdapter

from warpsmith.training.budget import Budget
from warpsmith.training.jobs import COLLAPSED, PAUSED
from warpsmith.training.launch import Engine
from warpsmith.training.recorder import Recorder
from warpsmith.training.stage import StageFolder
from warpsmith.training.watch import WatchSettings
from warpsmith.types import Record

SCRIPTED = Engine(learner=__name__, ppo=__name__)
SCRIPT = "script.json"


class Mishap(StrEnum):
    """What happens while a checkpoint is written, the first time that it is."""

    KILLED = "killed"
    FULL_DISK = "full_disk"


class ScriptedStep(Record):
    """One step of training, whose checkpoint is saved."""

    figures: dict[str, float] = Field(default_factory=dict)
    mishap: Mishap | None = None


_SCRIPT = TypeAdapter(list[ScriptedStep])


def write_script(folder: Path, steps: list[ScriptedStep]) -> None:
    """Says what the trainer of this stage is to do."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SCRIPT).write_bytes(_SCRIPT.dump_json(steps))


def main(job: Path) -> int:
    """Trains; the exit status."""
    read = json.loads(job.read_text())
    folder = Path(read["folder"])
    stage, steps = StageFolder(folder), _SCRIPT.validate_json((folder / SCRIPT).read_bytes())
    budget = Budget.model_validate(read["budget"])
    recorder = Recorder(folder, WatchSettings.model_validate(read["watch"]))
    for number in range(stage.last_whole() + 1, len(steps) + 1):
        step = steps[number - 1]
        _save(stage.checkpoint(number), number, step.mishap)
        if recorder.step(number, step.figures, saved=True) is not None:
            return COLLAPSED
        if number < len(steps) and budget.spent():
            return PAUSED
    return 0


def _save(checkpoint: Path, number: int, mishap: Mishap | None) -> None:
    for model in (checkpoint / "huggingface", checkpoint / "actor" / "huggingface"):
        model.mkdir(parents=True, exist_ok=True)
        (model / "config.json").write_text(f"weights of step {number}")
    happened = checkpoint.parent.parent / f"mishap-{number}"
    if mishap is None or happened.exists():
        return
    happened.touch()
    if mishap is Mishap.KILLED:
        os.kill(os.getpid(), signal.SIGKILL)
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(checkpoint))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
