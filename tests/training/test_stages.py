"""What stages hand to the trainer, and what they say of it."""

import json
from pathlib import Path

from tests.training.test_stage import checkpoint

from warpsmith.training.reports import stage_report
from warpsmith.training.stage import Curves, Stage, StageFolder, StageManifest, StageResult, seal
from warpsmith.training.stages import task_rows
from warpsmith.training.watch import Alarm
from warpsmith.types import Task


def test_rows_hold_the_task_and_its_place() -> None:
    tasks = [Task(name="a", code="x"), Task(name="b", code="y"), Task(name="a", code="x")]
    rows = [json.loads(line) for line in task_rows(tasks).splitlines()]
    assert [Task.model_validate_json(row["task"]) for row in rows] == tasks
    # the same task twice in a run is told apart by its row
    assert [row["extra_info"]["index"] for row in rows] == [0, 1, 2]


def test_a_report_says_what_was_asked_and_how_it_went(tmp_path: Path) -> None:
    with StageFolder(tmp_path) as folder:
        folder.open(StageManifest(stage=Stage.PPO, settings={"steps": 3}))
        seal(checkpoint(folder, 3))
        for step, reward in ((1, -1.0), (2, 0.0), (3, float("nan"))):
            Curves(tmp_path).append(step, {"reward/mean": reward})
        result = StageResult(stage=Stage.PPO, model="m", steps=3, figures={"samples": 7.0}, seconds=2.0)
        rows = Curves(tmp_path).rows()
        text = stage_report(folder, result, rows)
        assert "| reward/mean | -1 | 0 | no number |" in text and "- samples: 7" in text
        assert "- steps: `3`" in text and "Ended after 3 steps" in text
        stopped = result.model_copy(update={"stopped": Alarm.ENTROPY_LOW, "model": None})
        assert "**Stopped at step 3: entropy has collapsed; no checkpoint" in stage_report(
            folder, stopped, rows
        )
