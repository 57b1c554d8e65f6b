"""Runs a candidate under an instrument that watches its memory accesses, and reads what that said.

On the simulator the submission is built with the compiler's sanitizers; on a GPU compute-sanitizer's memcheck starts
the process. In both each call is on inputs that are allocations of their own, so that their ends are seen.
"""

import dataclasses
import os
import shutil

from warpsmith.judge.instruments import memcheck
from warpsmith.judge.job import Instrument, JobFolder
from warpsmith.judge.runner.process import RunnerSpec
from warpsmith.sim import sanitizer
from warpsmith.types import CheckOutcome, Device, Status, Submission, Target, Verdict

RUNNER = "warpsmith.judge.runner.own_inputs"
_REPORT = "report"


def target(instrument: Instrument, device: Device, arch: str) -> Target:
    """What to build for."""
    return Target(device=device, arch=arch, sanitize=instrument is Instrument.SANITIZER)


def instrumented(instrument: Instrument, spec: RunnerSpec, folder: JobFolder) -> RunnerSpec:
    """The candidate's process as its instrument needs it. Raises InfrastructureError where that is not installed."""
    if instrument is Instrument.NONE:
        return spec
    folder.reports.mkdir(exist_ok=True)
    report = folder.reports / _REPORT
    environment = list(spec.environment)
    if instrument is Instrument.SANITIZER:
        variables = sanitizer.environment(report=report)
        # set inside, so that the sandbox's own programs run without; UBSan beside ASan writes to stderr alone
        env = (shutil.which("env") or "/usr/bin/env", *(f"{k}={v}" for k, v in variables.items()))
        launcher = ("/bin/sh", "-c", 'exec "$@" 2>>"$0"', f"{report}.stderr", *env)
        tools = variables["LD_PRELOAD"].split()
    else:
        launcher = memcheck.launcher(report)
        # each tensor an allocation, whose ends are then seen
        environment.append(("PYTORCH_NO_CUDA_MEMORY_CACHING", "1"))
        tools = [os.path.realpath(launcher[0])]
    return dataclasses.replace(
        spec,
        module=RUNNER,
        launcher=launcher,
        environment=tuple(environment),
        read_only=(*spec.read_only, *sorted({os.path.dirname(tool) for tool in tools})),
        # this alone of the job's folder is writable to the candidate
        writable=(*spec.writable, str(folder.reports)),
    )


def told(instrument: Instrument, verdict: Verdict, folder: JobFolder, submission: Submission) -> Verdict:
    """The verdict with what the instrument saw as one more check; a crash that it explains says so.

    The report lies where the candidate could write, so it explains a failure and never makes one.
    """
    if instrument is Instrument.NONE:
        return verdict
    report = folder.reports / _REPORT
    read = sanitizer.read_reports if instrument is Instrument.SANITIZER else memcheck.read_reports
    line = read(report, submission.files) if verdict.status is Status.CRASHED else None
    if verdict.status is Status.PASSED:
        outcome = CheckOutcome(
            check=instrument.value, passed=True, detail="no access outside memory, and none misaligned"
        )
    else:
        outcome = CheckOutcome(check=instrument.value, passed=False, detail=line or verdict.detail)
    detail = f"{instrument.value}: {line}" if line else verdict.detail
    return verdict.model_copy(update={"detail": detail, "checks": (*verdict.checks, outcome)})
