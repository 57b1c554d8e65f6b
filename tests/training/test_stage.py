"""Folders of stages: what a kill leaves, and what goes on from it."""

import json
import math
from pathlib import Path

import pytest

from warpsmith.errors import InfrastructureError, RunLockedError, UsageError
from warpsmith.training.stage import (
    Curves,
    Stage,
    StageFolder,
    StageManifest,
    StageResult,
    is_whole,
    seal,
)
from warpsmith.training.watch import Alarm

MANIFEST = StageManifest(stage=Stage.PPO, settings={"recipe": "cpu_tiny", "steps": 4})


def checkpoint(folder: StageFolder, step: int) -> Path:
    path = folder.checkpoint(step)
    (path / "actor").mkdir(parents=True)
    (path / "actor" / "model.pt").write_bytes(b"weights")
    (path / "data.pt").write_bytes(b"loader")
    return path


def test_another_question_is_refused_and_the_same_goes_on(tmp_path: Path) -> None:
    with StageFolder(tmp_path / "ppo") as folder:
        assert folder.open(MANIFEST) is None
        with pytest.raises(RunLockedError), StageFolder(tmp_path / "ppo"):
            pass
    with StageFolder(tmp_path / "ppo") as folder:
        with pytest.raises(UsageError, match="steps was 4, now 5"):
            folder.open(MANIFEST.model_copy(update={"settings": {"recipe": "cpu_tiny", "steps": 5}}))
        assert folder.open(MANIFEST) is None
        done = folder.finish(StageResult(stage=Stage.PPO, model="m", steps=4, figures={"reward/mean": 0.5}))
    with StageFolder(tmp_path / "ppo") as folder:
        assert folder.open(MANIFEST) == done


def test_what_was_cut_short_is_removed_and_the_last_whole_one_taken(tmp_path: Path) -> None:
    with StageFolder(tmp_path) as folder:
        for step in (2, 4, 6):
            checkpoint(folder, step)
        for step in (2, 4):
            seal(folder.checkpoint(step))
            Curves(tmp_path).append(step, {"reward/mean": step / 10})
        Curves(tmp_path).append(5, {"reward/mean": 0.0})
        (folder.checkpoint(4) / "actor" / "model.pt").write_bytes(b"weig")
        assert [is_whole(folder.checkpoint(step)) for step in (2, 4, 6)] == [True, False, False]
        assert folder.prepare_resume() == 2
        assert sorted(p.name for p in (tmp_path / "checkpoints").iterdir()) == [
            "global_step_2",
            "latest_checkpointed_iteration.txt",
        ]
        assert (tmp_path / "checkpoints" / "latest_checkpointed_iteration.txt").read_text() == "2"
        assert Curves(tmp_path).rows() == [{"step": 2, "reward/mean": 0.2}]


def test_nothing_whole_means_from_the_start(tmp_path: Path) -> None:
    with StageFolder(tmp_path) as folder:
        checkpoint(folder, 3)
        (tmp_path / "checkpoints" / "latest_checkpointed_iteration.txt").write_text("3")
        assert folder.prepare_resume() == 0
        assert list((tmp_path / "checkpoints").iterdir()) == []


def test_an_empty_checkpoint_is_not_sealed(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="is empty"):
        seal(tmp_path)


def test_the_last_good_checkpoint_outlives_an_alarm(tmp_path: Path) -> None:
    with StageFolder(tmp_path) as folder:
        assert (folder.good(), folder.stopped()) == (None, None)
        for step in (1, 2):
            seal(checkpoint(folder, step))
        folder.mark_good(1)
        folder.stop(2, Alarm.MISMATCH)
        stopped = folder.stopped()
        assert folder.good() == 1
        assert stopped is not None and (stopped.step, stopped.alarm) == (2, Alarm.MISMATCH)
        (folder.checkpoint(1) / "data.pt").unlink()
        assert folder.good() is None


def test_curves_keep_what_is_no_number_and_leave_out_a_torn_line(tmp_path: Path) -> None:
    curves = Curves(tmp_path)
    assert curves.rows() == []
    curves.append(1, {"loss": math.nan, "reward/mean": 1})
    with (tmp_path / "curves.jsonl").open("a") as file:
        file.write('{"step": 2')
    (row,) = curves.rows()
    assert math.isnan(row["loss"]) and row["reward/mean"] == 1.0


def test_tensorboard_holds_the_same(tmp_path: Path) -> None:
    loader = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="needs the extra train"
    )
    curves = Curves(tmp_path)
    curves.append(1, {"a/b": 0.5, "nan": math.nan})
    curves.append(2, {"a/b": 0.75})
    read = loader.EventAccumulator(str(tmp_path / "tensorboard"))
    read.Reload()
    assert {event.step: event.value for event in read.Scalars("a/b")} == {1: 0.5, 2: 0.75}


def test_a_damaged_manifest_is_told(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(json.dumps({"stage": "ppo"}))
    with StageFolder(tmp_path) as folder, pytest.raises(InfrastructureError, match="is damaged"):
        folder.open(MANIFEST)
