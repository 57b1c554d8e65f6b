"""The one place that turns errors into verdicts."""

from warpsmith.errors import (
    CandidateCrashedError,
    CandidateTimedOutError,
    CheatingError,
    CompileFailedError,
    InfrastructureError,
    SubmissionUnreadableError,
    SubmissionUnsupportedError,
    TaskRefusedError,
    TaskUnreadableError,
    TaskUnsupportedError,
    WarpsmithError,
    WrongResultError,
)
from warpsmith.types import CompileStatus, Phase, Status, Verdict
from warpsmith.types.protocols import JudgeSettings

STATUS_OF: dict[type[WarpsmithError], Status] = {
    WrongResultError: Status.WRONG,
    CompileFailedError: Status.COMPILE_FAILED,
    SubmissionUnreadableError: Status.COMPILE_FAILED,
    CandidateCrashedError: Status.CRASHED,
    CandidateTimedOutError: Status.TIMED_OUT,
    CheatingError: Status.CHEATED,
    TaskRefusedError: Status.TASK_REFUSED,
    TaskUnreadableError: Status.TASK_REFUSED,
    TaskUnsupportedError: Status.UNSUPPORTED,
    SubmissionUnsupportedError: Status.UNSUPPORTED,
    InfrastructureError: Status.INFRASTRUCTURE,
}

COMPILE_STATUS: dict[CompileStatus, Status] = {
    CompileStatus.FAILED: Status.COMPILE_FAILED,
    CompileStatus.UNSUPPORTED: Status.UNSUPPORTED,
    CompileStatus.TIMED_OUT: Status.COMPILE_FAILED,
}


def status_of(error: WarpsmithError) -> Status:
    """The status for an error's class; an error with no entry is infrastructure's."""
    return next((STATUS_OF[c] for c in type(error).__mro__ if c in STATUS_OF), Status.INFRASTRUCTURE)


def failed(
    cause: WarpsmithError,
    phase: Phase,
    *,
    task_hash: str,
    submission_hash: str,
    settings: JudgeSettings,
    **fields: object,
) -> Verdict:
    """The verdict for an error, `cause`; `fields` are what had been measured before it."""
    detail = str(cause) if cause.hint is None else f"{cause} ({cause.hint})"
    return Verdict(
        status=status_of(cause),
        device=settings.device,
        rules=settings.rules,
        task_hash=task_hash,
        submission_hash=submission_hash,
        phase=phase,
        detail=detail,
        **fields,
    )
