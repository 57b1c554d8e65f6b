"""Library steps on a GPU: every form in every precision, every algorithm of the heuristic, NaN through ReLU."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.optimizer.conftest import load_module
from tests.optimizer.samples import task
from tests.optimizer.test_conv import LAYERS
from tests.optimizer.test_conv import model_of as layers_of
from tests.optimizer.test_gemm import EPILOGUES, FORMS, LINEAR, WEIGHT
from tests.optimizer.test_gemm import model_of as products_of

from warpsmith.compile import LocalCompiler
from warpsmith.compile.toolchain import find_nvcc
from warpsmith.optimizer.build import Plan, make_plan, make_submission
from warpsmith.optimizer.capture import capture, load_task
from warpsmith.optimizer.library import CHOICES, Math
from warpsmith.optimizer.tune_library import LibraryTimer, library_variants
from warpsmith.types import CompileStatus, Device, Submission, Target

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available() or find_nvcc() is None, reason="needs an NVIDIA GPU and nvcc"
    ),
]
SIZES = {"m": 128, "n": 96, "k": 160, "b": 4}
ERROR = {Math.STRICT: 1e-5, Math.TF32: 5e-3}


def target() -> Target:
    major, minor = torch.cuda.get_device_capability()
    return Target(device=Device.CUDA, arch=f"sm_{major}{minor}")


def planned(folder: Path, model: tuple[str, ...], math: Math) -> tuple[object, Plan]:
    (folder / "task.py").write_text(task(*model))
    module = load_task(folder / "task.py")
    return module, make_plan(capture(module), math=math)


@pytest.fixture
def built(compiler: LocalCompiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., type]:
    """`ModelNew` of a submission built for this GPU."""

    def build(submission: Submission) -> type:
        result = compiler.build(submission, target())
        assert result.status is CompileStatus.OK, result.log
        extension = load_module(Path(result.build_dir) / "cuda_extension.py", "cuda_extension")
        monkeypatch.setitem(sys.modules, "cuda_extension", extension)
        path = tmp_path / "model_new.py"
        path.write_text(submission.files["model_new.py"])
        return load_module(path, "model_new").ModelNew

    return build


def errors(module: object, model_new: type) -> list[float]:
    """Relative error of each result against the reference in float64."""
    reference = module.Model().eval().double()
    new = model_new().cuda()
    new.load_state_dict(reference.float().state_dict())
    inputs = [x.cuda() for x in module.get_inputs()]
    with torch.no_grad():
        got = new(*inputs)
        expected = reference.double().cuda()(*(x.double() for x in inputs))
    return [float((g.double() - e).norm() / e.norm()) for g, e in zip(got, expected, strict=True)]


@pytest.mark.parametrize("math", [Math.STRICT, Math.TF32])
def test_products(math: Math, tmp_path: Path, built: Callable[..., type]) -> None:
    forward, inputs = products_of(list(FORMS), ["{0}"] * len(FORMS), SIZES)
    forward += ", ".join(f"({value})" for value, _ in EPILOGUES.values()).replace("a[0]", "a[-1]")
    model = (forward, f"{inputs[:-1]}, torch.randn(6, 40)]", f"{LINEAR[1]}; {WEIGHT}")
    module, plan = planned(tmp_path, model, math)
    found = errors(module, built(make_submission(plan)))
    assert max(found) < ERROR[math], dict(zip([*FORMS, *EPILOGUES], found, strict=True))
    # TF32 must be seen to be in use, where there is no small size to avoid it
    assert (max(found) > 1e-5) == (math is Math.TF32)


@pytest.mark.parametrize("math", [Math.STRICT, Math.TF32])
def test_convolutions(math: Math, tmp_path: Path, built: Callable[..., type]) -> None:
    module, plan = planned(tmp_path, layers_of(list(LAYERS), ["{0}"] * len(LAYERS)), math)
    found = errors(module, built(make_submission(plan)))
    assert max(found) < ERROR[math], dict(zip(LAYERS, found, strict=True))


def test_three_tf32_products_are_near_float32(tmp_path: Path, built: Callable[..., type]) -> None:
    model = ("return a[0] @ a[1],", "[torch.randn(4096, 4096), torch.randn(4096, 4096)]")
    found = {}
    for math in (Math.DEFAULT, Math.SPLIT, Math.TF32):
        module, plan = planned(tmp_path, model, math)
        (found[math],) = errors(module, built(make_submission(plan)))
    print("relative errors:", found)
    assert found[Math.SPLIT] < 2e-5
    assert found[Math.TF32] > 10 * found[Math.SPLIT]


def test_every_algorithm_of_the_heuristic_runs(tmp_path: Path, compiler: LocalCompiler) -> None:
    model = (
        "return torch.tanh(a[0] @ a[1]), self.c(a[2])",
        "[torch.rand(1024, 1024), torch.rand(1024, 1024), torch.rand(8, 64, 56, 56)]",
        "self.c = nn.Conv2d(64, 64, 3, padding=1)",
    )
    _, plan = planned(tmp_path, model, Math.DEFAULT)
    submission, launchers = library_variants(plan)
    assert len(launchers) == 2 * CHOICES
    result = compiler.build(submission, target())
    assert result.status is CompileStatus.OK, result.log
    extension = load_module(Path(result.build_dir) / "cuda_extension.py", "cuda_extension_variants")
    timer = LibraryTimer(plan)
    times = {name: timer(extension, name, step) for name, step in launchers.items()}
    print("milliseconds:", times)
    assert all(times[name] for name in times if name.endswith("_v0"))


def test_nan_goes_through_the_epilogue(tmp_path: Path, built: Callable[..., type]) -> None:
    """If this fails, ReLU must stay in the tail: PyTorch's own lets NaN through."""
    _, plan = planned(tmp_path, ("return F.relu(self.l(a[0])),", *LINEAR), Math.DEFAULT)
    model = built(make_submission(plan))().cuda()
    for weight in model.parameters():
        weight.fill_(1.0)
    x = torch.ones(6, 40, device="cuda")
    x[2, 3] = float("nan")
    (out,) = model(x)
    assert out.isnan().any(1).tolist() == [False, False, True, False, False, False]


def test_two_streams_do_not_share_a_workspace(tmp_path: Path, built: Callable[..., type]) -> None:
    model = ("return torch.tanh(a[0] @ a[1]),", "[torch.randn(64, 8192), torch.randn(8192, 64)]")
    module, plan = planned(tmp_path, model, Math.STRICT)
    new = built(make_submission(plan))().cuda()
    pairs = [[x.cuda() for x in module.get_inputs()] for _ in range(2)]
    streams = [torch.cuda.Stream() for _ in pairs]
    torch.cuda.synchronize()
    for _ in range(50):
        results = []
        for stream, pair in zip(streams, pairs, strict=True):
            with torch.cuda.stream(stream):
                results.append(new(*pair)[0])
        torch.cuda.synchronize()
        for pair, got in zip(pairs, results, strict=True):
            expected = torch.tanh(pair[0].double() @ pair[1].double())
            assert (got - expected).abs().max() < 1e-3
