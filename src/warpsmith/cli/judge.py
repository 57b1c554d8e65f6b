"""`warpsmith judge`: one verdict on one submission."""

import contextlib
import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from warpsmith.cli.errors import guarded
from warpsmith.cli.options import (
    BaselinesOption,
    DebugOption,
    DeviceOption,
    JsonOption,
    RulesOption,
    VaryOption,
    choose,
)
from warpsmith.errors import UsageError

if TYPE_CHECKING:
    from warpsmith.cli.progress import Reporter
    from warpsmith.cli.wiring import Bench
    from warpsmith.types import ProfileReport, Submission, Task, Verdict
    from warpsmith.types.protocols import Judge

MIN_CHECKS = 5


@guarded
def judge(
    task: Annotated[str, typer.Argument(metavar="TASK", help="Task file, or SOURCE:PATH#LEVEL/PROBLEM.")],
    submission: Annotated[
        str, typer.Argument(metavar="SUBMISSION", help="Folder with model_new.py, or one .py file.")
    ],
    device: DeviceOption = "auto",
    rules: RulesOption = "practical",
    baselines: BaselinesOption = "matched",
    checks: Annotated[int, typer.Option("--checks", help="Correctness checks on fresh random inputs.")] = 5,
    sanitize: Annotated[
        bool, typer.Option("--sanitize", help="First look for faulty memory accesses and deadlocks.")
    ] = False,
    ncu: Annotated[
        bool, typer.Option("--ncu", help="Afterwards measure its kernels with Nsight Compute.")
    ] = False,
    least_isolation: Annotated[
        str | None,
        typer.Option(
            "--least-isolation", envvar="WARPSMITH_LEAST_ISOLATION", help="Refuse to judge below this."
        ),
    ] = None,
    vary: VaryOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> int:
    """Judge a submission: exit status 0 if it passed, 1 for any other verdict."""
    from warpsmith import tasks
    from warpsmith.cli import wiring
    from warpsmith.cli.progress import reporter
    from warpsmith.types import Rules
    from warpsmith.types.protocols import JudgeSettings, Menu
    from warpsmith.workspace import load_submission

    chosen_rules = choose(Rules, rules, "rules")
    menu = choose(Menu, baselines, "baselines")
    if checks < MIN_CHECKS:
        raise UsageError(f"--checks {checks} is too few", hint=f"give {MIN_CHECKS} or more")
    if ncu and vary:
        raise UsageError("--ncu profiles one judgement", hint="leave out --vary")
    the_task, the_submission = tasks.load(task), load_submission(submission)
    variants = tasks.variants(the_task, vary or ())
    chosen_device = wiring.device(device)
    if least_isolation:
        wiring.require_isolation(least_isolation)
    wiring.require_judge_extra()
    # stdout carries the answer alone, whatever a library prints
    with contextlib.redirect_stdout(sys.stderr), reporter(chosen_device) as progress:
        bench = wiring.bench(chosen_device, progress.phase, ahead=len(variants) > 1)
        settings = JudgeSettings(device=chosen_device, rules=chosen_rules, checks=checks, baselines=menu)
        judge = _sanitized(bench, progress) if sanitize else bench.judge
        judged = []
        for variant in variants:
            if variant.label:
                progress.note(variant.label)
            judged.append((variant.label, judge.judge(variant.task, the_submission, settings)))
        profile = _profiled(bench, progress, judged[0][1], the_task, the_submission) if ncu else None
    if vary:
        _print_variants(judged, as_json)
    else:
        _print_verdict(judged[0][1], as_json, profile)
    return max(status_of(verdict.status.value) for _, verdict in judged)


def _print_verdict(verdict: "Verdict", as_json: bool, profile: "ProfileReport | None") -> None:
    from warpsmith.report import profile_lines, profile_summary, summary, verdict_lines
    from warpsmith.reward import reward_of

    reward = reward_of(verdict)
    if as_json:
        print(json.dumps(summary(verdict, reward) | ({"ncu": profile_summary(profile)} if profile else {})))
    else:
        print("\n".join([*verdict_lines(verdict, reward), *(profile_lines(profile) if profile else ())]))


def _print_variants(judged: "list[tuple[str, Verdict]]", as_json: bool) -> None:
    from warpsmith.report import variant_lines, variants_summary
    from warpsmith.types import SCHEMA_VERSION

    if as_json:
        print(json.dumps({"schema_version": SCHEMA_VERSION, "variants": variants_summary(judged)}))
    else:
        print("\n".join(variant_lines(judged)))


def _sanitized(bench: "Bench", progress: "Reporter") -> "Judge":
    from warpsmith.cli import wiring
    from warpsmith.judge.instruments.sanitize import SanitizedJudge
    from warpsmith.sandbox import by_name

    return SanitizedJudge.local(
        bench.judge,
        wiring.pool(),
        bench.compiler,
        by_name(bench.isolation),
        arch=bench.target.arch,
        progress=progress.phase,
    )


def _profiled(
    bench: "Bench", progress: "Reporter", verdict: "Verdict", task: "Task", submission: "Submission"
) -> "ProfileReport":
    """What Nsight Compute says of a submission that was judged; it changes nothing about the verdict."""
    from warpsmith.cli import wiring
    from warpsmith.judge.instruments.ncu import NcuProfiler

    progress.note("measuring kernels with Nsight Compute")
    profiler = NcuProfiler(wiring.pool(), bench.compiler, bench.target, bench.isolation)
    return profiler.after(verdict, task, submission)


def status_of(status: str) -> int:
    """The exit status for a verdict's status."""
    from warpsmith.types import STATUS_TABLE, Status

    return STATUS_TABLE[Status(status)].exit_code
