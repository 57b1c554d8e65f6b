"""What happened while one policy worked on one task."""

from enum import StrEnum

from warpsmith.types.base import Device, Record, Rules
from warpsmith.types.reward import Reward


class StopReason(StrEnum):
    """Why an episode ended."""

    FINISHED = "finished"
    TURN_LIMIT = "turn_limit"
    TIME_LIMIT = "time_limit"
    POLICY_FAILED = "policy_failed"
    TASK_REFUSED = "task_refused"


class Turn(Record):
    """One step of a policy: what it did, and the submission it put before the judge, if any."""

    index: int
    note: str
    """What was rewritten, fused or tried, in one or a few lines."""
    submission_hash: str | None = None
    verdict_hash: str | None = None
    seconds: float = 0.0


class Episode(Record):
    """A finished episode. Submissions and verdicts lie in the store under their hashes."""

    episode_id: str
    policy: str
    task_hash: str
    task_name: str
    task_record_hash: str | None = None
    """Content hash of the whole `Task`, whose JSON lies in the store under it."""
    device: Device
    rules: Rules
    turns: tuple[Turn, ...]
    stop: StopReason
    best_submission_hash: str | None = None
    final_verdict_hash: str | None = None
    reward: Reward | None = None
    started_at: str
    seconds: float
