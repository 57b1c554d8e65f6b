"""Whose fault it is that a runner does not answer: slow in every answer, ended, or never started."""

import time

import pytest

from warpsmith.errors import (
    CandidateCrashedError,
    CandidateKilledError,
    CandidateTimedOutError,
    InfrastructureError,
)
from warpsmith.judge.runner.channel import ChannelClosed, ChannelTimeout
from warpsmith.judge.runner.process import RunnerProcess
from warpsmith.sandbox.process import ProcessEnd
from warpsmith.types import Device


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


class EndedTree:
    """Of a process that is gone."""

    def __init__(self, number: int | None):
        self._number = number

    def wait(self, timeout_s: float) -> ProcessEnd:
        return ProcessEnd(
            0 if self._number is None else None, self._number, timed_out=False, seconds=1.0, output=""
        )

    def output(self) -> str:
        return ""


class EndedChannel:
    """To a process that is gone."""

    def __init__(self, *, on_sending: bool):
        self._on_sending = on_sending

    def send_bytes(self, data: bytes, fds: object) -> None:
        if self._on_sending:
            raise ChannelClosed

    def receive_bytes(self, timeout_s: float) -> tuple[bytes, list[int]]:
        raise ChannelClosed


class EndedRunner(RunnerProcess):
    """Without a process, after it had been given something or before."""

    def __init__(self, number: int | None, *, loaded: bool, on_sending: bool = False):
        self.name, self.device = "the candidate", Device.SIM
        self._tree, self._channel = EndedTree(number), EndedChannel(on_sending=on_sending)
        self._ready, self._device_request = loaded, None


@pytest.mark.parametrize("on_sending", [True, False])
def test_the_end_of_one_that_was_given_nothing_is_nobodys_submission(on_sending: bool) -> None:
    with pytest.raises(InfrastructureError, match=r"ended by SIGKILL .* it had been given nothing"):
        EndedRunner(9, loaded=False, on_sending=on_sending).await_ready()


@pytest.mark.parametrize(
    ("number", "kind"),
    [(9, CandidateKilledError), (11, CandidateCrashedError), (None, CandidateCrashedError)],
)
def test_the_end_of_one_that_was_given_a_submission_is_that_submissions(
    number: int | None, kind: type
) -> None:
    with pytest.raises(CandidateCrashedError) as raised:
        EndedRunner(number, loaded=True).ask("call", 1.0)
    assert type(raised.value) is kind
