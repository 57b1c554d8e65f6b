"""The judgement's folder: what the service lays out and the referee reads.

job/            closed to the candidate
  job.json      RefereeJob
  task.py       the reference
  built         made when candidate/ is complete: compiling and checking the task go on side by side; holds the
                names of the kernels that were compiled
  abandoned     made instead where nothing will be judged: the submission does not build, or too slowly
  in_task       names the step of the task's own code that runs now, empty between
  reports/      what the candidate's instrument said, if it has one
  verdict.json  written by the referee, last, after every runner is gone
  runner.log    what the candidate printed
  candidate/    read-only to the candidate: model_new.py, its sources, the built cuda_extension
  share/        read-only to every runner: constructor arguments and state dicts
"""

import json
from enum import StrEnum
from pathlib import Path

from warpsmith.types import Device, Record
from warpsmith.types.protocols import JudgeSettings

_SOURCES = (".py", ".cu", ".cuh", ".h", ".hpp", ".cpp", ".cc", ".inl")
ENTRY = "warpsmith.judge.referee:prepare"


class Instrument(StrEnum):
    """What watches a candidate's memory accesses: a sanitized build on the simulator, compute-sanitizer on a GPU."""

    NONE = "none"
    SANITIZER = "sanitizer"
    MEMCHECK = "memcheck"


class RefereeSetup(Record):
    """What is known before there is anything to judge: enough to start processes."""

    device: Device
    sandbox: str
    baseline_dir: str
    """Where baselines are kept between judgements."""
    compile_cache_dir: str
    """Where torch.compile's own caches live, for baseline processes only."""
    observer_dir: str = ""
    """Where the observer's libraries are kept; without it nothing is observed natively."""
    own_paths: tuple[str, ...] = ()
    """Folders a runner must be able to read: the interpreter and its packages."""
    instrument: Instrument = Instrument.NONE
    """What the candidate runs under."""
    forks: str = ""
    """The address of a `ForkServer`; without one every runner is started anew."""


class RefereeJob(Record):
    """One judgement, compile done."""

    task_hash: str
    task_name: str
    submission_hash: str
    settings: JudgeSettings


class JobFolder:
    """Paths inside a job's folder."""

    def __init__(self, root: Path):
        self.root = root
        self.setup = root / "setup.json"
        self.job = root / "job.json"
        self.task = root / "task.py"
        self.verdict = root / "verdict.json"
        self.progress = root / "progress"
        self.built = root / "built"
        self.abandoned = root / "abandoned"
        self.reports = root / "reports"
        self.candidate = root / "candidate"
        self.share = root / "share"
        self.observer = self.share / "observer"
        self.baseline = root / "baseline"

    def candidate_sources(self) -> dict[str, str]:
        """The submission's files by path; the generated binding is none of them."""
        files = [path for path in sorted(self.candidate.rglob("*")) if path.suffix in _SOURCES]
        return {
            str(path.relative_to(self.candidate)): path.read_text(errors="replace")
            for path in files
            if path.name != "cuda_extension.py"
        }

    def own_kernels(self) -> frozenset[str]:
        """Names of the kernels that the submission's build made, as a person reads them; known once it is there."""
        return frozenset(json.loads(self.built.read_text() or "[]"))

    def read_setup(self) -> RefereeSetup:
        """What was known at the start."""
        return RefereeSetup.model_validate_json(self.setup.read_text())

    def read_job(self) -> RefereeJob:
        """The job as laid out."""
        return RefereeJob.model_validate_json(self.job.read_text())
