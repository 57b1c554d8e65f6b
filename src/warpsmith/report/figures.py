"""The tables of a report, as text in cells: what the page and the Markdown file both show."""

from collections.abc import Callable, Iterator, Sequence

from warpsmith.evaluation.bootstrap import Estimate
from warpsmith.evaluation.compare import Paired
from warpsmith.evaluation.metrics import (
    Side,
    Summary,
    by_level,
    by_series,
    level_weighted,
    listed,
    pass_at_k,
    summary,
    unflagged,
)
from warpsmith.evaluation.protocols import VARIANTS
from warpsmith.evaluation.row import Against, Answer, Row
from warpsmith.report.causes import causes_table
from warpsmith.report.published import (
    PUBLISHED_NAME,
    WHOLE,
    PublishedRow,
    published,
    published_ablation,
)
from warpsmith.report.table import KINDS, NONE, Line, Table
from warpsmith.reward import SpeedupKind

_FIVE = ("pass %", "> eager %", "> compile %", "× eager", "× compile")


def tables(rows: Sequence[Row], compared: Sequence[Paired] = ()) -> list[Table]:
    """Every table that has something to say of these rows, the results first. Raises UsageError for no rows."""
    whole = {(series, kind): summary(of, kind) for series, of in by_series(rows).items() for kind in KINDS}
    made = [
        _results(rows, whole),
        _sides(rows, whole),
        _answers(rows),
        _flagged(rows),
        _ablations(rows),
        _samples(rows),
        _costs(whole),
        _comparison(compared),
        causes_table(rows),
        _missing(rows),
    ]
    return [table for table in made if table is not None]


def percent(found: Estimate | float | None) -> str:
    """A share in percent, with its interval where there is one."""
    if not isinstance(found, Estimate):
        return NONE if found is None else f"{100 * found:.1f}"
    return f"{100 * found.value:.1f}" + _interval(found, lambda end: f"{100 * end:.1f}")


def times(found: Estimate | float | None) -> str:
    """A ratio, with its interval where there is one."""
    if not isinstance(found, Estimate):
        return NONE if found is None else _ratio(found)
    return _ratio(found.value) + _interval(found, _ratio)


def _interval(found: Estimate, shown: Callable[[float], str]) -> str:
    if found.low is None or found.high is None:
        return ""
    return f" [{shown(found.low)}–{shown(found.high)}]"


def _ratio(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:.0f}"


def _number(value: float | None) -> str:
    return NONE if value is None else f"{value:.4g}"


def _five(found: Summary) -> tuple[str, ...]:
    """The published table's columns."""
    sides = (found.eager, found.compile)
    return (percent(found.passed), *(percent(s.faster) for s in sides), *(times(s.geomean) for s in sides))


def _printed(paper: PublishedRow) -> tuple[str, ...]:
    shares = (paper.pass_pct, paper.faster_eager_pct, paper.faster_compile_pct)
    return (*(f"{share:.1f}" for share in shares), *map(times, (paper.geomean_eager, paper.geomean_compile)))


def _results(rows: Sequence[Row], whole: dict[tuple[str, SpeedupKind], Summary]) -> Table:
    lines, levelled = [], any(published(row.level) and row.level for row in rows)
    for level, of_level in by_level(rows).items():
        name = "all" if level is None else str(level)
        if levelled and (paper := published(level)):
            lines.append(Line((name, PUBLISHED_NAME, NONE, *_printed(paper)), published=True))
        for series, of in by_series(of_level).items():
            for kind in KINDS:
                found = whole[series, kind] if level is None else summary(of, kind)
                lines.append(Line((name, f"{series}: {kind.value} ratios", str(found.tasks), *_five(found))))
    return Table(
        key="results",
        title="Results beside the published ones" if levelled else "Results",
        heads=("level", "whose", "tasks", *_FIVE),
        lines=tuple(lines),
        words=2,
        note=(
            "Shares are of all tasks that the runs planned, failed and missing ones too; faster is a ratio above 1; "
            "geometric means are over correct solutions that were timed. With each: its 95 % bootstrap interval over "
            "tasks. – is not measured, which is not 0."
            + (" The published row is 250 tasks of levels 1–3 on another GPU." if levelled else "")
        ),
    )


def _sides(rows: Sequence[Row], whole: dict[tuple[str, SpeedupKind], Summary]) -> Table | None:
    if not any(row.best and row.best.ratios for row in rows):
        return None
    lines = []
    for (series, kind), found in whole.items():
        of = by_series(rows)[series]
        for side in (found.eager, found.compile, found.best):
            if side is not None:
                lines.append(Line((series, f"{kind.value} {side.against.side}", *_side(side, of))))
    return Table(
        key="speed",
        title="Speed-ups, counted in every way",
        heads=(
            "whose", "over", "timed", "faster %", "clearly %", "tied %", "× correct", "× by level",
            "× failures as 1", "× with fallback",
        ),
        lines=tuple(lines),
        words=2,
        note=(
            "Clearly: the whole noise interval of the ratio lies above 1; tied: it holds 1. By level: each level's "
            "geometric mean weighed by its tasks, as the published overall row. Failures as 1: over all tasks. With "
            "fallback: over all tasks, the reference kept wherever it is faster, max(1, ×). "
            "*: the noise of some is unknown."
        ),
    )  # fmt: skip


def _side(side: Side, rows: Sequence[Row]) -> tuple[str, ...]:
    timed = str(side.measured) + (f" of {side.measured + side.unmeasured}" if side.unmeasured else "")
    return (
        timed,
        percent(side.faster.value if side.faster else None),
        percent(side.clearly_faster) + ("*" if side.noise_unknown else ""),
        percent(side.tied) + ("*" if side.noise_unknown else ""),
        times(side.geomean),
        times(level_weighted(rows, side.against) if side.geomean else None),
        times(side.geomean_failures_1),
        times(side.geomean_fallback),
    )


def _answers(rows: Sequence[Row]) -> Table | None:
    if not any(row.final for row in rows):
        return None
    lines = []
    for series, of in by_series(rows).items():
        for answer, name in ((Answer.BEST, "best of the trajectory"), (Answer.FINAL, "final answer")):
            for kind in KINDS:
                found = summary(of, kind, answer, resamples=0)
                lines.append(Line((series, name, kind.value, *_five(found))))
    return Table(
        key="answers",
        title="Best of the trajectory, and final answer",
        heads=("whose", "answer", "protocol", *_FIVE),
        lines=tuple(lines),
        words=3,
    )


def _flagged(rows: Sequence[Row]) -> Table | None:
    if not any(row.flags or row.unfit for row in rows):
        return None
    lines = []
    for series, of in by_series(rows).items():
        for name, chosen in (("all", of), ("without flagged ones", unflagged(of))):
            for kind in KINDS if chosen else ():
                found = summary(chosen, kind, resamples=0)
                lines.append(Line((series, name, kind.value, str(found.tasks), *_five(found))))
    return Table(
        key="flagged",
        title="With and without flagged tasks",
        heads=("whose", "which tasks", "protocol", "tasks", *_FIVE),
        lines=tuple(lines),
        words=3,
        note="Flagged: what warpsmith check says weakens a task, or would refuse it for.",
    )


def _ablations(rows: Sequence[Row]) -> Table | None:
    if not any(row.variant for row in rows):
        return None
    lines = []
    for variant in (*VARIANTS.values(), None):
        name = variant.name if variant else "nothing left out"
        theirs = (variant.published if variant else WHOLE) or ""
        if paper := published_ablation(theirs):
            lines.append(Line((name, f"{theirs}, {PUBLISHED_NAME}", NONE, *_printed(paper)), published=True))
        ours = [row for row in rows if row.variant == (variant.name if variant else "")]
        for series, of in by_series(ours).items():
            for kind in KINDS:
                found = summary(of, kind)
                lines.append(Line((name, f"{series}: {kind.value} ratios", str(found.tasks), *_five(found))))
    return Table(
        key="ablations",
        title="Ablations beside the published ones",
        heads=("left out", "whose", "tasks", *_FIVE),
        lines=tuple(lines),
        words=2,
        note="In the shape of the published Table 2, over all levels. The published set has no row without SKILL.md.",
    )


def _samples(rows: Sequence[Row]) -> Table | None:
    lines, most = [], 1
    for series, of in by_series(rows).items():
        counts: dict[tuple[str, str], int] = {}
        for row in of:
            counts[row.task_key] = counts.get(row.task_key, 0) + 1
        least = min(counts.values())
        most = max(most, least)
        shown = [k for k in (1, 2, 4, 8, 16, 32, 64) if k <= least]
        lines += [
            Line((series, str(k), percent(pass_at_k(of, k)), percent(_fast_at_k(of, k)))) for k in shown
        ]
    if most == 1:
        return None
    return Table(
        key="samples",
        title="Several samples a task",
        heads=("whose", "k", "pass@k %", "> compile@k %"),
        lines=tuple(lines),
        words=1,
        note="The chance that one of k samples is good, by the unbiased estimator; compile is in its default mode.",
    )


def _fast_at_k(rows: Sequence[Row], k: int) -> float | None:
    against = Against.PAPER_COMPILE
    if not any(row.measured(against) for row in rows):
        return None
    return pass_at_k(rows, k, lambda row: (seen := row.measured(against)) is not None and seen.faster)


def _costs(whole: dict[tuple[str, SpeedupKind], Summary]) -> Table:
    lines = []
    for (series, kind), found in whole.items():
        if kind is SpeedupKind.PAPER:
            spent = found.costs
            figures = (spent.turns, spent.tokens, spent.judge_seconds)
            lines.append(Line((series, percent(found.floor_share), *map(_number, figures))))
    return Table(
        key="costs",
        title="Share of the byte floor, and costs",
        heads=("whose", "% of the floor", "turns", "tokens", "judging s"),
        lines=tuple(lines),
        words=1,
        note=(
            "The floor's share is a geometric mean over passes. Costs are means over samples whose costs are known; "
            "judging is what a sample's judgements took without compiling: about its hold on a device."
        ),
    )


def _comparison(compared: Sequence[Paired]) -> Table | None:
    if not compared:
        return None
    lines = [
        Line(
            (
                p.name, "significant" if p.significant else "within noise", str(p.tasks), _number(p.first),
                _number(p.second), f"{p.difference:.4g} [{p.low:.4g} … {p.high:.4g}]",
            )
        )
        for p in compared
    ]  # fmt: skip
    return Table(
        key="compared",
        title="Against the other run",
        heads=("", "", "common tasks", "other", "this", "difference"),
        lines=tuple(lines),
        words=2,
        note=(
            "Paired percentile bootstrap over the tasks that both have; of geometric means the difference is a "
            "ratio. Each line by itself leaves 1 in 20 to chance."
        ),
        wrapped=frozenset({0}),
    )


def _missing(rows: Sequence[Row]) -> Table | None:
    found = listed(rows)
    if not found:
        return None
    lines = [Line(tuple(_absent(row))) for row in found]
    return Table(
        key="missing",
        title="Of which nothing is known",
        heads=("level", "task", "sample", "whose", "what", "why"),
        lines=tuple(lines),
        words=6,
        note="Missing, unfinished, or lost to the machine: they count as not passed everywhere above.",
        wrapped=frozenset({5}),
    )


def _absent(row: Row) -> Iterator[str]:
    yield "" if row.level is None else str(row.level)
    yield row.task_name
    yield str(row.sample)
    yield row.series
    yield row.outcome
    yield row.detail
