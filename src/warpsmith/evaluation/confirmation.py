"""When a regrade confirms a run: what the run claims, held against a fresh judgement of the same submissions.

A run is confirmed where all of this holds:

1. Everything that it planned has an end; nothing is missing, unfinished or lost to the machine.
2. Every score is a verdict that the store holds as the run's own final judgement of that episode's best submission,
   with the content that the episode names by hash: one that was edited has another hash.
3. All scores were reached on one GPU model, with one driver and torch, under one set of rules.
4. This version of the judge has judged each passed submission again, on the same GPU model and under the same rules.
5. Each passes again, and no speed-up claimed is more than `SINGLE` above the one found again.
6. Over the n passed ones, the geometric mean of claimed over found is at most 1 + max(`TOGETHER`, `SINGLE` / √n):
   single scores scatter, but not all to the same side.
"""

import math
from collections.abc import Mapping, Sequence

from warpsmith.evaluation.metrics import listed
from warpsmith.evaluation.mixing import mixed
from warpsmith.evaluation.regrading import (
    judge_fingerprint,
    own_verdicts,
    recorded_settings,
    regrade_key,
)
from warpsmith.evaluation.row import Against, Row, Score, State
from warpsmith.evaluation.rows import condition_of, rows_of, score_of
from warpsmith.rollout.environment import FINAL
from warpsmith.store import RunReader
from warpsmith.types import Device, Episode, Record, Status, Verdict, sha256_hex

SINGLE = 0.10
TOGETHER = 0.02
Question = tuple[str, str]
"""Hashes of a task and a submission."""


class Confirmation(Record):
    """A run's claims beside what was found again; confirmed where there is no problem."""

    problems: tuple[str, ...]
    run_hash: str
    """Over the manifest, the episodes and the scores."""
    judge: str
    """Fingerprint of the judge that judged again, with the mark of a fresh regrade if it was one."""
    regrade_hash: str
    """Over the judge's key and its verdicts."""
    claimed: tuple[Row, ...]
    found: tuple[Row, ...]
    """The same rows with the scores found again."""

    @property
    def confirmed(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.problems


def questions(run: RunReader) -> list[Question]:
    """What has to be judged again: the best submission of every episode whose score is a pass."""
    passed = [
        episode for episode in run.episodes() if (v := _score(run, episode)) and v.status is Status.PASSED
    ]
    return [(e.task_hash, e.best_submission_hash or "") for e in passed]


def standing(run: RunReader) -> tuple[str, ...]:
    """What speaks against a run before anything is judged again (points 1 to 3)."""
    rows = rows_of(run)
    problems = [f"{row.task_name}, sample {row.sample}, is {row.outcome}" for row in listed(rows)]
    finals = {
        line.verdict.content_hash for line in own_verdicts(run.path) if line.settings_hash.startswith(FINAL)
    }
    for episode in run.episodes():
        problems += _scored_honestly(run, episode, finals)
    problems += mixed(rows)
    versions = sorted({row.versions for row in rows if row.versions})
    if len(versions) > 1:
        problems.append(f"its scores were reached with several versions: {'; '.join(versions)}")
    if not rows or all(row.state is not State.JUDGED for row in rows):
        problems.append("nothing in it was judged")
    return tuple(problems)


def confirm(
    run: RunReader, *, device: Device | None = None, judge_version: str | None = None
) -> Confirmation:
    """Holds a run against the regrade that its store has under this judge. Nothing is judged here.

    `judge_version`: of the regrade, where it was not made under the plain fingerprint.
    """
    version = judge_version or judge_fingerprint()
    key = regrade_key(recorded_settings(run, device or run.manifest.device), version)
    again = {pair: run.find_verdict(*pair, key) for pair in questions(run)}
    episodes = {episode.episode_id: episode for episode in run.episodes()}
    rows = rows_of(run)
    found, problems = [], list(standing(run))
    for row in rows:
        episode = episodes.get(row.episode_id or "")
        if episode is None or not row.passed():
            found.append(row)
            continue
        verdict = again.get((episode.task_hash, episode.best_submission_hash or ""))
        if verdict is None:
            problems.append(f"{row.task_name}, sample {row.sample}, was not judged again by this judge")
            continue
        problems += [f"{row.task_name}, sample {row.sample}: {p}" for p in _held(row, verdict)]
        found.append(
            row.model_copy(update={"best": score_of(verdict), "final": None, "detail": verdict.detail})
        )
    problems += _together(rows, found)
    return Confirmation(
        problems=tuple(problems),
        run_hash=run_hash(run),
        judge=version,
        regrade_hash=sha256_hex(" ".join([key, *sorted(v.content_hash for v in again.values() if v)])),
        claimed=tuple(rows),
        found=tuple(found),
    )


def run_hash(run: RunReader) -> str:
    """Identity of a run's outcome."""
    parts = [run.manifest.content_hash, *sorted(episode.content_hash for episode in run.episodes())]
    return sha256_hex(" ".join(parts))


def _score(run: RunReader, episode: Episode) -> Verdict | None:
    return run.verdict(episode.final_verdict_hash) if episode.final_verdict_hash else None


def _scored_honestly(run: RunReader, episode: Episode, finals: set[str]) -> list[str]:
    """What is wrong with an episode's score as it is stored."""
    name = f"{episode.task_name}, sample {episode.sample}"
    if episode.final_verdict_hash is None:
        return [f"{name} names a best submission without a score"] if episode.best_submission_hash else []
    verdict = _score(run, episode)
    if verdict is None or verdict.content_hash not in finals:
        return [f"{name}: the store has no final judgement with the content that its episode names"]
    if (verdict.task_hash, verdict.submission_hash) != (episode.task_hash, episode.best_submission_hash):
        return [f"{name}: its score is of another task or submission"]
    return []


def _held(row: Row, verdict: Verdict) -> list[str]:
    """Where a verdict reached again does not bear a row's claims (points 4 and 5)."""
    there, here = row.condition, condition_of(verdict)
    if there is None or (there.gpu, there.rules) != (here.gpu, here.rules):
        was = f"{there.gpu} under {there.rules.value} rules" if there else "an unknown machine"
        return [f"judged again on {here.gpu} under {here.rules.value} rules, it is of {was}"]
    if verdict.status is not Status.PASSED:
        return [f"claimed as passed, found {verdict.status.value}"]
    found = score_of(verdict)
    return [text for against, claim in _claims(row).items() if (text := _too_much(against, claim, found))]


def _too_much(against: Against, claim: float, found: Score) -> str:
    again = found.ratios.get(against)
    name = f"{against.kind.value} speed-up over {against.side}"
    if again is None:
        return f"a {name} is claimed and was not found again"
    if claim > again.ratio * (1 + SINGLE):
        return f"a {name} of {claim:.3g} is claimed, {again.ratio:.3g} was found"
    return ""


def _together(claimed: Sequence[Row], found: Sequence[Row]) -> list[str]:
    """Point 6, for each kind of speed-up."""
    again = {(*row.task_key, row.sample): row for row in found}
    logs: dict[Against, list[float]] = {}
    for row in claimed:
        other = again.get((*row.task_key, row.sample))
        for against, claim in _claims(row).items():
            if other and (seen := other.measured(against)):
                logs.setdefault(against, []).append(math.log(claim / seen.ratio))
    problems = []
    for against, of in logs.items():
        ratio, allowed = math.exp(math.fsum(of) / len(of)), 1 + max(TOGETHER, SINGLE / math.sqrt(len(of)))
        if ratio > allowed:
            problems.append(
                f"{against.kind.value} speed-ups over {against.side} are claimed {ratio:.3f} times as high as "
                f"found, on average over {len(of)}; {allowed:.3f} is what noise may do"
            )
    return problems


def _claims(row: Row) -> Mapping[Against, float]:
    return {against: seen.ratio for against, seen in (row.best.ratios if row.best else {}).items()}
