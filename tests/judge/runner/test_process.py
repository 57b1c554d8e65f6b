"""A runner that is slow in every answer runs out of time itself, not its judge."""

import time

import pytest

from warpsmith.errors import CandidateTimedOutError
from warpsmith.judge.runner.channel import ChannelTimeout
from warpsmith.judge.runner.process import RunnerProcess


class SlowChannel:
    """Answers after `each_s` seconds, where it may take that long."""

    each_s = 0.03

    def receive_bytes(self, timeout_s: float) -> tuple[bytes, list[int]]:
        time.sleep(min(timeout_s, self.each_s))
        if timeout_s < self.each_s:
            raise ChannelTimeout
        return b"{}", []


class SlowRunner(RunnerProcess):
    """Without a process."""

    def __init__(self, patience_s: float):
        self.name, self._channel, self.patience_s = "the candidate", SlowChannel(), patience_s


def test_patience_counts_all_answers_together() -> None:
    runner = SlowRunner(patience_s=5 * SlowChannel.each_s)
    assert runner.receive_raw(60.0) == b"{}"
    with pytest.raises(CandidateTimedOutError, match="took too long in all of its answers"):
        for _ in range(5):
            runner.receive_raw(60.0)
    assert runner.patience_s < SlowChannel.each_s


def test_one_answer_has_its_own_limit() -> None:
    with pytest.raises(CandidateTimedOutError, match=r"did not answer within 0.01 s"):
        SlowRunner(patience_s=60.0).receive_raw(0.01)
