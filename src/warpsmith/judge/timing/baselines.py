"""Baseline times, kept between judgements and refused wherever they were not measured."""

from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from warpsmith.store.files import make_folder, write_atomic
from warpsmith.types import BaselineKind, Machine, Record, TimeStats, sha256_hex

PROTOCOL = 4
"""Raised whenever the timing protocol changes, so that older baselines are measured again."""


class BaselineIdentity(Record):
    """What a baseline's time depends on."""

    task_hash: str
    mode: str
    kind: BaselineKind
    gpu_uuid: str
    driver: str
    torch: str
    protocol: int = PROTOCOL


class Baseline(Record):
    """One measured baseline; `stats` is None where the mode does not run, `problem` says why."""

    identity: BaselineIdentity
    stats: TimeStats | None
    problem: str = ""
    measured_at: str


def identity(task_hash: str, mode: str, kind: BaselineKind, machine: Machine) -> BaselineIdentity:
    """The identity of a task's baseline on this machine."""
    return BaselineIdentity(
        task_hash=task_hash,
        mode=mode,
        kind=kind,
        gpu_uuid=machine.gpu_uuid or "",
        driver=machine.driver or "",
        torch=machine.torch or "",
    )


class BaselineStore:
    """A folder of baselines by identity."""

    def __init__(self, folder: Path):
        self.folder = folder

    def get(self, wanted: BaselineIdentity) -> Baseline | None:
        """The stored baseline, or None where there is none that was measured for exactly this identity."""
        path = self._path(wanted)
        if not path.is_file():
            return None
        try:
            found = Baseline.model_validate_json(path.read_text())
        except (ValidationError, UnicodeDecodeError):
            return None
        return found if found.identity == wanted else None

    def put(self, baseline: Baseline) -> None:
        """Store it whole or not at all. Raises InfrastructureError where the system refuses."""
        make_folder(self.folder)
        write_atomic(self._path(baseline.identity), baseline.model_dump_json(indent=1))

    def _path(self, wanted: BaselineIdentity) -> Path:
        return self.folder / f"{sha256_hex(wanted.canonical_json())}.json"


def measured(wanted: BaselineIdentity, stats: TimeStats | None, problem: str = "") -> Baseline:
    """A baseline measured now."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Baseline(identity=wanted, stats=stats, problem=problem, measured_at=now)
