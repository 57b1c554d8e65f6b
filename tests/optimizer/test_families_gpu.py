"""The same families on a GPU at sizes where long rows, alignment and waves of blocks matter."""

import sys
from pathlib import Path

import pytest
import torch
from tests.optimizer.conftest import load_module
from tests.optimizer.samples import task
from tests.optimizer.test_numerics import plan_of

from warpsmith.compile import LocalCompiler
from warpsmith.compile.toolchain import find_nvcc
from warpsmith.optimizer.build import make_submission
from warpsmith.optimizer.tune import CudaTimer, tune
from warpsmith.types import CompileStatus, Device, Target

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available() or find_nvcc() is None, reason="needs an NVIDIA GPU and nvcc"
    ),
]
CASES = {
    "softmax_relayed": ("return torch.softmax(a[0], 1)", "[torch.randn(256, 393216)]"),
    "l1_norm_relayed": ("x = a[0]; return x / x.abs().mean(1, keepdim=True)", "[torch.rand(1024, 65535)]"),
    "layer_norm_relayed": (
        "return self.n(a[0])",
        "[torch.randn(16, 64, 256, 256)]",
        "self.n = nn.LayerNorm((64, 256, 256))",
    ),
    "sum_across_odd_rows": ("return a[0].sum(1), a[0].argmax(1)", "[torch.randn(16, 4096, 4095)]"),
    "mean_of_columns": ("return a[0].mean(0), a[0].amin(0)", "[torch.randn(100000, 256)]"),
    "cumsum": ("x = a[0]; return x.cumsum(1), x.flip(1).cumsum(1).flip(1)", "[torch.rand(2048, 32768)]"),
    "max_pool": (
        "return F.max_pool2d(a[0], 4, 1, 1), F.avg_pool2d(a[0], 3, 2, 1)",
        "[torch.randn(8, 64, 256, 256)]",
    ),
    "cross_entropy": (
        "return F.cross_entropy(a[0], a[1])",
        "[torch.randn(8192, 4096), torch.randint(0, 4096, (8192,))]",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_pytorch_tuned_on_a_gpu(name: str, tmp_path: Path) -> None:
    module, plan = plan_of(tmp_path, task(*CASES[name]))
    major, minor = torch.cuda.get_device_capability()
    compiler, target = (
        LocalCompiler(tmp_path / "builds"),
        Target(device=Device.CUDA, arch=f"sm_{major}{minor}"),
    )
    torch.manual_seed(0)
    model, inputs = module.Model().eval().cuda(), [x.cuda() for x in module.get_inputs()]
    expected = model(*inputs)
    tuned = tune(plan, compiler, target, CudaTimer(plan))
    print(name, *tuned.notes, sep="\n  ")
    for chosen in (plan, tuned):
        submission = make_submission(chosen)
        result = compiler.build(submission, target)
        assert result.status is CompileStatus.OK, result.log
        (tmp_path / "model_new.py").write_text(submission.files["model_new.py"])
        built = load_module(Path(result.build_dir) / "cuda_extension.py", "cuda_extension")
        sys.modules["cuda_extension"] = built
        try:
            new = load_module(tmp_path / "model_new.py", "model_new").ModelNew().cuda()
        finally:
            del sys.modules["cuda_extension"]
        new.load_state_dict(model.state_dict())
        for _ in range(3):
            got = new(*inputs)
            pairs = zip(expected, got, strict=True) if isinstance(expected, tuple) else [(expected, got)]
            for e, g in pairs:
                assert (e.shape, e.dtype) == (g.shape, g.dtype)
                assert float((e - g).double().norm()) <= 1e-5 * float(e.double().norm()) + 1e-6
