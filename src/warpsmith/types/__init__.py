"""Frozen records that cross every boundary, and the protocols between layers."""

from warpsmith.types.base import Device, Record, Rules, sha256_hex
from warpsmith.types.check import (
    CHECK_VERSION,
    CheckSettings,
    Fitness,
    Purpose,
    TaskCheck,
    TaskEstimate,
)
from warpsmith.types.compile import CompileResult, CompileStatus, KernelResources, Target
from warpsmith.types.episode import Episode, StopReason, Turn
from warpsmith.types.job import Job, JobOutcome, JobResult
from warpsmith.types.reward import Reward
from warpsmith.types.status_table import STATUS_TABLE, Fault, RewardRule, StatusRow
from warpsmith.types.submission import Submission, SubmissionForm
from warpsmith.types.task import Task, TaskSource
from warpsmith.types.verdict import (
    SCHEMA_VERSION,
    ByteFloor,
    CheckOutcome,
    ErrorStats,
    Machine,
    MatchedSpeedup,
    PaperSpeedup,
    Phase,
    Speedup,
    Status,
    TimeStats,
    Timings,
    Verdict,
)

__all__ = [
    "CHECK_VERSION",
    "SCHEMA_VERSION",
    "STATUS_TABLE",
    "ByteFloor",
    "CheckOutcome",
    "CheckSettings",
    "CompileResult",
    "CompileStatus",
    "Device",
    "Episode",
    "ErrorStats",
    "Fault",
    "Fitness",
    "Job",
    "JobOutcome",
    "JobResult",
    "KernelResources",
    "Machine",
    "MatchedSpeedup",
    "PaperSpeedup",
    "Phase",
    "Purpose",
    "Record",
    "Reward",
    "RewardRule",
    "Rules",
    "Speedup",
    "Status",
    "StatusRow",
    "StopReason",
    "Submission",
    "SubmissionForm",
    "Target",
    "Task",
    "TaskCheck",
    "TaskEstimate",
    "TaskSource",
    "TimeStats",
    "Timings",
    "Turn",
    "Verdict",
    "sha256_hex",
]
