"""Takes composed tasks through the gates in long-lived processes, and goes on where it stopped."""

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from warpsmith.gpu.devices import GpuInfo, list_gpus
from warpsmith.gpu.leases import lease_gpu
from warpsmith.gpu.local import visible_gpus
from warpsmith.store.record_log import RecordLog
from warpsmith.synthesis.filter_workers import GpuTurns, Until, WorkerProcess, rows_of
from warpsmith.synthesis.records import FILTER_VERSIONS, ComposedTask, FilterRow, Reject
from warpsmith.synthesis.turns import UntilWanted
from warpsmith.types import Device

LEASE_S = 60.0
_DOUBTED = frozenset(
    {Reject.RAISES, Reject.COMPILE_FAILS, Reject.OUTSIDE_MEMORY, Reject.TIMED_OUT, Reject.CRASHED}
)
"""What a lack of memory or time in company can cause; one process by itself says it."""
_IN_COMPANY = 0.9
"""Share of the time after which doubted tasks are checked, where there are any."""


class FilterLog(RecordLog[FilterRow]):
    """What was said of each task, by its hash and the device."""

    def __init__(self, path: Path):
        super().__init__(path, FilterRow, lambda row: f"{row.task_hash} {row.device}")

    def find(self, task: ComposedTask, device: Device) -> FilterRow | None:
        """The row of the gates as they are now; one that was lost answers nothing."""
        row = self.get(f"{task.task_hash} {device}")
        if (
            row is None
            or row.filter_version != FILTER_VERSIONS[device]
            or Reject.INFRASTRUCTURE in row.rejects
        ):
            return None
        return row


def filter_tasks(
    tasks: Sequence[ComposedTask],
    log: FilterLog,
    device: Device,
    *,
    workers: int = 1,
    budget_s: float | None = None,
    told: Callable[[FilterRow], None] = lambda row: None,
) -> list[FilterRow]:
    """One row a task that was checked, in order; those that the log answers are not checked again.

    `workers` processes are spread over the GPUs that are visible. Ends early once `budget_s` is used up: the same
    call goes on from there. A task that ends its process or hangs is rejected, and a new process goes on. Raises
    InfrastructureError where no process starts or a GPU is in use by another run.
    """
    unique = {task.task_hash: task for task in tasks}  # the same text twice is counted by deduplication
    known = {name: row for name, task in unique.items() if (row := log.find(task, device))}
    for row in known.values():
        told(row)
    missing = [task for name, task in unique.items() if name not in known]
    until = Until(budget_s)
    company = UntilWanted(until, Until(budget_s and _IN_COMPANY * budget_s))

    def keep(row: FilterRow) -> None:
        log.append(row, durable=device is Device.CUDA)
        known[row.task_hash] = row
        told(row)

    with _gpus(device, workers if missing else 0) as gpus:
        crew = _crew(device, gpus, workers)
        doubted = []
        with contextlib.closing(rows_of(missing, crew, company if len(crew) > len(gpus) else until)) as rows:
            for row in rows:
                if len(crew) > len(gpus) and _DOUBTED & set(row.rejects):
                    doubted.append(unique[row.task_hash])
                    company.want()
                else:
                    keep(row)
        with contextlib.closing(rows_of(doubted, crew[: len(gpus)], until)) as rows:
            for row in rows:
                keep(row)
    return [known[name] for name in unique if name in known]


@contextlib.contextmanager
def _gpus(device: Device, most: int) -> Iterator[tuple[GpuInfo | None, ...]]:
    """At most so many of the visible GPUs, leased; on the CPU one that is none."""
    if device is not Device.CUDA:
        yield (None,)
        return
    left = list(visible_gpus(list_gpus(), os.environ.get("CUDA_VISIBLE_DEVICES")))
    with contextlib.ExitStack() as leases:
        leased: list[GpuInfo | None] = []
        for _ in range(min(most, max(1, len(left)))):
            gpu = leases.enter_context(lease_gpu(left, LEASE_S))
            left.remove(gpu)
            leased.append(gpu)
        yield tuple(leased)


def _crew(device: Device, gpus: Sequence[GpuInfo | None], workers: int) -> list[WorkerProcess]:
    """Processes that see one GPU each, in turns; the first ones on different GPUs."""
    turns = [GpuTurns() for _ in gpus]
    threads = max(1, (os.cpu_count() or 1) // workers) if workers > 1 else None
    return [
        WorkerProcess(device, gpu=gpus[n % len(gpus)], turns=turns[n % len(gpus)], threads=threads)
        for n in range(workers if gpus else 0)
    ]


def funnel(rows: Sequence[FilterRow]) -> dict[str, int]:
    """Tasks by the first reason of their rejection, in the order of the checks; `passed` last."""
    found = Counter(row.rejects[0] if row.rejects else None for row in rows)
    counts = {reason.value: found[reason] for reason in Reject if found[reason]}
    return {**counts, "passed": found[None]}
