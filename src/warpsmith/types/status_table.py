"""What each status of a verdict means for everyone who acts on it: the one table."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from warpsmith.types.verdict import Status


class Fault(StrEnum):
    """Whose doing a status is."""

    NOBODY = "nobody"
    SUBMISSION = "submission"
    TASK = "task"
    DEVICE = "device"
    MACHINE = "machine"


class RewardRule(StrEnum):
    """How a status is rewarded."""

    BY_SPEED = "1, 2 or 3 by speed"
    MINUS_ONE = "-1"
    ONE_BESIDE_A_STABLE_BASELINE = "1 beside a stable baseline, else none"
    NONE = "none"


@dataclass(frozen=True)
class StatusRow:
    """`exit_code` is that of a command that ends with this verdict.

    `retried`: such a verdict answers nothing. It is kept, but the same question is judged again.
    """

    reward: RewardRule
    exit_code: int
    fault: Fault
    retried: bool = False


_FAILED = StatusRow(RewardRule.MINUS_ONE, 1, Fault.SUBMISSION)

STATUS_TABLE: Mapping[Status, StatusRow] = MappingProxyType(
    {
        Status.PASSED: StatusRow(RewardRule.BY_SPEED, 0, Fault.NOBODY),
        Status.WRONG: _FAILED,
        Status.COMPILE_FAILED: _FAILED,
        Status.CRASHED: _FAILED,
        Status.TIMED_OUT: _FAILED,
        Status.CHEATED: _FAILED,
        Status.UNSTABLE: StatusRow(RewardRule.ONE_BESIDE_A_STABLE_BASELINE, 1, Fault.SUBMISSION),
        Status.TASK_REFUSED: StatusRow(RewardRule.NONE, 1, Fault.TASK),
        Status.UNSUPPORTED: StatusRow(RewardRule.NONE, 1, Fault.DEVICE),
        Status.INFRASTRUCTURE: StatusRow(RewardRule.NONE, 3, Fault.MACHINE, retried=True),
    }
)
"""One row a status."""
