"""One hierarchy of errors. Each class names the boundary that was crossed.

Only `warpsmith.judge.verdict` turns these into verdicts, and only `warpsmith.cli` turns them into exit codes;
neither ever looks at the text of a message.
"""


class WarpsmithError(Exception):
    """Base class. `str(error)` is one line for a person; `hint` says what to do about it."""

    def __init__(self, message: str, *, hint: str | None = None):
        super().__init__(message)
        self.hint = hint


class UsageError(WarpsmithError):
    """The command or call was wrong: a path that does not exist, an unknown policy, clashing options."""


class TaskError(WarpsmithError):
    """The task's fault."""


class TaskUnreadableError(TaskError):
    """The task file cannot be read as a task at all (missing, binary, syntax error, no `Model`)."""


class TaskRefusedError(TaskError):
    """The task can be read but is unfit to be judged (random, constant, raises, no tensor inputs)."""


class TaskUnsupportedError(TaskError):
    """The task is fine, but not on this device (too large for `sim`, needs an operator it lacks)."""


class SubmissionError(WarpsmithError):
    """The submission's fault."""


class SubmissionUnreadableError(SubmissionError):
    """The submission is not one of the known forms (no `model_new.py`, unsafe path, too large, not text)."""


class CompileFailedError(SubmissionError):
    """The submission does not build. `log` holds the compiler's output, errors first."""

    def __init__(self, message: str, *, log: str = "", hint: str | None = None):
        super().__init__(message, hint=hint)
        self.log = log


class SubmissionUnsupportedError(SubmissionError):
    """The submission uses something this device cannot run (inline PTX on `sim`)."""


class WrongResultError(SubmissionError):
    """Interface, shape, dtype or value differs from the reference."""


class CandidateCrashedError(SubmissionError):
    """The candidate raised, exited or was killed before it completed."""


class CandidateKilledError(CandidateCrashedError):
    """SIGKILL ended it: somebody outside, or the kernel for want of memory."""


class CandidateTimedOutError(SubmissionError):
    """The candidate did not answer in time."""


class CheatingError(WarpsmithError):
    """A check saw the submission cheat. `check` names it."""

    def __init__(self, message: str, *, check: str, hint: str | None = None):
        super().__init__(message, hint=hint)
        self.check = check


class InfrastructureError(WarpsmithError):
    """Ours or the machine's fault: no compiler, a full disk, a lost worker, a broken GPU."""


class ModelUnavailableError(InfrastructureError):
    """A language model's service gave no answer though it was asked again: timeouts, rate limits, its own errors."""


class ModelReplyError(InfrastructureError):
    """A language model's service answered what cannot be read, though it was asked again."""


class RequestRefusedError(InfrastructureError):
    """A language model's service refused the request itself; asking again would not help."""


class ContextFullError(RequestRefusedError):
    """The conversation is longer than the model takes."""


class UntrainableError(WarpsmithError):
    """An episode that a trainer cannot learn from: it lacks token ids, or holds nothing that the model wrote."""


class MissingExtraError(InfrastructureError):
    """A command needs an optional dependency that is not installed."""


class RunLockedError(UsageError):
    """Another process is writing to this run folder."""
