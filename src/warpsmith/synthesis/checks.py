"""One task through the gates, cheap ones first, in a process that is meant for it.

On the CPU at sizes that take milliseconds; on a GPU at full size by `admission.check_task`, which also times it.
"""

import gc
import time
from pathlib import Path

import torch

from warpsmith.errors import (
    InfrastructureError,
    TaskError,
    TaskRefusedError,
    TaskUnreadableError,
    TaskUnsupportedError,
)
from warpsmith.judge.admission import fitness
from warpsmith.judge.admission.check_task import SEED, SYNTHESIZED_MS, check_task, idle_parameters
from warpsmith.judge.admission.rough_times import Turns
from warpsmith.judge.reference.model import Reference
from warpsmith.synthesis.cost import CostModel, look
from warpsmith.synthesis.jumps import jumps
from warpsmith.synthesis.labels import not_run
from warpsmith.synthesis.records import FILTER_VERSIONS, ComposedTask, FilterRow, GpuTimes, Origin, Reject
from warpsmith.synthesis.smaller import smaller
from warpsmith.tasks.user_file import check_source
from warpsmith.types import (
    CheckSettings,
    Device,
    Fitness,
    Purpose,
    Task,
    TaskCheck,
    TaskSource,
    Weakness,
    sha256_hex,
)

GPU = "H200"
"""Tasks that come without an estimate get one of this GPU."""
MAX_PEAK_BYTES = 48 * 1024**3
"""Memory that a task may take at full size: half of a common card's."""
BY_WEAKNESS = {
    Weakness.RAISES: Reject.RAISES,
    Weakness.NOT_JUDGEABLE: Reject.NOT_JUDGEABLE,
    Weakness.NOT_FINITE: Reject.NOT_FINITE,
    Weakness.ZERO_OUTPUT: Reject.CONSTANT_OUTPUT,
    Weakness.CONSTANT_OUTPUT: Reject.CONSTANT_OUTPUT,
    Weakness.RANDOM: Reject.RANDOM,
    Weakness.DRAWS_STATE: Reject.RANDOM,
    Weakness.UNWRITTEN_MEMORY: Reject.UNWRITTEN_MEMORY,
    Weakness.INDISTINGUISHABLE: Reject.INDISTINGUISHABLE,
    Weakness.ZEROS_PASS: Reject.ZEROS_PASS,
    Weakness.COPY_PASSES: Reject.COPY_PASSES,
    Weakness.IDLE_INPUT: Reject.IDLE_INPUT,
    Weakness.IDLE_PARAMETER: Reject.IDLE_PARAMETER,
    Weakness.ROUNDING_NOISE: Reject.ROUNDING_NOISE,
    Weakness.OUTSIDE_TIME: Reject.OUTSIDE_TIME,
    Weakness.NO_COMPILE: Reject.COMPILE_FAILS,
}


class _RejectedError(Exception):
    def __init__(self, rejects: tuple[Reject, ...], detail: str):
        super().__init__(detail)
        self.rejects = rejects


def check(task: ComposedTask, device: Device, folder: Path, turns: Turns | None = None) -> FilterRow:
    """What the gates say; never raises for what the task's code does in Python. `turns`: on a GPU with others."""
    begun = time.perf_counter()
    rejects: tuple[Reject, ...] = ()
    detail, checked, times, cost = "", None, None, None
    try:
        _cheap(task)
        if device is Device.SIM:
            if task.cost is None:
                cost = CostModel.of(GPU).estimate(look(task.code))
                _within(cost.eager_ms, cost.peak_bytes)
            checked = _on_cpu(task, folder)
        else:
            times = _on_gpu(task, folder, turns)
    except _RejectedError as error:
        rejects, detail = error.rejects, str(error)
    except TaskUnsupportedError as error:
        rejects, detail = (Reject.TOO_LARGE_TO_CHECK,), str(error)
    except TaskError as error:
        rejects, detail = (Reject.RAISES,), str(error)
    except InfrastructureError as error:
        rejects, detail = (Reject.INFRASTRUCTURE,), str(error)
    return FilterRow(
        task_hash=task.task_hash, device=device, filter_version=FILTER_VERSIONS[device],
        rejects=tuple(sorted(rejects, key=list(Reject).index)), detail=detail[:300], checked_hash=checked,
        times=times, cost=cost,
        seconds=round(time.perf_counter() - begun, 4),
    )  # fmt: skip


def _cheap(task: ComposedTask) -> None:
    """What the text alone says."""
    try:
        check_source(task.code, task.name)
    except TaskUnreadableError as error:
        raise _RejectedError((Reject.UNREADABLE,), str(error)) from error
    if task.provenance.origin not in (Origin.BLOCK, Origin.USER) and (wrong := not_run(task.ops, task.code)):
        raise _RejectedError((Reject.MISLABELLED,), f"its code does not run {', '.join(wrong)}")
    cost = task.cost
    if cost is not None:
        _within(cost.eager_ms, cost.peak_bytes)


def _within(eager_ms: float, peak_bytes: int) -> None:
    low, high = SYNTHESIZED_MS
    if not low <= eager_ms <= high:
        raise _RejectedError((Reject.OUTSIDE_TIME,), f"estimated {eager_ms:.3g} ms eager")
    if peak_bytes > MAX_PEAK_BYTES:
        raise _RejectedError((Reject.OUTSIDE_MEMORY,), f"estimated {peak_bytes / 1024**3:.1f} GiB")


def _on_cpu(task: ComposedTask, folder: Path) -> str:
    """Admission at sizes that the CPU can run; gives the hash of the text that ran."""
    text, full = smaller(task.code)
    if full.error:
        raise _RejectedError((Reject.RAISES,), full.error)
    if text is None:
        raise _RejectedError((Reject.TOO_LARGE_TO_CHECK,), "no smaller sizes were found that run")
    path = folder / "task.py"
    path.write_text(text)
    reference = Reference.load(text, path, "cpu")
    model = reference.new_model(SEED, reference.init_args())
    found = fitness.examine(reference, model)
    rejects = [BY_WEAKNESS[kind] for kind in found.weaknesses]
    said = [*found.problems, *found.flags]
    if not rejects:
        inputs = reference.draw_inputs(SEED)
        idle, _ = idle_parameters(reference, model, inputs, reference.forward(model, inputs, seed=SEED))
        if idle:
            rejects.append(Reject.IDLE_PARAMETER)
            said.append(", ".join(idle[:4]))
        elif jumps(reference, model, inputs, seed=SEED):
            rejects.append(Reject.JUMPS)
            said.append("the output jumps where the inputs move by a thousandth")
    if rejects:
        raise _RejectedError(tuple(dict.fromkeys(rejects)), "; ".join(said))
    return sha256_hex(text)


def _on_gpu(task: ComposedTask, folder: Path, turns: Turns | None) -> GpuTimes:
    """Admission, eager and torch.compile's times at full size on the GPU that this process sees first."""
    rows: list[TaskCheck] = []
    path = folder / "task.py"
    path.write_text(task.code)
    whole = Task(name=task.name, code=task.code, source=TaskSource.SYNTHESIZED)
    settings = CheckSettings(device=Device.CUDA, purpose=Purpose.TRAINING)
    torch._dynamo.reset()  # what it compiled for the task before
    gc.collect()
    gc.freeze()  # what is left stays, and no collection during a turn looks at it again
    check_task(whole, settings, path, rows.append, turns)
    row = rows[-1]
    if row.fitness is not Fitness.FIT:
        rejects = tuple(dict.fromkeys(BY_WEAKNESS[kind] for kind in row.weaknesses))
        if row.fitness is Fitness.UNSUPPORTED:
            rejects = (Reject.OUTSIDE_MEMORY,)
        raise _RejectedError(rejects or (Reject.RAISES,), "; ".join((*row.problems, *row.notes)))
    found = row.estimate
    if found is None or found.eager_ms is None:
        raise TaskRefusedError("it was not timed")
    if found.compile_ms is None:
        raise _RejectedError((Reject.OUTSIDE_MEMORY,), "torch.compile ran out of memory")
    if found.peak_bytes is not None and found.peak_bytes > MAX_PEAK_BYTES:
        raise _RejectedError((Reject.OUTSIDE_MEMORY,), f"{found.peak_bytes / 1024**3:.1f} GiB")
    name = torch.cuda.get_device_name()
    return GpuTimes(
        gpu=name, torch=torch.__version__, eager_ms=found.eager_ms, compile_ms=found.compile_ms,
        peak_bytes=found.peak_bytes,
    )  # fmt: skip
