"""Choosing launch parameters, with a real build and given times."""

from collections.abc import Callable
from pathlib import Path

from tests.optimizer.samples import MODELS, task
from tests.optimizer.test_numerics import disagreement, plan_of

from warpsmith.compile import LocalCompiler
from warpsmith.optimizer.build import make_submission
from warpsmith.optimizer.tune import tune, variant_submission, variants
from warpsmith.types import Device, Submission, Target

SIM = Target(device=Device.SIM)


def test_the_fastest_variant_is_taken(tmp_path: Path, compiler: LocalCompiler) -> None:
    _, plan = plan_of(tmp_path, task("return torch.tanh(a[0]) * 2", "[torch.rand(1024, 1024)]"))
    seen: list[str] = []

    def timer(module: object, launcher: str, launch: object) -> float:
        assert callable(getattr(module, launcher))
        seen.append(launcher)
        return 1.0 if (launch.block, launch.items) == (128, 4) else 2.0

    tuned = tune(plan, compiler, SIM, timer)
    assert len(seen) == len(variants(plan, plan.launches[0])) > 4
    assert (tuned.launches[0].block, tuned.launches[0].items) == (128, 4)
    assert tuned.notes[-1].endswith("128 threads, 4 vectors of 4 a thread, 1000.0 µs by its own events")


def test_noise_does_not_choose(tmp_path: Path, compiler: LocalCompiler) -> None:
    _, plan = plan_of(tmp_path, task("return torch.tanh(a[0]) * 2", "[torch.rand(1024, 1024)]"))
    times = iter([1.0, *[0.99] * 20])
    assert tune(plan, compiler, SIM, lambda *_: next(times)).launches == plan.launches


def test_small_kernels_and_failed_builds_leave_the_plan_alone(
    tmp_path: Path, compiler: LocalCompiler
) -> None:
    _, small = plan_of(tmp_path, task("return torch.tanh(a[0])", "[torch.rand(8, 8)]"))
    assert tune(small, compiler, SIM, lambda *_: 1.0) is small
    _, large = plan_of(tmp_path, task("return torch.tanh(a[0])", "[torch.rand(1024, 1024)]"))
    never = tune(large, compiler, SIM, lambda *_: None)
    assert never.launches == large.launches


def test_every_variant_is_right(tmp_path: Path, make_module: Callable[[Submission], type]) -> None:
    for name in ("silu_bias_layernorm_gelu", "softmax_across_rows", "rms_over_channels"):
        module, plan = plan_of(tmp_path, task(*MODELS[name]))
        (launch,) = plan.launches
        submission, launchers = variant_submission(plan, [launch])
        assert submission.files["kernels/fused.cu"].count("__global__") == len(launchers)
        for variant in variants(plan, launch):
            chosen = plan.with_launches({launch.name: variant})
            assert disagreement(module, make_module(make_submission(chosen))) < 1e-6
