"""A stage's report: one page of Markdown that says what was asked, what came of it, and how it went."""

import math
from collections.abc import Mapping, Sequence

from warpsmith.training.stage import StageFolder, StageManifest, StageResult, read_record

_MAIN = (
    "reward/mean",
    "reward/-1",
    "reward/1",
    "reward/2",
    "reward/3",
    "reward/none",
    "groups/flat_share",
    "actor/loss",
    "actor/entropy",
    "actor/grad_norm",
    "actor/clip_low",
    "actor/clip_high",
    "critic/loss",
    "critic/explained_variance",
    "mismatch/kl",
    "mismatch/max_abs",
    "ratio/p99",
    "ratio/cut",
    "turns/mean",
    "response/tokens",
    "response/clip_ratio",
    "response/masked_share",
    "episode/generate_s",
    "episode/judge_s",
    "timing_s/gen",
    "timing_s/update_actor",
    "timing_s/update_critic",
)


def stage_report(folder: StageFolder, result: StageResult, rows: Sequence[Mapping[str, float]]) -> str:
    """The page."""
    manifest = read_record(folder.path / "manifest.json", StageManifest)
    lines = [f"# {result.stage.value}", "", _outcome(result), ""]
    if result.model is not None:
        lines += [f"Model: `{result.model}`", ""]
    counts = {name: value for name, value in result.figures.items() if not rows or name not in rows[-1]}
    lines += [f"- {name}: {value:g}" for name, value in counts.items()]
    lines += ["", *_table(rows)] if rows else []
    lines += ["", "Every figure of every step lies in `curves.jsonl`, and in `tensorboard/`.", ""]
    if manifest is not None:
        lines += ["## Asked", "", *(f"- {name}: `{value}`" for name, value in manifest.settings.items()), ""]
    return "\n".join(lines)


def _outcome(result: StageResult) -> str:
    if result.stopped is not None:
        kept = "its last good checkpoint is kept" if result.model else "no checkpoint before it was good"
        return f"**Stopped at step {result.steps}: {result.stopped.value}; {kept}.**"
    if result.paused:
        return f"Paused after {result.steps} steps, its time being up; the same command goes on."
    return f"Ended after {result.steps} steps; the last process took {result.seconds:g} s."


def _table(rows: Sequence[Mapping[str, float]]) -> list[str]:
    shown = [name for name in _MAIN if any(name in row for row in rows)]
    table = ["| figure | first | middle | last |", "|---|---|---|---|"]
    picked = (rows[0], rows[len(rows) // 2], rows[-1])
    return [*table, *(f"| {name} | {' | '.join(_cell(row.get(name)) for row in picked)} |" for name in shown)]


def _cell(value: float | None) -> str:
    if value is None:
        return "–"
    return "no number" if math.isnan(value) else f"{value:.4g}"
