"""What a real CUPTI sees of whole judgements."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.judge.samples import KERNEL, MODEL_NEW, TASK, submission

from warpsmith.compile import LocalCompiler
from warpsmith.compile.toolchain import find_nvcc
from warpsmith.gpu.devices import list_gpus
from warpsmith.gpu.local import LocalPool, visible_gpus
from warpsmith.judge.service import LocalJudge
from warpsmith.sandbox import best_available
from warpsmith.sandbox.process import Tree
from warpsmith.types import Device, Evidence, KernelKind, Rules, Status, Submission, Task, Verdict
from warpsmith.types.protocols import JudgeSettings, Menu

pytestmark = pytest.mark.gpu

LARGE = Task(
    name="affine",
    code=TASK.replace("torch.randn(24)", "torch.randn(4096)").replace("randn(6, 24)", "randn(8192, 4096)"),
)
MODEL = MODEL_NEW.replace("torch.empty(24)", "torch.empty(4096)")
HONEST = submission(MODEL)


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Verdict]]:
    """`judge(submission, **settings)` on LARGE."""
    torch = pytest.importorskip("torch")
    gpus = visible_gpus(list_gpus(), os.environ.get("CUDA_VISIBLE_DEVICES"))
    if not gpus or torch.version.cuda is None or find_nvcc() is None:
        pytest.skip("needs an NVIDIA GPU and nvcc")
    cache: Path = tmp_path_factory.mktemp("evidence-cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WARPSMITH_CACHE", str(cache))
        compiler = LocalCompiler(cache / "compile")
        with closing(
            LocalJudge(LocalPool(Tree), compiler, best_available(), arch=gpus[0].arch, ahead=True)
        ) as local:

            def run(candidate: Submission, **settings: object) -> Verdict:
                asked = {"device": Device.CUDA, "measure": False, "baselines": Menu.PAPER, **settings}
                return local.judge(LARGE, candidate, JudgeSettings(**asked))

            yield run


def seen_in(verdict: Verdict) -> Evidence:
    assert verdict.evidence is not None and not verdict.evidence.kernels_problem, verdict.evidence
    return verdict.evidence


def test_an_own_kernel_is_all_that_runs_and_its_time_is_the_judges(judge: Callable[..., Verdict]) -> None:
    verdict = judge(HONEST, measure=True, rules=Rules.PAPER)
    assert verdict.status is Status.PASSED, verdict.detail
    seen = seen_in(verdict)
    assert [(k.kind, k.share) for k in seen.kernels] == [(KernelKind.OWN, 1.0)], seen.kernels
    assert seen.own_share == 1.0 and seen.launches_per_call == 1.0
    assert seen.consistent and seen.lost_records == 0 and seen.brackets_without_kernel == 0
    assert seen.calls > 11 and set(seen.operators) == {"aten.empty_like.default"}
    # 268 MB of traffic; the judge's time has launches in it, CUPTI's has not
    assert seen.device_ms == pytest.approx(verdict.timings.candidate.median_ms, rel=0.15)


@pytest.mark.parametrize(
    ("returned", "kind", "operator"),
    [
        ("out + 0.0", KernelKind.TORCH, "aten.add.Tensor"),
        ("torch.empty_like(out).copy_(out)", KernelKind.MEMCPY, "aten.copy_.default"),
        ("(out @ torch.eye(4096, device='cuda'))", KernelKind.CUBLAS, "aten.mm.default"),
    ],
)
def test_torchs_work_is_called_so(
    judge: Callable[..., Verdict], returned: str, kind: KernelKind, operator: str
) -> None:
    verdict = judge(submission(MODEL.replace("return out", f"return {returned}")))
    assert verdict.status is Status.PASSED, verdict.detail
    seen = seen_in(verdict)
    assert {KernelKind.OWN, kind} <= {k.kind for k in seen.kernels}, seen.kernels
    assert operator in seen.operators and 0 < seen.own_share < 1


def test_contiguous_and_fills_are_allowed_on_paper(judge: Callable[..., Verdict]) -> None:
    body = (
        "torch.zeros(8, device=x.device); x = x.t().contiguous().t().contiguous(); out = torch.zeros_like(x)"
    )
    verdict = judge(submission(MODEL.replace("out = torch.empty_like(x)", body)), rules=Rules.PAPER)
    assert verdict.status is Status.PASSED, (verdict.detail, seen_in(verdict).kernels)


def test_a_kernel_of_one_call_is_told(judge: Callable[..., Verdict]) -> None:
    kernel = KERNEL.replace(
        "    affine_kernel<<<",
        "    static int calls = 0;\n    if (++calls == 5) other<<<1, 32, 0, stream>>>(out);\n    affine_kernel<<<",
    ).replace("extern", "__global__ void other(float* out) { out[threadIdx.x] = 0; }\nextern")
    seen = seen_in(judge(submission(MODEL, kernel)))
    assert not seen.consistent
    assert seen.differences == (f"other(float*) ran in 1 of {seen.brackets} brackets",)


def test_a_profiler_of_the_submissions_own_makes_no_zero(judge: Callable[..., Verdict]) -> None:
    body = "        with torch.profiler.profile():\n            return out.view(out.shape)"
    seen = judge(submission(MODEL.replace("        return out", body))).evidence
    assert seen.kernels_problem or seen.launches_per_call == 1.0, seen
    assert seen.device_ms is None or seen.device_ms > 0
