"""A judge that looks for faults in memory accesses and synchronisation before it judges: `judge --sanitize`.

The simulator runs a sanitized build first, on a GPU also compute-sanitizer's memcheck where it is installed. A fault
at the task's own sizes is the verdict, and no GPU is used. At smaller sizes, where the simulator can run no other, a
fault is looked for again at the task's own, since a submission may be written for those; unconfirmed it is told and
counts for nothing.
"""

from dataclasses import dataclass

from warpsmith.errors import TaskError
from warpsmith.judge.instruments import memcheck
from warpsmith.judge.job import Instrument
from warpsmith.judge.service import LocalJudge, Progress
from warpsmith.sim import sanitizer
from warpsmith.sim.shrink import shrink
from warpsmith.types import CheckOutcome, Device, Rules, Status, Submission, Task, Verdict
from warpsmith.types.protocols import Compiler, GpuPool, Judge, JudgeSettings, Sandbox

BEFORE_GPU = "found on the simulator, before a GPU was used"
DERIVED = "sanitized at smaller sizes that the simulator can run"
_FAULTS = frozenset({Status.CRASHED, Status.WRONG})


@dataclass(frozen=True)
class _Found:
    """What the simulator said: a verdict that decides, or a check to be told beside another verdict."""

    decides: Verdict | None = None
    check: CheckOutcome | None = None
    notes: tuple[str, ...] = ()


class SanitizedJudge:
    """Judges by `judge` what shows no fault under `simulated` and, on a GPU, under `memchecked`.

    `memchecked` None: compute-sanitizer is not installed, and the verdict says so.
    """

    def __init__(self, judge: Judge, simulated: Judge, memchecked: Judge | None = None):
        self._judge, self._simulated, self._memchecked = judge, simulated, memchecked

    @classmethod
    def local(
        cls, judge: Judge, pool: GpuPool, compiler: Compiler, sandbox: Sandbox, *, arch: str = "",
        progress: Progress | None = None,
    ) -> "SanitizedJudge":  # fmt: skip
        """Instruments of this machine. Raises InfrastructureError where g++ or its libasan is not installed."""
        sanitizer.environment()

        def instrumented(instrument: Instrument) -> LocalJudge:
            return LocalJudge(pool, compiler, sandbox, arch=arch, progress=progress, instrument=instrument)

        checked = instrumented(Instrument.MEMCHECK) if arch and memcheck.find() else None
        return cls(judge, instrumented(Instrument.SANITIZER), checked)

    def judge(self, task: Task, submission: Submission, settings: JudgeSettings) -> Verdict:
        """One verdict. Raises what the judges do."""
        steps = [self._on_simulator]
        if settings.device is Device.CUDA:
            steps.append(self._on_gpu)
        checks: list[CheckOutcome] = []
        notes: list[str] = []
        for step in steps:
            found = step(task, submission, settings)
            if found.decides is not None:
                return _with(found.decides, checks, notes)
            checks += [found.check] if found.check else []
            notes += found.notes
        return _with(self._judge.judge(task, submission, settings), checks, notes)

    def _on_simulator(self, task: Task, submission: Submission, settings: JudgeSettings) -> _Found:
        name = Instrument.SANITIZER
        try:
            fitted = shrink(task)
        except TaskError as error:
            return _not_run(name, f"the simulator cannot run the task: {error}")
        own_size = fitted.task_hash == task.task_hash
        if own_size and settings.device is Device.SIM:
            return _Found(decides=self._simulated.judge(task, submission, settings))
        simulated = settings.model_copy(update={"device": Device.SIM, "rules": Rules.PRACTICAL})
        first = self._simulated.judge(fitted, submission, simulated)
        fault = first
        if first.status in _FAULTS and not own_size:
            fault = self._simulated.judge(task, submission, simulated)
        if fault.status in _FAULTS:
            return _Found(decides=_decided(fault, settings))
        derived = () if own_size else (DERIVED,)
        if first.status in _FAULTS:
            return _Found(check=_unconfirmed(first, fault), notes=(*derived, *first.notes))
        return _told(name, first, derived)

    def _on_gpu(self, task: Task, submission: Submission, settings: JudgeSettings) -> _Found:
        name = Instrument.MEMCHECK
        if self._memchecked is None:
            return _not_run(name, memcheck.MISSING)
        # what the rules forbid is for the judgement proper to see: an instrument is in the observer's way
        untimed = settings.model_copy(update={"measure": False, "rules": Rules.PRACTICAL})
        found = self._memchecked.judge(task, submission, untimed)
        if found.status in _FAULTS:
            return _Found(decides=found.model_copy(update={"rules": settings.rules}))
        return _told(name, found)


def _with(verdict: Verdict, checks: list[CheckOutcome], notes: list[str]) -> Verdict:
    return verdict.model_copy(
        update={"checks": (*verdict.checks, *checks), "notes": (*verdict.notes, *notes)}
    )


def _decided(found: Verdict, settings: JudgeSettings) -> Verdict:
    """The simulator's verdict as the answer to what was asked."""
    said = () if settings.device is Device.SIM else (BEFORE_GPU,)
    changes = {"device": settings.device, "rules": settings.rules, "notes": (*found.notes, *said)}
    return found.model_copy(update=changes)


def _told(name: Instrument, verdict: Verdict, notes: tuple[str, ...] = ()) -> _Found:
    """What a verdict that decides nothing says: passed, or how far it came."""
    if verdict.status is not Status.PASSED:
        return _not_run(name, f"{verdict.status.value}: {verdict.detail}")
    return _Found(check=next(c for c in verdict.checks if c.check == name.value), notes=notes)


def _not_run(name: Instrument, why: str) -> _Found:
    check = CheckOutcome(check=name.value, passed=True, detail=f"not run: {why}")
    return _Found(check=check, notes=(f"{name.value} did not run: {why}",))


def _unconfirmed(first: Verdict, full_size: Verdict) -> CheckOutcome:
    why = {
        Status.PASSED: "not at the task's own sizes, where the sanitized build passed",
        Status.TIMED_OUT: "the task's own sizes take the simulator too long",
    }.get(full_size.status, f"at the task's own sizes: {full_size.status.value}: {full_size.detail}")
    return CheckOutcome(
        check=Instrument.SANITIZER.value, passed=False, detail=f"at smaller sizes: {first.detail}; {why}"
    )
