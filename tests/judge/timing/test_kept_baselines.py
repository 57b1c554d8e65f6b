"""Which baselines are kept: what a process did by itself is, what was done to it is not."""

from pathlib import Path

import pytest

from warpsmith.errors import (
    CandidateCrashedError,
    CandidateKilledError,
    InfrastructureError,
    WarpsmithError,
)
from warpsmith.judge.timing.baselines import BaselineStore
from warpsmith.judge.timing.modes import PAPER
from warpsmith.judge.timing.scoring import Scoring
from warpsmith.types import Device, Machine
from warpsmith.types.protocols import JudgeSettings, Menu


class Runner:
    """A baseline's process that is there."""

    def await_ready(self) -> None: ...

    def close(self) -> None: ...


class Session:
    """Whose baselines all end by `error`."""

    prepares = False

    def __init__(self, error: WarpsmithError):
        self.error, self.asked = error, 0

    def baseline(self, *_: object) -> None:
        self.asked += 1
        raise self.error


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        (CandidateCrashedError("exited with status 1"), True),
        (CandidateKilledError("was ended by SIGKILL"), False),
        (InfrastructureError("did not start"), False),
    ],
)
def test_a_baseline_that_was_killed_is_tried_again_by_the_next_judgement(
    tmp_path: Path, error: WarpsmithError, kept: bool
) -> None:
    asked = []
    for _ in range(2):
        scoring = Scoring(
            JudgeSettings(device=Device.CUDA, baselines=Menu.PAPER), "t",
            Machine(device=Device.CUDA, torch="2", gpu_uuid="GPU-1", driver="580", isolation="none"),
            store=BaselineStore(tmp_path), start=lambda name: Runner(), begun=0.0,
        )  # fmt: skip
        session = Session(error)
        scoring.measure(session, None)
        asked.append(session.asked)
        assert len(scoring.problems()) == len(PAPER) and str(error) in scoring.problems()[0]
    assert asked == [len(PAPER), 0 if kept else len(PAPER)]
