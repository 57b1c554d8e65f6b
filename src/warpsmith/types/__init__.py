"""Frozen records that cross every boundary, and the protocols between layers.

A name is looked up in its module when it is first asked for: a process that runs a submission needs some of `kinds`,
and loading every record would take a fifth of its start.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warpsmith.types.base import Record, sha256_hex
    from warpsmith.types.check import (
        CHECK_VERSION,
        CheckSettings,
        Fitness,
        Purpose,
        TaskCheck,
        TaskEstimate,
        Weakness,
    )
    from warpsmith.types.compile import CompileResult, CompileStatus, KernelResources, Target
    from warpsmith.types.episode import TASK_STOPS, Episode, StopReason, Turn
    from warpsmith.types.evidence import Evidence, KernelKind, KernelSeen, OperatorSource
    from warpsmith.types.job import Attempt, Job, JobOutcome, JobResult
    from warpsmith.types.kernel_profile import KernelProfile, ProfileReport, Stall
    from warpsmith.types.kinds import BaselineKind, Device, Rules, baseline_name
    from warpsmith.types.pins import GpuPin, Pins
    from warpsmith.types.reward import Reward
    from warpsmith.types.roofline import Bound, Precision, ProductWork, Roofline
    from warpsmith.types.status_table import STATUS_TABLE, Fault, RewardRule, StatusRow
    from warpsmith.types.submission import Submission, SubmissionForm
    from warpsmith.types.task import Task, TaskRef, TaskSource
    from warpsmith.types.verdict import (
        SCHEMA_VERSION,
        Accuracy,
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
    )

__all__ = [
    "CHECK_VERSION",
    "SCHEMA_VERSION",
    "STATUS_TABLE",
    "TASK_STOPS",
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
    "Weakness",
    "baseline_name",
    "sha256_hex",
]

_WHERE = {
    "base": "Record sha256_hex",
    "check": "CHECK_VERSION CheckSettings Fitness Purpose TaskCheck TaskEstimate Weakness",
    "compile": "CompileResult CompileStatus KernelResources Target",
    "episode": "TASK_STOPS Episode StopReason Turn",
    "evidence": "Evidence KernelKind KernelSeen OperatorSource",
    "job": "Attempt Job JobOutcome JobResult",
    "kernel_profile": "KernelProfile ProfileReport Stall",
    "kinds": "BaselineKind Device Rules baseline_name",
    "pins": "GpuPin Pins",
    "reward": "Reward",
    "roofline": "Bound Precision ProductWork Roofline",
    "status_table": "STATUS_TABLE Fault RewardRule StatusRow",
    "submission": "Submission SubmissionForm",
    "task": "Task TaskRef TaskSource",
    "verdict": (
        "SCHEMA_VERSION Accuracy ByteFloor CheckOutcome ErrorStats InTurn Machine MatchedSpeedup "
        "MenuTime ModeAccuracy PaperSpeedup Phase Speedup Status TimeStats Timings Verdict"
    ),
}


def __getattr__(name: str) -> Any:
    """The record, enum or function of that name (PEP 562)."""
    for module, names in _WHERE.items():
        if name in names.split():
            value = getattr(importlib.import_module(f"{__name__}.{module}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
