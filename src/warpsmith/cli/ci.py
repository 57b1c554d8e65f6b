"""`warpsmith ci`: a repository's own tasks and kernels, judged for correctness and against stored times."""

import contextlib
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsmith.cli.errors import INFRASTRUCTURE, OTHER_VERDICT, PASSED, guarded
from warpsmith.cli.options import DebugOption, DeviceOption, JsonOption, RulesOption, choose
from warpsmith.errors import UsageError

if TYPE_CHECKING:
    from warpsmith.types import Verdict


@guarded
def ci(
    cases: Annotated[
        list[str], typer.Argument(metavar="TASK=SUBMISSION…", help="A task file and the kernels for it.")
    ],
    baseline: Annotated[
        Path, typer.Option("--baseline", metavar="FILE.json", help="Stored times; kept in the repository.")
    ] = Path("warpsmith-baseline.json"),
    update: Annotated[bool, typer.Option("--update", help="Store today's times of what passed.")] = False,
    junit: Annotated[Path | None, typer.Option("--junit", metavar="FILE.xml", help="A JUnit file.")] = None,
    summary: Annotated[
        Path | None,
        typer.Option("--summary", metavar="FILE.md", help="Markdown for a pull request, appended."),
    ] = None,
    band: Annotated[float, typer.Option("--band", help="The least share that counts as slower.")] = 0.03,
    device: DeviceOption = "auto",
    rules: RulesOption = "practical",
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> int:
    """Judge a repository's kernels: exit status 1 on a wrong result or one slower than noise allows."""
    from warpsmith.evaluation import regression

    if not 0 <= band < 1:
        raise UsageError(f"--band {band} is no share", hint="give a number from 0 to below 1, such as 0.03")
    pairs = [_pair(case) for case in cases]
    stored, started = regression.read_baseline(baseline), time.monotonic()
    judged = _judged(pairs, device, rules)
    results = [regression.compared(n, v, stored.cases.get(n), min_band=band) for n, v in judged]
    if junit is not None:
        from warpsmith.store import write_atomic

        write_atomic(junit, regression.junit(results, time.monotonic() - started))
    text = regression.ci_markdown(results)
    if summary is not None:
        with summary.open("a", encoding="utf-8") as file:
            file.write(text)
    if update:
        regression.write_baseline(baseline, stored, judged)
    if as_json:
        print(json.dumps({"cases": [r.model_dump(mode="json") for r in results]}))
    else:
        print("\n".join(f"{r.change.value:<10} {r.name}: {regression.said(r)}" for r in results))
    return _status({r.change for r in results}, update)


def _status(changes: set, update: bool) -> int:
    from warpsmith.evaluation.regression import Change

    if Change.WRONG in changes or (Change.SLOWER in changes and not update):
        return OTHER_VERDICT
    return INFRASTRUCTURE if Change.UNJUDGED in changes else PASSED


def _pair(case: str) -> tuple[str, str]:
    task, sign, submission = case.partition("=")
    if not (task and sign and submission):
        raise UsageError(f"{case!r} names no task and kernels", hint="write TASK=SUBMISSION")
    return task, submission


def _judged(pairs: list[tuple[str, str]], device: str, rules: str) -> "list[tuple[str, Verdict]]":
    from warpsmith import tasks
    from warpsmith.cli import wiring
    from warpsmith.cli.progress import reporter
    from warpsmith.report import headline
    from warpsmith.types import Rules
    from warpsmith.types.protocols import JudgeSettings
    from warpsmith.workspace import load_submission

    chosen_rules = choose(Rules, rules, "rules")
    loaded = [(f"{t}={s}", tasks.load(t), load_submission(Path(s))) for t, s in pairs]
    chosen = wiring.device(device)
    wiring.require_judge_extra()
    judged = []
    # stdout carries the answer alone, whatever a library prints
    with contextlib.redirect_stdout(sys.stderr), reporter(chosen) as progress:
        bench = wiring.bench(chosen, progress.phase, ahead=len(loaded) > 1)
        settings = JudgeSettings(device=chosen, rules=chosen_rules)
        for name, task, submission in loaded:
            judged.append((name, bench.judge.judge(task, submission, settings)))
            progress.note(f"{name}: {headline(judged[-1][1])}")
    return judged
