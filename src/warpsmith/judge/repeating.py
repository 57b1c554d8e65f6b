"""Whose fault a lost judgement is: it is asked again, between judgements of a kernel that is known to be right."""

from collections.abc import Callable
from functools import cache

from warpsmith.types import Device, Status, Submission, Task, Verdict
from warpsmith.types.protocols import Judge, JudgeSettings, Menu

ATTEMPTS = 3
"""The first has no passed self-test before it unless an earlier judgement stands for one."""
BLAMED = 2

_TASK = """
import torch
class Model(torch.nn.Module):
    def forward(self, x, y):
        return torch.relu(2.0 * x + y)
def get_inputs():
    return [torch.randn(64, 33), torch.randn(64, 33)]
def get_init_inputs():
    return []
"""
_MODEL_NEW = """
import torch
import cuda_extension
class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        cuda_extension.axpy(x, y, out, x.numel())
        return out
"""
_KERNEL = """
__global__ void axpy(const float* x, const float* y, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = fmaxf(2.0f * x[i] + y[i], 0.0f);
}
extern "C" void axpy_launcher(const float* x, const float* y, float* out, int n, cudaStream_t stream) {
    axpy<<<(n + 255) / 256, 256, 0, stream>>>(x, y, out, n);
}
"""


@cache
def known() -> tuple[Task, Submission]:
    """A task and a submission that passes wherever anything can."""
    return Task(name="self_test", code=_TASK), Submission(
        files={"model_new.py": _MODEL_NEW, "kernels/axpy.cu": _KERNEL}
    )


class RepeatingJudge:
    """Asks `judge` again, after `renew`, where a judgement ended as `infrastructure`.

    `renew` gives the next judgement another worker. One that is lost on two workers which each judged a known kernel
    rightly before and after it is the submission's doing: `crashed`, so that ending the judge buys nothing. Where a
    known kernel is not judged rightly it stays `infrastructure`. For one thread at a time, as the judge itself.
    """

    def __init__(self, judge: Judge, renew: Callable[[Device], None]):
        self._judge, self._renew = judge, renew
        self._proven = False
        """The last judgement was a verdict: nothing was amiss then."""

    def judge(self, task: Task, submission: Submission, settings: JudgeSettings) -> Verdict:
        """One verdict. Raises InfrastructureError as `judge` does, which is never asked again."""
        healthy = 0
        for attempt in range(ATTEMPTS):
            before = self._proven if attempt == 0 else True
            verdict = self._judge.judge(task, submission, settings)
            self._proven = verdict.status is not Status.INFRASTRUCTURE
            if self._proven:
                return verdict
            if not self._passes(settings):
                return verdict
            healthy += before
            if healthy >= BLAMED:
                return _blamed(verdict)
            if not self._renewed(settings):
                return verdict
        return verdict

    def _renewed(self, settings: JudgeSettings) -> bool:
        self._renew(settings.device)
        return self._passes(settings)

    def _passes(self, settings: JudgeSettings) -> bool:
        asked = JudgeSettings(device=settings.device, measure=False, baselines=Menu.PAPER)
        return self._judge.judge(*known(), asked).status is Status.PASSED


def _blamed(verdict: Verdict) -> Verdict:
    said = f"it ended the judge on {BLAMED} workers that judge other kernels rightly: {verdict.detail}"
    return verdict.model_copy(update={"status": Status.CRASHED, "detail": said})
