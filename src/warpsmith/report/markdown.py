"""`report.md`: what a person reads about one episode."""

from collections.abc import Iterator
from dataclasses import dataclass

from warpsmith.judge.evidence.operators import CHECK as OWN_WORK
from warpsmith.report.episode_text import episode_lines, usage_text
from warpsmith.report.evidence_text import evidence_section
from warpsmith.report.roofline_text import roofline_sentences
from warpsmith.report.verdict_text import error_text, headline, in_turn_text, milliseconds, ratio
from warpsmith.rollout import RESUMABLE
from warpsmith.types import (
    TASK_STOPS,
    Accuracy,
    Device,
    Episode,
    Rules,
    Status,
    StopReason,
    Submission,
    Task,
    TimeStats,
    Verdict,
    baseline_name,
)


@dataclass(frozen=True)
class EpisodeRecords:
    """An episode with everything that it refers to, as read from the store."""

    episode: Episode
    task: Task
    verdicts: dict[str, Verdict]
    """By verdict hash: every verdict that a turn, the score or the final answer refers to."""
    submission: Submission | None
    """The best one, where any passed."""

    @property
    def final(self) -> Verdict | None:
        """The fresh judgement that is the score."""
        return self.verdicts.get(self.episode.final_verdict_hash or "")

    @property
    def last(self) -> Verdict | None:
        """The score, or where nothing passed the last verdict that was given."""
        judged = [turn.verdict_hash for turn in self.episode.turns if turn.verdict_hash]
        return self.final or (self.verdicts.get(judged[-1]) if judged else None)


def render(records: EpisodeRecords) -> str:
    """The whole report in Markdown."""
    sections = [_title(records), _episode(records), _work(records)]
    if verdict := records.final:
        sections += [_correctness(verdict), _speed(verdict), evidence_section(verdict)]
        sections += [_machine(verdict), _limits(records, verdict)]
    if records.submission is not None:
        sections.append(_usage(records))
    return "\n\n".join("\n".join(section) for section in sections) + "\n"


def outcome(records: EpisodeRecords) -> str:
    """The result in one line."""
    if records.final is not None:
        return headline(records.final)
    turns, last = records.episode.turns, records.last
    if records.episode.stop in TASK_STOPS:
        said = "refused" if records.episode.stop is StopReason.TASK_REFUSED else "not supported"
        return f"the task was {said}: {last.detail if last else turns[-1].note}"
    if records.episode.stop is StopReason.POLICY_FAILED:
        return f"the policy failed: {turns[-1].note}"
    if records.episode.stop in RESUMABLE:
        return f"it is not over: {turns[-1].note}"
    if last is not None:
        return f"no submission passed; the last one: {headline(last)}"
    return "nothing to rewrite was found; the model stays as it is"


def _title(records: EpisodeRecords) -> Iterator[str]:
    episode, task = records.episode, records.task
    yield f"# {task.name}"
    yield ""
    yield f"**{outcome(records)}**"
    yield ""
    yield f"Policy `{episode.policy}`, device `{episode.device}`, rules `{episode.rules}`;"
    yield f"started {episode.started_at}, took {episode.seconds:.1f} s. Task `{task.task_hash[:12]}`"
    if task.revision:
        yield f"of {task.source}, revision `{task.revision}`"
    if task.derived_from:
        yield ""
        yield (
            "The sizes were scaled down for the simulator: this is a derived task of "
            f"`{task.derived_from[:12]}`, not the full-size one. `model.py` holds what was judged."
        )


def _episode(records: EpisodeRecords) -> Iterator[str]:
    yield "## How it went"
    yield ""
    yield from episode_lines(records.episode, records.verdicts)


def _work(records: EpisodeRecords) -> Iterator[str]:
    yield "## What was rewritten and fused"
    yield ""
    best = records.episode.best_submission_hash
    for turn in records.episode.turns:
        verdict = records.verdicts.get(turn.verdict_hash or "")
        said = f" — {headline(verdict)}" if verdict else ""
        mark = " **(chosen)**" if best and turn.submission_hash == best else ""
        took = f" ({usage_text(turn.usage)})" if turn.usage else ""
        yield f"{turn.index + 1}. {_indent(turn.note)}{said}{took}{mark}"
    if not records.episode.turns:
        yield "Nothing: the policy made no step."


def _indent(note: str) -> str:
    """A note of several lines stays inside its list item."""
    return note.strip().replace("\n", "\n   ")


def _correctness(verdict: Verdict) -> Iterator[str]:
    yield "## Correctness"
    yield ""
    if error := verdict.error:
        where = f", at `{error.where}` of call {error.call}" if error.where else ""
        yield f"- relative error {error.rel:.3e} (Frobenius, the largest of all calls)"
        yield f"- largest absolute error {error.max_abs:.3e}{where}"
    yield f"- paper's gate (atol = rtol = 1e-2): {_gate(verdict.paper_gate)}"
    yield f"- scale-aware gate: {_gate(verdict.scale_gate)}"
    for check in verdict.checks:
        detail = f" — {check.detail}" if check.detail else ""
        yield f"- {check.check}: {'passed' if check.passed else 'FAILED'}{detail}"
    for note in verdict.notes:
        yield f"- note: {note}"


def _gate(held: bool | None) -> str:
    return {True: "held", False: "not held", None: "not evaluated"}[held]


def _speed(verdict: Verdict) -> Iterator[str]:
    yield "## Speed"
    yield ""
    if verdict.timings is None:
        yield "Not measured."
        return
    yield "| | median | p25–p75 | fastest | calls | raw median of a bracket | null bracket |"
    yield "|---|---|---|---|---|---|---|"
    timings = verdict.timings
    named = (("candidate", timings.candidate), ("eager", timings.eager), ("torch.compile", timings.compile))
    yield from (_time_row(name, stats) for name, stats in named if stats is not None)
    for entry in timings.menu:
        name = baseline_name(entry.mode, entry.kind)
        yield _time_row(name, entry.stats) if entry.stats else f"| {name} | {entry.problem} | | | | | |"
    for again in timings.in_turn:
        yield ""
        yield f"Near a threshold, so measured again, in turn: {in_turn_text(again)}. This ratio counts."
    if speedup := verdict.speedup:
        yield ""
        yield "| speed-up against | eager | torch.compile | best |"
        yield "|---|---|---|---|"
        yield f"| default modes | {ratio(speedup.paper.eager)} | {ratio(speedup.paper.compile)} | |"
        if matched := speedup.matched:
            row = " | ".join(ratio(value) for value in (matched.eager, matched.compile, matched.best))
            yield f"| modes of matched accuracy | {row} |"
            if matched.best_baseline:
                names = (matched.eager_baseline, matched.compile_baseline, matched.best_baseline)
                yield f"| made of | {' | '.join(name or '–' for name in names)} |"
        else:
            yield "| modes of matched accuracy | not measured | not measured | not measured |"
    if verdict.accuracy:
        yield ""
        yield from _accuracy(verdict.accuracy)
    if floor := verdict.floor:
        yield ""
        share = "" if floor.share is None else f"; the candidate stands at {floor.share:.1%} of it"
        yield (
            f"Byte floor: {milliseconds(floor.floor_ms)} for {floor.read_bytes:,} bytes read and "
            f"{floor.written_bytes:,} written at {floor.bandwidth_gb_s:g} GB/s{share}."
        )
    if verdict.roofline:
        yield ""
        yield roofline_sentences(verdict.roofline)


def _accuracy(accuracy: Accuracy) -> Iterator[str]:
    if not accuracy.oracle:
        yield f"Accuracy: oracle unavailable ({accuracy.oracle_problem})."
        yield f"Compared with {', '.join(accuracy.competing())}."
        return
    names = list(accuracy.candidate)
    yield "Relative error against float64, the largest over outputs, and which of PyTorch's modes compete:"
    yield ""
    yield f"| | {' | '.join(names)} | competes |"
    yield "|---" * (len(names) + 2) + "|"
    yield f"| candidate | {' | '.join(error_text(accuracy.candidate[n]) for n in names)} | |"
    for mode in accuracy.modes:
        cells = " | ".join(error_text(mode.errors[n]) if n in mode.errors else "–" for n in names)
        yield f"| {mode.mode} | {cells} | {'yes' if mode.competes else 'no'}: {mode.why} |"


def _time_row(name: str, stats: TimeStats) -> str:
    spread = f"{milliseconds(stats.p25_ms)}–{milliseconds(stats.p75_ms)}"
    flag = " (launch-bound)" if stats.launch_bound else ""
    cells = (
        name + flag,
        milliseconds(stats.median_ms),
        spread,
        milliseconds(stats.min_ms),
        str(stats.calls)
        if stats.calls_per_bracket == 1
        else f"{stats.calls} ({stats.calls_per_bracket} a bracket)",
        milliseconds(stats.raw_median_ms),
        milliseconds(stats.null_ms),
    )
    return "| " + " | ".join(cells) + " |"


def _machine(verdict: Verdict) -> Iterator[str]:
    yield "## How and on what it was judged"
    yield ""
    if machine := verdict.machine:
        rows = machine.model_dump(mode="json")
        yield from (f"- {key.replace('_', ' ')}: {value}" for key, value in rows.items() if value is not None)
    if verdict.timings:
        yield "- clock: the judge's own around each bracket of calls, a null bracket subtracted, raw medians kept"
    if verdict.seconds:
        spent = ", ".join(f"{phase} {seconds:.1f} s" for phase, seconds in verdict.seconds.items())
        yield f"- the judgement itself took: {spent}"
    yield "- the score is a fresh judgement of the best submission, made after the search ended"


def _limits(records: EpisodeRecords, verdict: Verdict) -> Iterator[str]:
    yield "## What is not proven"
    yield ""
    if verdict.status is not Status.PASSED:
        yield f"- that the submission is right: the judgement ended as `{verdict.status}`"
    if verdict.device is Device.SIM:
        yield "- anything about speed: the simulator runs kernels on the CPU and proves correctness only"
        yield "- that the kernels run on a GPU: judge them there before use"
    if records.task.derived_from:
        yield "- the full-size task: the sizes judged here are smaller"
    yield "- other shapes, dtypes or layouts than `get_inputs()` gives, and training: inference only"
    if verdict.speedup and verdict.speedup.matched is None:
        yield "- a gain over PyTorch modes of the same accuracy (TF32 and lower): only default modes ran"
    if verdict.timings and verdict.timings.candidate.launch_bound:
        yield "- small differences in time: the call is so short that launching dominates it"
    if verdict.rules is Rules.PRACTICAL and not any(c.check == OWN_WORK and c.passed for c in verdict.checks):
        yield "- that own kernels do all the work: the `practical` rules allow torch operators"
    if verdict.machine and verdict.machine.isolation == "none":
        yield "- that the submission was kept apart from the machine: no isolation was in force"


def _usage(records: EpisodeRecords) -> Iterator[str]:
    yield "## Use it"
    yield ""
    yield "`solution/` holds the sources, `model.py` the model that they were judged against. In Python:"
    yield ""
    yield "```python"
    yield "from use import load  # use.py of this folder"
    yield ""
    yield "fast = load(model, *init_inputs)  # takes the model's parameters; use under torch.no_grad()"
    yield "```"
    yield ""
    yield "`python use.py` builds it and compares it with `model.py` on fresh inputs."
