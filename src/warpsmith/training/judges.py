"""The judge of a training run, described so that every worker can make its own."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from warpsmith.errors import UsageError
from warpsmith.rollout import Limits
from warpsmith.rollout.scripted import ScriptedCompiler, ScriptedJudge, scripted_verdict
from warpsmith.training.collect import Workbench
from warpsmith.types import Device, Record, Status, Submission, Target, Task, Verdict
from warpsmith.types.protocols import JudgeSettings


class JudgeSpec(Record):
    """`kind` is a name in JUDGES; `arch` the GPU's, such as sm_90; `needle` what a scripted judge looks for."""

    kind: str = "local"
    settings: JudgeSettings
    arch: str = ""
    needle: str = ""


def connect_judge(spec: JudgeSpec) -> Workbench:
    """The judge that a spec describes. Raises UsageError for an unknown kind, InfrastructureError."""
    if spec.kind not in JUDGES:
        raise UsageError(f"unknown judge {spec.kind!r}", hint=f"choose one of: {', '.join(sorted(JUDGES))}")
    return JUDGES[spec.kind](spec)


def _local(spec: JudgeSpec) -> Workbench:
    from warpsmith.compile import LocalCompiler
    from warpsmith.gpu import LocalPool
    from warpsmith.judge.service import LocalJudge
    from warpsmith.sandbox import for_submissions
    from warpsmith.sandbox.process import Tree

    compiler = LocalCompiler()
    judge = LocalJudge(LocalPool(Tree), compiler, for_submissions(), arch=spec.arch)
    return Workbench(
        judge=judge,
        compiler=compiler,
        target=Target(device=spec.settings.device, arch=spec.arch),
        settings=spec.settings,
        limits=Limits(),
    )


def _scripted(spec: JudgeSpec) -> Workbench:
    """Passes what has `needle` in its sources: for tests and dry runs of the trainer itself."""

    def answer(task: Task, given: Submission, settings: JudgeSettings, calls: int) -> Verdict:
        found = any(spec.needle in text for text in given.files.values())
        return scripted_verdict(task, given, settings, Status.PASSED if found else Status.WRONG)

    return Workbench(
        judge=ScriptedJudge(answer),
        compiler=ScriptedCompiler(),
        target=Target(device=Device.SIM),
        settings=spec.settings,
        limits=Limits(),
    )


JUDGES: Mapping[str, Callable[[JudgeSpec], Workbench]] = MappingProxyType(
    {"local": _local, "scripted": _scripted}
)
"""One line a judge."""
