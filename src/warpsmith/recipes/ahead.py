"""What a run over a set does before its first episode, so that judgements hold a GPU for less time."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from warpsmith.errors import InfrastructureError
from warpsmith.recipes.fleet import Fleet
from warpsmith.types import Device, Task
from warpsmith.types.protocols import JudgeSettings

ROUNDS = 2
"""Of tasks side by side, in one job: a lost worker repeats no more than these."""


def compile_ahead(
    tasks: Sequence[Task],
    settings: JudgeSettings,
    fleet: Fleet,
    *,
    at_once: int,
    gpus: int,
    told: Callable[[str], None],
) -> None:
    """Compile the baselines of `tasks`, `at_once` side by side on each of `gpus` GPUs; nothing on the simulator.

    What cannot be compiled, and a job that does not end, is told and left to the judgements.
    """
    if settings.device is not Device.CUDA:
        return
    from warpsmith.judge.warming import warm
    from warpsmith.sandbox import for_submissions

    size = ROUNDS * at_once
    batches = [tasks[first : first + size] for first in range(0, len(tasks), size)]
    pool, sandbox = fleet.station().pool, for_submissions()

    def one(batch: Sequence[Task]) -> None:
        try:
            for warmed in warm(pool, sandbox, batch, settings, at_once=at_once):
                for entry, why in warmed.problems.items():
                    told(f"{warmed.task}: {entry or 'its baselines'} not compiled ahead: {why}")
        except InfrastructureError as error:
            told(str(error))

    with ThreadPoolExecutor(gpus) as threads:
        list(threads.map(one, batches))
