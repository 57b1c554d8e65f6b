"""`warpsmith judge`: one verdict on one submission."""

import contextlib
import json
import sys
from typing import Annotated

import typer

from warpsmith.cli.errors import guarded
from warpsmith.cli.options import DebugOption, DeviceOption, JsonOption, RulesOption, choose
from warpsmith.errors import UsageError

MIN_CHECKS = 5


@guarded
def judge(
    task: Annotated[str, typer.Argument(metavar="TASK", help="Task file, or SOURCE:PATH#LEVEL/PROBLEM.")],
    submission: Annotated[
        str, typer.Argument(metavar="SUBMISSION", help="Folder with model_new.py, or one .py file.")
    ],
    device: DeviceOption = "auto",
    rules: RulesOption = "practical",
    checks: Annotated[int, typer.Option("--checks", help="Correctness checks on fresh random inputs.")] = 5,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> int:
    """Judge a submission: exit status 0 if it passed, 1 for any other verdict."""
    from warpsmith import tasks
    from warpsmith.cli import wiring
    from warpsmith.cli.progress import reporter
    from warpsmith.report import summary, verdict_lines
    from warpsmith.reward import reward_of
    from warpsmith.types import Rules
    from warpsmith.types.protocols import JudgeSettings
    from warpsmith.workspace import load_submission

    chosen_rules = choose(Rules, rules, "rules")
    if checks < MIN_CHECKS:
        raise UsageError(f"--checks {checks} is too few", hint=f"give {MIN_CHECKS} or more")
    the_task, the_submission = tasks.load(task), load_submission(submission)
    chosen_device = wiring.device(device)
    wiring.require_judge_extra()
    # stdout carries the answer alone, whatever a library prints
    with contextlib.redirect_stdout(sys.stderr), reporter(chosen_device) as progress:
        bench = wiring.bench(chosen_device, progress.phase)
        settings = JudgeSettings(device=chosen_device, rules=chosen_rules, checks=checks)
        verdict = bench.judge.judge(the_task, the_submission, settings)
    reward = reward_of(verdict)
    print(json.dumps(summary(verdict, reward)) if as_json else "\n".join(verdict_lines(verdict, reward)))
    return status_of(verdict.status.value)


def status_of(status: str) -> int:
    """The exit status for a verdict's status."""
    from warpsmith.types import STATUS_TABLE, Status

    return STATUS_TABLE[Status(status)].exit_code
