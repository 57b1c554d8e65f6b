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
from warpsmith.types.evidence import Evidence, KernelKind, KernelSeen, OperatorSource
from warpsmith.types.job import Attempt, Job, JobOutcome, JobResult
from warpsmith.types.kernel_profile import KernelProfile, ProfileReport, Stall
from warpsmith.types.pins import GpuPin, Pins
from warpsmith.types.reward import Reward
from warpsmith.types.roofline import Bound, Precision, ProductWork, Roofline
from warpsmith.types.status_table import STATUS_TABLE, Fault, RewardRule, StatusRow
from warpsmith.types.submission import Submission, SubmissionForm
from warpsmith.types.task import Task, TaskRef, TaskSource
from warpsmith.types.verdict import (
    SCHEMA_VERSION,
    Accuracy,
    BaselineKind,
    ByteFloor,
    CheckOutcome,
    ErrorStats,
    InTurn,
    Machine,
    MatchedSpeedup,
    MenuTime,
    ModeAccuracy,
    PaperSpeedup,
    Phase,
    Speedup,
    Status,
    TimeStats,
    Timings,
    Verdict,
    baseline_name,
)

__all__ = [
    "CHECK_VERSION",
    "SCHEMA_VERSION",
    "STATUS_TABLE",
    "Accuracy",
    "Attempt",
    "BaselineKind",
    "Bound",
    "ByteFloor",
    "CheckOutcome",
    "CheckSettings",
    "CompileResult",
    "CompileStatus",
    "Device",
    "Episode",
    "ErrorStats",
    "Evidence",
    "Fault",
    "Fitness",
    "GpuPin",
    "InTurn",
    "Job",
    "JobOutcome",
    "JobResult",
    "KernelKind",
    "KernelProfile",
    "KernelResources",
    "KernelSeen",
    "Machine",
    "MatchedSpeedup",
    "MenuTime",
    "ModeAccuracy",
    "OperatorSource",
    "PaperSpeedup",
    "Phase",
    "Pins",
    "Precision",
    "ProductWork",
    "ProfileReport",
    "Purpose",
    "Record",
    "Reward",
    "RewardRule",
    "Roofline",
    "Rules",
    "Speedup",
    "Stall",
    "Status",
    "StatusRow",
    "StopReason",
    "Submission",
    "SubmissionForm",
    "Target",
    "Task",
    "TaskCheck",
    "TaskEstimate",
    "TaskRef",
    "TaskSource",
    "TimeStats",
    "Timings",
    "Turn",
    "Verdict",
    "baseline_name",
    "sha256_hex",
]
