"""The judgement's folder: what the service lays out and the referee reads.

job/            closed to the candidate
  job.json      RefereeJob
  task.py       the reference
  verdict.json  written by the referee, last, after every runner is gone
  runner.log    what the candidate printed
  candidate/    read-only to the candidate: model_new.py, its sources, the built cuda_extension
  share/        read-only to every runner: constructor arguments and state dicts
"""

from pathlib import Path

from warpsmith.types import Device, Record
from warpsmith.types.protocols import JudgeSettings

ENTRY = "warpsmith.judge.referee:prepare"


class RefereeSetup(Record):
    """What is known before there is anything to judge: enough to start processes."""

    device: Device
    sandbox: str
    baseline_dir: str
    """Where baselines are kept between judgements."""
    compile_cache_dir: str
    """Where torch.compile's own caches live, for baseline processes only."""
    own_paths: tuple[str, ...] = ()
    """Folders a runner must be able to read: the interpreter and its packages."""


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
        self.candidate = root / "candidate"
        self.share = root / "share"
        self.baseline = root / "baseline"

    def read_setup(self) -> RefereeSetup:
        """What was known at the start."""
        return RefereeSetup.model_validate_json(self.setup.read_text())

    def read_job(self) -> RefereeJob:
        """The job as laid out."""
        return RefereeJob.model_validate_json(self.job.read_text())
