"""The command line with a scripted policy, pool and judge in its tables: `python scripted_cli.py ARGS…`.

$SCRIPT chooses what the judge does: pass, wrong, refuse, broken, raise, or slow (the second judgement hangs).
$LOSE names a task whose judgement is lost, $SECONDS is how long a judgement takes.
$HIDE_TORCH=1 behaves as if PyTorch were not installed. Each judgement appends a line to $JUDGED.
"""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from warpsmith.cli import app, wiring
from warpsmith.errors import InfrastructureError
from warpsmith.recipes.fleet import Station
from warpsmith.rollout.scripted import ScriptedCompiler, ScriptedJudge, ScriptedPolicy, scripted_verdict
from warpsmith.types import Device, Phase, Status, Submission, Target, Task, Verdict
from warpsmith.types.protocols import JudgeSettings, PolicyStep

HANG_S = 120.0


def step(text: str) -> PolicyStep:
    """A step with a submission of its own."""
    return PolicyStep(note=f"wrote {text}", submission=Submission(files={"model_new.py": f"# {text}\n"}))


def answer(task: Task, given: Submission, settings: JudgeSettings, calls: int) -> Verdict:
    """The scripted verdict."""
    script = os.environ.get("SCRIPT", "pass")
    if script == "slow" and calls > 1:
        time.sleep(HANG_S)
    time.sleep(float(os.environ.get("SECONDS", "0")))
    if task.name == os.environ.get("LOSE"):
        raise InfrastructureError("the worker was lost", hint="start it again")
    if script == "raise":
        raise InfrastructureError("the worker was lost", hint="start it again")
    status = {"wrong": Status.WRONG, "refuse": Status.TASK_REFUSED, "broken": Status.INFRASTRUCTURE}
    with Path(os.environ["JUDGED"]).open("a") as file:
        file.write(given.files["model_new.py"])
    print("noise on stdout, as a library may make")
    detail = "" if script in ("pass", "slow") else "as scripted"
    return scripted_verdict(task, given, settings, status.get(script, Status.PASSED), detail=detail)


def bench(device: Device, progress: Callable[[Phase, str], None], ahead: bool) -> wiring.Bench:
    """A bench that builds and runs nothing."""
    progress(Phase.CORRECTNESS, "scripted")
    target = Target(device=device)
    return wiring.Bench(ScriptedJudge(answer), ScriptedCompiler(), target, isolation="scripted")


class ScriptedFleet:
    """A fleet whose threads each have a scripted judge."""

    pool = None

    def __init__(self, device: Device, jobs: int, told: Callable[[str], None]) -> None:
        self._device = device

    def __enter__(self) -> "ScriptedFleet":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def station(self) -> Station:
        return Station(ScriptedJudge(answer), ScriptedCompiler(), Target(device=self._device))

    def stop(self) -> None:
        pass


def counted(device: Device, workers: int, told: Callable[[str], None]) -> ScriptedFleet:
    """No fleet, but the size of the one that was asked for."""
    raise InfrastructureError(f"a pool of {workers} on {device}")


if __name__ == "__main__":
    if os.environ.get("HIDE_TORCH"):
        sys.modules["torch"] = None  # type: ignore[assignment]  # what find_spec takes for "not installed"
    wiring.POOLS["local"] = bench
    wiring.FLEETS |= {"local": ScriptedFleet, "counting": counted}
    wiring.POLICIES["scripted"] = lambda: ScriptedPolicy([step("first"), step("second")])
    wiring.POLICIES["idle"] = lambda: ScriptedPolicy([PolicyStep(note="nothing to rewrite")], name="idle")
    wiring.POLICIES["failing"] = lambda: ScriptedPolicy([ValueError("no rule")], name="failing")
    app.main()
