"""Policies beside each other on the same tasks, such as an agent with and without its loop: success rates."""

import math
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass

from warpsmith.evaluation.compare import Paired, paired_mean
from warpsmith.rollout import EpisodeListener, Limits, run_episode
from warpsmith.rollout.episode import identity
from warpsmith.store import Manifest, RunReader, RunStore
from warpsmith.types import Episode, Record, Status, StopReason, Target, Task, Verdict, sha256_hex
from warpsmith.types.protocols import Compiler, Environment, Judge, JudgeSettings, Policy, PolicyStep

_Z95 = 1.959964
NOTHING = "nothing handed in"


@dataclass(frozen=True)
class Arm:
    """One way to work. `policy` makes what works on a task, given the number of the sample, from 0."""

    name: str
    policy: Callable[[int], Policy]
    limits: Limits


class ArmRow(Record):
    """One arm's episodes. `low` and `high`: 95 % interval of `rate`, as if all episodes were independent."""

    arm: str
    tasks: int
    episodes: int
    passed: int
    rate: float
    low: float
    high: float
    solved_tasks: int
    """Tasks that at least one sample passed."""
    turns: int
    calls: int
    bad_calls: int
    outcomes: dict[str, int]
    """Status of each episode's score, or of its last answer where nothing passed -> episodes."""
    stops: dict[str, int]
    input_tokens: int
    output_tokens: int
    seconds: float


def run_arms(
    tasks: Sequence[Task],
    arms: Sequence[Arm],
    samples: int,
    *,
    judge: Judge,
    compiler: Compiler,
    target: Target,
    settings: JudgeSettings,
    store: RunStore,
    seconds: float = math.inf,
    versions: dict[str, str] | None = None,
    progress: EpisodeListener | None = None,
) -> dict[str, tuple[Episode, ...]]:
    """`samples` episodes of each arm on each task, by arm; those already in the store are not run again.

    Every task has its nth sample in every arm before any has the next. None is begun after so many `seconds`: what is
    left is run by the next call, as are arms and samples that are added later. Raises what `run_episode` raises, with
    all before it stored; UsageError where the folder holds another run.
    """
    store.open(_manifest(tasks, settings, versions or {}))
    found: dict[str, list[Episode]] = {arm.name: [] for arm in arms}
    begun = time.monotonic()
    for sample in range(samples):
        for arm in arms:
            for task in tasks:
                inner = arm.policy(sample)
                policy = _Sample(f"{arm.name}/{sample} {inner.name}", inner)
                # a turn adds its number
                seed = 1000 * sample
                known = {episode.episode_id for episode in store.episodes()}
                asked = identity(task, policy, settings, sample, seed)
                if time.monotonic() - begun >= seconds and asked not in known:
                    continue
                episode = run_episode(
                    task,
                    policy,
                    judge=judge,
                    compiler=compiler,
                    target=target,
                    settings=settings,
                    store=store,
                    limits=arm.limits,
                    sample=sample,
                    seed=seed,
                    progress=progress,
                )
                found[arm.name].append(episode)
    return {name: tuple(episodes) for name, episodes in found.items()}


def arm_rows(run: RunReader, episodes: dict[str, tuple[Episode, ...]]) -> tuple[ArmRow, ...]:
    """One row an arm, from what `run_arms` returned; arms without an episode are left out."""
    return tuple(_row(name, given, run) for name, given in episodes.items() if given)


def passed_share(run: RunReader, episodes: Sequence[Episode]) -> dict[str, float]:
    """Task's name -> the share of its episodes that passed."""
    by_task: dict[str, list[bool]] = {}
    for episode in episodes:
        by_task.setdefault(episode.task_name, []).append(outcome(run, episode) == Status.PASSED)
    return {task: sum(passed) / len(passed) for task, passed in by_task.items()}


def compared(run: RunReader, first: Sequence[Episode], second: Sequence[Episode]) -> Paired:
    """The second arm's share of passed episodes less the first's, resampled over tasks."""
    return paired_mean("passed", passed_share(run, first), passed_share(run, second))


def outcome(run: RunReader, episode: Episode) -> str:
    """The status of the episode's score, else of its last answer, else of what it had judged last."""
    judged = [turn.verdict_hash for turn in episode.turns if turn.verdict_hash]
    for found in (episode.final_verdict_hash, episode.answer_verdict_hash, *reversed(judged)):
        if found and (verdict := run.verdict(found)) is not None:
            return verdict.status.value
    return NOTHING


def wilson(passed: int, of: int) -> tuple[float, float]:
    """95 % interval of a share (Wilson, 1927). Raises ValueError where `of` is not positive."""
    if of <= 0:
        raise ValueError("a share of nothing has no interval")
    share, z2 = passed / of, _Z95**2
    middle = (share + z2 / (2 * of)) / (1 + z2 / of)
    half = _Z95 / (1 + z2 / of) * math.sqrt(share * (1 - share) / of + z2 / (4 * of * of))
    return max(0.0, middle - half), min(1.0, middle + half)


def arms_table(rows: Sequence[ArmRow]) -> str:
    """Markdown, one line an arm."""
    lines = [
        "| arm | episodes | passed | rate (95 % interval) | tasks solved | turns | calls, misfits | outcomes |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        outcomes = ", ".join(f"{count} {name}" for name, count in row.outcomes.items())
        lines.append(
            f"| {row.arm} | {row.episodes} | {row.passed} | {row.rate:.0%} ({row.low:.0%} – {row.high:.0%}) "
            f"| {row.solved_tasks} of {row.tasks} | {row.turns} | {row.calls}, {row.bad_calls} | {outcomes} |"
        )
    return "\n".join(lines)


@dataclass(frozen=True)
class _Sample:
    """A policy under the name of its arm and sample, which an episode is known by."""

    name: str
    inner: Policy

    @property
    def settings(self) -> Mapping[str, str | int | float | bool | None]:
        return getattr(self.inner, "settings", {})

    def solve(self, env: Environment) -> Generator[PolicyStep, Verdict | None, StopReason | None]:
        return self.inner.solve(env)


def _manifest(tasks: Sequence[Task], settings: JudgeSettings, versions: dict[str, str]) -> Manifest:
    return Manifest(
        command="arms",
        task_hash=sha256_hex(" ".join(task.task_hash for task in tasks)),
        task_name=f"{len(tasks)} tasks",
        policy="arms",
        device=settings.device,
        settings=settings.model_dump(mode="json", exclude={"device"}),
        versions=versions,
    )


def _row(arm: str, episodes: Sequence[Episode], run: RunReader) -> ArmRow:
    shares = passed_share(run, episodes)
    outcomes = Counter(outcome(run, episode) for episode in episodes)
    passed = outcomes[Status.PASSED.value]
    low, high = wilson(passed, len(episodes))
    used = [episode.usage for episode in episodes if episode.usage]
    return ArmRow(
        arm=arm,
        tasks=len(shares),
        episodes=len(episodes),
        passed=passed,
        rate=passed / len(episodes),
        low=low,
        high=high,
        solved_tasks=sum(share > 0 for share in shares.values()),
        turns=sum(len(episode.turns) for episode in episodes),
        calls=sum(turn.calls for episode in episodes for turn in episode.turns),
        bad_calls=sum(episode.bad_calls for episode in episodes),
        outcomes=dict(outcomes.most_common()),
        stops=dict(Counter(episode.stop.value for episode in episodes).most_common()),
        input_tokens=sum(usage.input_tokens for usage in used),
        output_tokens=sum(usage.output_tokens for usage in used),
        seconds=round(sum(episode.seconds for episode in episodes), 1),
    )
