"""What happened while one policy worked on one task."""

from enum import StrEnum

from pydantic import Field

from warpsmith.types.base import Record
from warpsmith.types.kinds import Device, Rules
from warpsmith.types.llm import Usage
from warpsmith.types.reward import Reward


class StopReason(StrEnum):
    """Why an episode ended."""

    FINISHED = "finished"
    TURN_LIMIT = "turn_limit"
    TIME_LIMIT = "time_limit"
    TOKEN_LIMIT = "token_limit"
    COST_LIMIT = "cost_limit"
    CONTEXT_LIMIT = "context_limit"
    """What may not be trimmed of the conversation no longer fits the model's context."""
    DISK_LIMIT = "disk_limit"
    WORKSPACE_LOST = "workspace_lost"
    REPEATED = "repeated"
    """The model did the same again and again."""
    MODEL_UNAVAILABLE = "model_unavailable"
    """Not the model's doing: the same run, started again, goes on."""
    MODEL_REFUSED = "model_refused"
    """The model's service refuses the request, for a key, a name or an option: once mended, the run goes on."""
    MODEL_UNREADABLE = "model_unreadable"
    POLICY_FAILED = "policy_failed"
    TASK_REFUSED = "task_refused"
    TASK_UNSUPPORTED = "task_unsupported"
    """Nothing is wrong with the task, but the policy or the device cannot take it."""


TASK_STOPS = frozenset({StopReason.TASK_REFUSED, StopReason.TASK_UNSUPPORTED})
"""Ends at the task itself: nothing was worked on."""


class Turn(Record):
    """One step of a policy: what it did, and the submission it put before the judge, if any."""

    index: int
    note: str
    """What was rewritten, fused or tried, in one or a few lines."""
    submission_hash: str | None = None
    verdict_hash: str | None = None
    seconds: float = 0.0
    answer_hash: str | None = None
    """The submission that lay in the policy's folder after the turn."""
    usage: Usage | None = None
    calls: int = 0
    bad_calls: int = 0
    """Of `calls`, those of an unknown name or with arguments that do not fit."""
    left: tuple[str, ...] = ()
    """Operators of the task that the policy left to PyTorch, where it tells."""


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
    answer_submission_hash: str | None = None
    """What lay in the policy's folder at the end, judged afresh too; `best` may be another."""
    answer_verdict_hash: str | None = None
    answer_reward: Reward | None = None
    sample: int = 0
    """Which of several attempts at the task this is, from 0."""
    seed: int | None = None
    """What the policy's sampling was seeded with; None where it was not."""
    usage: Usage | None = None
    bad_calls: int = 0
    policy_settings: dict[str, str | int | float | bool | None] = Field(default_factory=dict)
    """What the policy was told of how to work."""
