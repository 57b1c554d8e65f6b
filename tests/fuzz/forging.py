"""Whole judgements in one process in which the candidate's answers are changed on their way.

What is compared stays what the judge itself reads from memory: no changed answer makes a wrong candidate pass, and
none makes the judge fail or blame the task.
"""

import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from tests.fuzz.mutations import CHANGES, Change, damaged
from tests.judge.inprocess import InProcess, judged, own

from warpsmith.types import Status

MODEL = """
    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(torch.randn(5))
    def forward(self, x):
        return x * 1.5 + self.shift
"""
TASK, RIGHT = own(MODEL, "torch.randn(3, 5)")
WRONG = RIGHT.replace("1.5", "1.6")
BLAMED = {Status.WRONG, Status.CRASHED, Status.TIMED_OUT, Status.CHEATED}
OPS = (
    "buffers", "load", "weights", "prepare", "arm", "observe", "call", "move",
    # these say something
    "describe", "describe", "describe", "evidence", "evidence",
)  # fmt: skip
FAILURES = ("interface", "output", "memory", "exception", "unsupported", "")


@dataclass(frozen=True)
class Forgery:
    """Changes the answers to `op` from the `first` on, so many of them."""

    op: str
    first: int
    count: int
    how: Change | bytes | str
    """A change, other bytes, `replay` for the answer before, or the kind of a failure."""

    def of(self, answer: bytes, last: bytes) -> bytes:
        """The answer as it arrives, with the number that is asked for where it is made from others."""
        if self.how == "replay":
            nonce = json.loads(answer)["nonce"]
            return json.dumps({**json.loads(last or answer), "nonce": nonce}).encode()
        if isinstance(self.how, bytes):
            return self.how
        message = json.loads(answer)
        if isinstance(self.how, str):
            failed = {"failed": self.op, "nonce": message["nonce"], "kind": self.how, "text": "forged"}
            return json.dumps(failed).encode()
        return json.dumps(self.how.of(message)).encode()


FORGERIES = st.lists(
    st.builds(
        Forgery,
        st.sampled_from(OPS),
        st.integers(0, 6),
        st.integers(1, 40),
        CHANGES | st.sampled_from(["replay", *FAILURES]) | damaged([b'{"ok":"call"}', b"{}"]),
    ),
    min_size=1,
    max_size=3,
)


def forged(forgeries: list[Forgery]) -> type[InProcess]:
    """A runner whose answers are changed so."""

    class Forged(InProcess):
        def __init__(self, code: str, recorded: bool = False):
            super().__init__(code, recorded)
            self._seen: dict[str, int] = {}
            self._op, self._last = "", b""

        def _send(self, data: bytes, fds: object) -> None:
            super()._send(data, fds)
            self._op = json.loads(data)["op"]

        def receive_raw(self, timeout_s: float) -> bytes:
            answer = self._reply
            number = self._seen[self._op] = self._seen.get(self._op, -1) + 1
            for forgery in forgeries:
                if forgery.op == self._op and forgery.first <= number < forgery.first + forgery.count:
                    answer = forgery.of(answer, self._last)
            self._last = self._reply
            return answer

    return Forged


def outcome(candidate: str, forgeries: list[Forgery]) -> Status:
    """The status of a judgement with these forgeries."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        return judged(Path(name), TASK, candidate, runner=forged(forgeries)).status


def _wrong(forgeries: list[Forgery]) -> None:
    status = outcome(WRONG, forgeries)
    assert status in BLAMED, f"a wrong candidate is {status.value}"


def _right(forgeries: list[Forgery]) -> None:
    status = outcome(RIGHT, forgeries)
    assert status in {*BLAMED, Status.PASSED}, f"a candidate that forges is {status.value}"


def forging_targets() -> Iterator[tuple[str, st.SearchStrategy, Callable[[Any], None]]]:
    """Name, examples and reader of both."""
    yield "a wrong candidate's answers", FORGERIES, _wrong
    yield "a right candidate's answers", FORGERIES, _right
