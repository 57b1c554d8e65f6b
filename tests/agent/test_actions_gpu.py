"""On a GPU: what a model's shell is answered by the judge, the roofline, Nsight Compute and memcheck."""

from collections.abc import Iterator

import pytest
from tests.judge.test_on_gpu import HONEST, TASK

from warpsmith.agent.actions import Actions, JudgeService
from warpsmith.agent.actions_desk import Desk
from warpsmith.agent.actions_workspace import AgentWorkspace
from warpsmith.agent.context import ToolContext
from warpsmith.agent.tools import call
from warpsmith.gpu.devices import list_gpus
from warpsmith.judge.instruments import memcheck, ncu_table
from warpsmith.judge.instruments.ncu_job import NOT_PERMITTED
from warpsmith.recipes.fleet import LocalFleet
from warpsmith.sandbox import best_available
from warpsmith.types import Device
from warpsmith.types.protocols import JudgeSettings, Menu
from warpsmith.workspace.template import environment

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolContext]:
    """A model's shell in a workspace that holds an honest submission, with a fleet's judge and instruments behind."""
    if not list_gpus():
        pytest.skip("needs a GPU")
    folder = tmp_path_factory.mktemp("agent")
    workspace = AgentWorkspace.lay_out(TASK, folder / "w")
    for path, code in HONEST.files.items():
        (workspace.root / path).parent.mkdir(exist_ok=True)
        (workspace.root / path).write_text(code)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WARPSMITH_CACHE", str(folder / "cache"))
        with LocalFleet(Device.CUDA, 1) as fleet:
            s = fleet.station()
            settings = JudgeSettings(device=Device.CUDA, baselines=Menu.PAPER)
            service = JudgeService(TASK, s.judge, s.compiler, s.target, settings, s.sanitizing, s.profiler)
            confined = ToolContext(workspace.root, best_available(), env=environment(workspace.root))
            with Desk(Actions(workspace, service)), confined as context:
                yield context


def ask(shell: ToolContext, script: str) -> str:
    """What one of the workspace's scripts prints for the model."""
    return call("Bash", {"command": script, "timeout": 300_000}, shell).text


def test_built_verified_and_timed(shell: ToolContext) -> None:
    assert ask(shell, "bash utils/compile.sh").startswith("Compile success")
    assert ask(shell, "sudo python3 -m utils.verification").startswith("[PASS] verify success")
    said = ask(shell, "sudo python3 -m utils.profiling")
    assert "Torch Baseline: " in said and "CUDA Extension: " in said and "over torch.compile" in said
    assert "rowscale" in said and "Byte floor: " in said


def test_the_roofline(shell: ToolContext) -> None:
    said = ask(shell, "python3 -m utils.roofline")
    assert "Limit: compute" in said and "of the roofline" in said and "GB/s" in said


def test_nsight_compute(shell: ToolContext) -> None:
    if ncu_table.find() is None:
        pytest.skip("ncu is not installed")
    said = ask(shell, "python3 -m utils.ncu")
    if NOT_PERMITTED in said:
        pytest.skip(NOT_PERMITTED)
    assert said.startswith("Nsight Compute, a mean launch of each kernel")
    assert "rowscale(float4 *" in said and "DRAM " in said and "  waits " in said


def test_memcheck(shell: ToolContext) -> None:
    if memcheck.find() is None:
        pytest.skip("needs compute-sanitizer")
    said = ask(shell, "python3 -m utils.sanitize")
    # the task is too large for the simulator's sanitizer
    assert said.startswith("sanitizer: not run: the simulator cannot run the task")
    assert "memcheck: no access outside memory, and none misaligned\n[PASS]" in said
    kernel = shell.workspace.root / "kernels" / "rowscale.cu"
    honest = kernel.read_text()
    kernel.write_text(honest.replace("__stcs(&out[row + i],", "__stcs(&out[row + i + 1],"))
    said = ask(shell, "python3 -m utils.sanitize")
    kernel.write_text(honest)
    assert said.startswith("[FAIL]") and "rowscale" in said and "outside global memory" in said
