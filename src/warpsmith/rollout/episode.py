"""task + policy + environment + judge + reward -> Episode."""

import contextlib
import json
import shutil
import time
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from warpsmith.errors import InfrastructureError, TaskError, TaskUnsupportedError
from warpsmith.reward import SpeedupKind, reward_of
from warpsmith.rollout.environment import EpisodeEnvironment
from warpsmith.rollout.journal import Journal, journal_path
from warpsmith.store import RunStore
from warpsmith.store.files import make_folder
from warpsmith.types import (
    TASK_STOPS,
    Episode,
    Record,
    Status,
    StopReason,
    Submission,
    Target,
    Task,
    Turn,
    Verdict,
)
from warpsmith.types.base import sha256_hex
from warpsmith.types.llm import Entry, Usage
from warpsmith.types.protocols import Compiler, Judge, JudgeSettings, Policy, PolicyStep

EVALUATION_TURNS = 200
TRAINING_TURNS = 150

RESUMABLE = frozenset({StopReason.MODEL_UNAVAILABLE, StopReason.MODEL_REFUSED})
"""Ends that are nobody's doing who is judged here: called again, the episode goes on."""


class Limits(Record):
    """When an episode ends though the policy would go on. What interrupted processes spent counts too."""

    turns: int = EVALUATION_TURNS
    seconds: float = 24 * 3600.0
    tokens: int | None = None
    """Input and output, over all turns."""
    cost_usd: float | None = None

    def reached(self, turns: int, seconds: float, usage: Usage) -> StopReason | None:
        """The first limit that is reached, if any."""
        reasons = {
            StopReason.TURN_LIMIT: turns >= self.turns,
            StopReason.TIME_LIMIT: seconds > self.seconds,
            StopReason.TOKEN_LIMIT: self.tokens is not None and usage.tokens >= self.tokens,
            StopReason.COST_LIMIT: self.cost_usd is not None and (usage.cost_usd or 0.0) >= self.cost_usd,
        }
        return next((reason for reason, is_reached in reasons.items() if is_reached), None)


class EpisodeListener(Protocol):
    """Is told what happens, once it is stored."""

    def turn(self, turn: Turn, verdict: Verdict | None) -> None:
        """The policy made a step, with this verdict where it put a submission before the judge."""
        ...

    def scoring(self, submission_hash: str) -> None:
        """The search has ended, and its best submission is about to be judged afresh."""
        ...


class ConversationListener(EpisodeListener, Protocol):
    """One that also wants to know what is said to and by a language model."""

    def entry(self, entry: Entry) -> None:
        """Something was said or judged."""
        ...

    def hear(self, text: str) -> None:
        """A piece of a reply that is under way."""
        ...


def run_episode(
    task: Task,
    policy: Policy,
    *,
    judge: Judge,
    compiler: Compiler,
    target: Target,
    settings: JudgeSettings,
    store: RunStore,
    limits: Limits | None = None,
    speedup: SpeedupKind = SpeedupKind.MATCHED,
    sample: int = 0,
    seed: int | None = None,
    progress: EpisodeListener | ConversationListener | None = None,
) -> Episode:
    """Lets `policy` work on `task` and returns the stored episode; a finished one is returned as it is.

    Everything is stored as it happens, and verdicts already in the store are reused, so a run that was killed goes
    on by being called again, as does one that ended for a reason in RESUMABLE. The score is a fresh judgement of
    the best passed submission; the answer at the end is judged beside it. `sample` tells attempts apart, `seed` is of
    the policy's sampling. A policy's own errors are data; InfrastructureError propagates, with all before it stored.
    """
    episode_id = identity(task, policy, settings, sample, seed)
    finished = next((e for e in store.episodes() if e.episode_id == episode_id), None)
    if finished is not None and finished.stop not in RESUMABLE:
        return finished
    started, clock = datetime.now(UTC), time.monotonic()
    workdir = make_folder(store.path.absolute() / "work" / episode_id)
    store.put_blob(task.canonical_json())
    env = EpisodeEnvironment(
        task,
        judge=judge,
        compiler=compiler,
        target=target,
        settings=settings,
        store=store,
        workdir=workdir,
        journal=Journal(journal_path(store.path, episode_id)),
        past_turns=store.turns(episode_id),
        seed=seed,
        kept=getattr(progress, "entry", None),
        heard=getattr(progress, "hear", None),
    )
    log = _TurnLog(store, episode_id, progress)
    stop = _drive(policy, env, log, limits or Limits(), clock)
    answer = store.submission(log.answer) if log.answer else None
    if answer is not None and stop not in TASK_STOPS:
        # it competes with what the policy had judged
        env.judge(answer)
    best = env.best()
    final, judged_answer = _score(env, store, best, log.answer, progress)
    episode = Episode(
        episode_id=episode_id,
        policy=policy.name,
        task_hash=task.task_hash,
        task_name=task.name,
        task_record_hash=task.content_hash,
        device=settings.device,
        rules=settings.rules,
        turns=tuple(log.turns),
        stop=stop,
        best_submission_hash=best,
        final_verdict_hash=final.content_hash if final else None,
        reward=reward_of(final, speedup) if final else None,
        started_at=started.isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - clock + log.earlier_s, 3),
        answer_submission_hash=log.answer,
        answer_verdict_hash=judged_answer.content_hash if judged_answer else None,
        answer_reward=reward_of(judged_answer, speedup) if judged_answer else None,
        usage=log.usage if log.usage != Usage() else None,
        bad_calls=sum(turn.bad_calls for turn in log.turns),
        sample=sample,
        seed=seed,
        policy_settings=told_of(policy),
    )
    store.put_episode(episode)
    if stop not in RESUMABLE:
        _remove(workdir)
    return episode


def _remove(workdir: Path) -> None:
    shutil.rmtree(workdir, ignore_errors=True)
    with contextlib.suppress(OSError):  # other episodes of the run may still be at work beside it
        workdir.parent.rmdir()


def identity(
    task: Task, policy: Policy, settings: JudgeSettings, sample: int = 0, seed: int | None = None
) -> str:
    """The same question has the same id, whichever process asks it; what the policy was told is part of it."""
    attempt = "" if (sample, seed) == (0, None) else f" {sample} {seed}"
    told = told_of(policy)
    said = f" {json.dumps(told, sort_keys=True)}" if told else ""
    return sha256_hex(f"{task.content_hash} {policy.name} {settings.content_hash}{attempt}{said}")[:16]


def told_of(policy: Policy) -> dict[str, Any]:
    """The settings of a policy that has any."""
    return dict(getattr(policy, "settings", {}))


class _TurnLog:
    """Stores turns as they end. A turn that a killed run had stored alike is not stored twice."""

    def __init__(self, store: RunStore, episode_id: str, progress: EpisodeListener | None) -> None:
        self.turns: list[Turn] = []
        self.answer: str | None = None
        self.usage = Usage()
        self.earlier_s = 0.0
        """Spent on turns by processes that were interrupted."""
        self._store = store
        self._episode_id = episode_id
        self._progress = progress
        self._known = {self._content(turn): turn for turn in store.turns(episode_id)}

    def add(self, step: PolicyStep, seconds: float, verdict: Verdict | None = None) -> None:
        """Appends the next turn and tells the listener."""
        if step.answer is not None and step.answer.submission_hash != self.answer:
            self.answer = self._store.put_submission(step.answer)
        turn = Turn(
            index=len(self.turns),
            note=step.note,
            submission_hash=step.submission.submission_hash if step.submission else None,
            verdict_hash=verdict.content_hash if verdict else None,
            seconds=round(seconds, 3),
            answer_hash=step.answer.submission_hash if step.answer else None,
            usage=step.usage,
            calls=step.calls,
            bad_calls=step.bad_calls,
            left=step.left,
        )
        self.usage = self.usage.plus(step.usage or Usage())
        known = self._known.get(self._content(turn))
        if known is None:
            self._store.append_turn(self._episode_id, turn)
        else:
            self.earlier_s += known.seconds
        self.turns.append(known or turn)
        if self._progress is not None:
            self._progress.turn(turn, verdict)

    @staticmethod
    def _content(turn: Turn) -> Turn:
        return turn.model_copy(update={"seconds": 0.0})


def _drive(
    policy: Policy, env: EpisodeEnvironment, log: _TurnLog, limits: Limits, clock: float
) -> StopReason:
    """Runs the policy's generator to its end or to a limit."""
    steps = policy.solve(env)
    verdict: Verdict | None = None
    begun = time.monotonic()
    try:
        while True:
            step = steps.send(verdict)
            verdict = _verdict(env, step.submission) if step.submission else None
            log.add(step, time.monotonic() - begun, verdict)
            begun = time.monotonic()
            if verdict is not None and verdict.status is Status.TASK_REFUSED:
                return StopReason.TASK_REFUSED
            reached = limits.reached(len(log.turns), begun - clock + log.earlier_s, log.usage)
            if reached is not None:
                return reached
    except StopIteration as end:
        return end.value or StopReason.FINISHED
    except InfrastructureError:
        raise
    except TaskError as error:
        log.add(PolicyStep(note=str(error)), time.monotonic() - begun)
        unsupported = isinstance(error, TaskUnsupportedError)
        return StopReason.TASK_UNSUPPORTED if unsupported else StopReason.TASK_REFUSED
    except Exception as error:  # noqa: BLE001  whatever a policy raises is data about the policy
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{frame.filename}:{frame.lineno}"
        note = " ".join(f"{type(error).__name__}: {error} ({place})".split())
        log.add(PolicyStep(note=note), time.monotonic() - begun)
        return StopReason.POLICY_FAILED
    finally:
        steps.close()


def _score(
    env: EpisodeEnvironment,
    store: RunStore,
    best: str | None,
    answer: str | None,
    progress: EpisodeListener | None,
) -> tuple[Verdict | None, Verdict | None]:
    """The fresh judgements of the best submission and of the policy's answer."""
    if best is not None and progress is not None:
        progress.scoring(best)
    final = _judge_afresh(env, store, best)
    # where nothing passed, nothing is worth a second judgement
    return final, _judge_afresh(env, store, answer) if best else env.judged.get(answer or "")


def _verdict(env: EpisodeEnvironment, submission: Submission) -> Verdict:
    """What the policy was told of it, else what the judge says now."""
    return env.verdict(submission.submission_hash) or env.judge(submission)


def _judge_afresh(env: EpisodeEnvironment, store: RunStore, submission_hash: str | None) -> Verdict | None:
    submission = store.submission(submission_hash) if submission_hash else None
    return env.judge_final(submission) if submission else None
