"""The process in which a task's own code runs: capture, rewriting, emission and tuning; files in, one record out.

`python -m warpsmith.optimizer.worker REQUEST.json` writes `result.json` beside the request. As a pool's job the
entry point is `run`, with the folder that holds `request.json`.
"""

from __future__ import annotations

import sys
import warnings
from enum import StrEnum
from pathlib import Path

from warpsmith.errors import TaskRefusedError, TaskUnreadableError, TaskUnsupportedError
from warpsmith.optimizer.library import Math, menu
from warpsmith.types import Device, Record, Submission, Target

REQUEST, RESULT = "request.json", "result.json"
VERSION = 3
"""Part of every request, so that results of older code are not taken up again."""


class Outcome(StrEnum):
    """How the worker ended."""

    EMITTED = "emitted"
    NOTHING = "nothing"
    """Nothing in the model that we own."""
    REFUSED = "refused"
    UNSUPPORTED = "unsupported"
    UNREADABLE = "unreadable"


class Request(Record):
    """What to build. `conservative`: no algebra, no vector loads, no library calls, no tuning.

    `math`: how float32 products are computed. `fold`: what depends on weights alone goes into `prepare()`.
    """

    code: str
    device: Device
    conservative: bool = False
    math: Math = Math.DEFAULT
    fold: bool = False
    tune_budget_s: float = 20.0
    version: int = VERSION


class Result(Record):
    """What came of it; `request_hash` is the content hash of the request it answers.

    `menu`: other ways to compute float32 products that would change this submission. `foldable`: `fold` may too.
    """

    outcome: Outcome
    request_hash: str
    message: str = ""
    notes: tuple[str, ...] = ()
    kernels: int = 0
    torch_calls: int = 0
    left: tuple[str, ...] = ()
    """The operators of those calls, each once."""
    menu: tuple[Math, ...] = ()
    foldable: bool = False
    submission: Submission | None = None


def run(folder: str) -> None:
    """Answer `request.json` in `folder` with `result.json`."""
    place = Path(folder)
    request = Request.model_validate_json((place / REQUEST).read_text())
    warnings.simplefilter("ignore")
    try:
        result = solve(request, place)
    except TaskUnreadableError as error:
        result = _failed(request, Outcome.UNREADABLE, error)
    except TaskRefusedError as error:
        result = _failed(request, Outcome.REFUSED, error)
    except TaskUnsupportedError as error:
        result = _failed(request, Outcome.UNSUPPORTED, error)
    except SystemExit as error:
        # ours is never raised here: the task's own code wants this process to end
        refusal = TaskRefusedError(f"the task ends the process that it runs in (SystemExit: {error})")
        result = _failed(request, Outcome.REFUSED, refusal)
    # written whole, then named: a killed worker leaves no half answer
    partial = place / f"{RESULT}.partial"
    partial.write_text(result.model_dump_json())
    partial.replace(place / RESULT)


def solve(request: Request, folder: Path) -> Result:
    """Capture, plan, tune and emit. Raises the task errors."""
    from warpsmith.optimizer.build import make_plan, make_submission
    from warpsmith.optimizer.capture import capture, load_task
    from warpsmith.optimizer.fold import may_fold

    path = folder / "task.py"
    path.write_text(request.code)
    plan = make_plan(
        capture(load_task(path)), conservative=request.conservative, math=request.math, fold=request.fold
    )
    if request.device is Device.CUDA and not request.conservative:
        from warpsmith.compile import LocalCompiler
        from warpsmith.optimizer.tune import CudaTimer, tune
        from warpsmith.optimizer.tune_library import LibraryTimer, tune_libraries

        compiler, target, budget_s = LocalCompiler(), _target(), request.tune_budget_s
        if plan.products:
            plan = tune_libraries(plan, compiler, target, LibraryTimer(plan), budget_s)
        if plan.launches:
            plan = tune(plan, compiler, target, CudaTimer(plan), budget_s)
    submission = make_submission(plan)
    return Result(
        outcome=Outcome.NOTHING if submission is None else Outcome.EMITTED,
        request_hash=request.content_hash,
        notes=tuple(plan.notes),
        kernels=len(plan.launches),
        torch_calls=len(plan.calls),
        left=plan.left,
        menu=menu([step.spec for step in plan.products], request.math),
        foldable=not request.fold and may_fold(plan.program, plan.steps),
        submission=submission,
    )


def _target() -> Target:
    import torch

    major, minor = torch.cuda.get_device_capability()
    return Target(device=Device.CUDA, arch=f"sm_{major}{minor}")


def _failed(request: Request, outcome: Outcome, error: Exception) -> Result:
    return Result(outcome=outcome, request_hash=request.content_hash, message=str(error))


if __name__ == "__main__":
    run(str(Path(sys.argv[1]).parent))
