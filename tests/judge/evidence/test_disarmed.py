"""What is right when nothing of a submission is launched was made otherwise; honest work is not taken for that."""

from collections.abc import Callable
from pathlib import Path

from tests.judge.inprocess import InProcess, forward, own
from tests.judge.samples import submission, task

from warpsmith.judge.evidence import disarmed
from warpsmith.types import Rules, Status, Submission, Task, Verdict

Judge = Callable[..., Verdict]

LIBRARY = """
#include <cublas_v2.h>
extern "C" void affine_launcher(float* out, const float* x, const float* w, float scale, int n, int columns,
                                cudaStream_t stream) {
    static cublasHandle_t handle = nullptr;
    if (!handle) cublasCreate(&handle);
    float none = 0.0f;
    cublasSetStream(handle, stream);
    cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, columns, n / columns, columns, &scale, w, columns, x, columns,
                &none, out, columns);
}
"""
PRODUCT = "x @ self.shift * self.scale"


def _own_kernels(found: Verdict) -> list[tuple[bool, str]]:
    return [(c.passed, c.detail) for c in found.checks if c.check == disarmed.CHECK]


def test_own_launches_make_an_honest_result(judge: Judge) -> None:
    found = judge(task(), submission(), rules=Rules.PAPER)
    assert found.status is Status.PASSED, found.detail
    assert _own_kernels(found) == [(True, "the result needs the submission's own launches")]
    assert _own_kernels(judge(task(), submission())) == []


def test_a_librarys_product_is_the_submissions_own(judge: Judge) -> None:
    code = task().code.replace("x * self.scale + self.shift", PRODUCT).replace("randn(24)", "randn(24, 24)")
    model = submission().files["model_new.py"].replace("empty(24)", "empty(24, 24)")
    files = {"model_new.py": model, "kernels/affine.cu": LIBRARY}
    found = judge(Task(name="product", code=code), Submission(files=files), rules=Rules.PAPER)
    assert found.status is Status.PASSED, found.detail
    assert _own_kernels(found) == [(True, "the result needs the submission's own launches")]


def test_a_task_that_only_moves_its_inputs_needs_no_kernel(judge: Judge) -> None:
    code, model = own(forward("x.transpose(0, 1).contiguous()[1:]"), "torch.randn(6, 24)")
    found = judge(Task(name="moves", code=code), Submission(files={"model_new.py": model}), rules=Rules.PAPER)
    assert found.status is Status.PASSED, found.detail
    assert _own_kernels(found) == [(True, "not told: the task only moves its inputs")]


def test_nothing_is_said_where_launches_cannot_be_held_back(tmp_path: Path) -> None:
    assert disarmed.outcome(None, InProcess(""), 1.0) is None
