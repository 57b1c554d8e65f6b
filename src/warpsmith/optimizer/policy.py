"""The built-in policy: a tuned submission at PyTorch's default accuracy, then others of the accuracy menu.

Where the first does not pass: one at full float32 accuracy, and a conservative one.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from pydantic import ValidationError

from warpsmith.errors import (
    InfrastructureError,
    TaskRefusedError,
    TaskUnreadableError,
    TaskUnsupportedError,
)
from warpsmith.optimizer.library import Math
from warpsmith.optimizer.worker import REQUEST, RESULT, Outcome, Request, Result
from warpsmith.types import Device, Job, JobOutcome, JobResult, Status, Verdict
from warpsmith.types.protocols import PolicyStep

if TYPE_CHECKING:
    from pathlib import Path

    from warpsmith.types.protocols import Environment, GpuPool

ENTRY = "warpsmith.optimizer.worker:run"
_ERRORS = {
    Outcome.REFUSED: TaskRefusedError,
    Outcome.UNSUPPORTED: TaskUnsupportedError,
    Outcome.UNREADABLE: TaskUnreadableError,
}
_FORMS = {Math.TF32: ["products in TF32"], Math.SPLIT: ["each large product as three in TF32"]}


class BuiltinPolicy:
    """Rewrites, fuses, emits and tunes; needs no language model.

    The task's own code runs in a process of `pool` (default: this machine's), never in this one, for at most
    `timeout_s` seconds. `tune_budget_s` bounds the timing of launch variants on cuda. What a process found is kept
    in the episode's folder, so that a run that was killed goes on with the same submissions.
    """

    name = "builtin"

    def __init__(
        self, *, pool: GpuPool | None = None, timeout_s: float = 600.0, tune_budget_s: float = 20.0
    ) -> None:
        self._pool = pool
        self._timeout_s = timeout_s
        self._tune_budget_s = tune_budget_s

    def solve(self, env: Environment) -> Generator[PolicyStep, Verdict | None, None]:
        """Steps with notes of what was rewritten and fused.

        Raises TaskRefusedError, TaskUnreadableError or TaskUnsupportedError for what the task's own process said of
        it, InfrastructureError where no process could run.
        """
        found = self._ask(env)
        if found.submission is None:
            kept = "; ".join(found.notes)
            yield PolicyStep(
                note="nothing in this model that the built-in policy owns" + (f": {kept}" if kept else ""),
                left=found.left,
            )
            return
        verdict = yield _step(found)
        if verdict is None or verdict.status is Status.PASSED:
            yield from self._faster(env, found)
            return
        if Math.STRICT in found.menu and env.device is Device.CUDA:
            strict = self._ask(env, math=Math.STRICT)
            if strict.submission is not None:
                note = f"the first submission ended as {verdict.status}; again without TF32: "
                exact = yield _step(strict, note)
                if exact is None or exact.status is Status.PASSED:
                    return
        careful = self._ask(env, conservative=True)
        if careful.submission is None or careful.submission == found.submission:
            return
        note = f"the first submission ended as {verdict.status}; again without algebra and vector loads: "
        yield _step(careful, note)

    def _faster(self, env: Environment, found: Result) -> Generator[PolicyStep, Verdict | None, None]:
        """Weights folded ahead, and less accurate products: the judge compares each with its like.

        The simulator knows neither time nor TF32, so that there is nothing to choose there.
        """
        if env.device is not Device.CUDA:
            return
        seen = {found.submission.submission_hash} if found.submission else set()
        forms = [(Math.DEFAULT, True)] if found.foldable else []
        for math in found.menu:
            if math is not Math.STRICT:
                forms += [(math, False), *([(math, True)] if found.foldable else [])]
        for math, fold in forms:
            other = self._ask(env, math=math, fold=fold)
            if other.submission is not None and other.submission.submission_hash not in seen:
                seen.add(other.submission.submission_hash)
                what = ["weights folded in prepare()"] * fold + _FORMS.get(math, [])
                yield _step(other, f"{' and '.join(what)}: ")

    def _ask(
        self,
        env: Environment,
        *,
        conservative: bool = False,
        math: Math = Math.DEFAULT,
        fold: bool = False,
    ) -> Result:
        request = Request(
            code=env.task.code,
            device=env.device,
            conservative=conservative,
            math=math,
            fold=fold,
            tune_budget_s=self._tune_budget_s,
        )
        folder = env.workdir / f"builtin-{request.content_hash[:12]}"
        folder.mkdir(parents=True, exist_ok=True)
        result = _read(folder, request)
        if result is None:
            (folder / REQUEST).write_text(request.model_dump_json())
            ended = self._run(
                Job(entry=ENTRY, folder=str(folder), device=env.device, timeout_s=self._timeout_s)
            )
            result = _read(folder, request)
            if result is None:
                raise _no_answer(ended, self._timeout_s)
        if result.outcome in _ERRORS:
            raise _ERRORS[result.outcome](result.message)
        return result

    def _run(self, job: Job) -> JobResult:
        if self._pool is None:
            from warpsmith.gpu import LocalPool
            from warpsmith.sandbox.process import Tree

            self._pool = LocalPool(Tree)
        return self._pool.run(job)


def _step(found: Result, note: str = "") -> PolicyStep:
    """What was written, the notes behind `note`."""
    return PolicyStep(note=note + "; ".join(found.notes), submission=found.submission, left=found.left)


def _read(folder: Path, request: Request) -> Result | None:
    """The answer to this very request, if one lies in the folder."""
    try:
        result = Result.model_validate_json((folder / RESULT).read_text())
    except (OSError, ValidationError):
        return None
    return result if result.request_hash == request.content_hash else None


def _no_answer(ended: JobResult, timeout_s: float) -> Exception:
    if ended.outcome is JobOutcome.TIMED_OUT:
        return TaskRefusedError(
            f"importing, building or exporting the model took longer than {timeout_s:g} s"
        )
    if ended.outcome in (JobOutcome.LOST, JobOutcome.CANCELLED):
        return InfrastructureError(f"the optimizer's process was {ended.outcome.value}")
    last = ended.log_tail.strip().splitlines()
    said = f": {last[-1][:200]}" if last else ""
    if ended.outcome is JobOutcome.COMPLETED:
        # a job that returns has written its answer: only the task's own code can have ended it before
        return TaskRefusedError(f"the task ended the process that captured it (exit status 0){said}")
    if ended.exit_code is None or ended.exit_code < 0:
        return TaskRefusedError(f"the task ended the process that captured it (signal or lost){said}")
    return InfrastructureError(f"the optimizer's process ended with status {ended.exit_code}{said}")
