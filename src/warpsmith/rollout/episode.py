"""task + policy + environment + judge + reward -> Episode."""

import contextlib
import shutil
import time
import traceback
from datetime import UTC, datetime
from typing import Protocol

from warpsmith.errors import InfrastructureError, TaskError
from warpsmith.reward import SpeedupKind, reward_of
from warpsmith.rollout.environment import EpisodeEnvironment
from warpsmith.store import RunStore
from warpsmith.store.files import make_folder
from warpsmith.types import Episode, Record, Status, StopReason, Submission, Target, Task, Turn, Verdict
from warpsmith.types.base import sha256_hex
from warpsmith.types.protocols import Compiler, Judge, JudgeSettings, Policy


class Limits(Record):
    """When an episode ends though the policy would go on."""

    turns: int = 200
    seconds: float = 24 * 3600.0


class EpisodeListener(Protocol):
    """Is told what happens, once it is stored."""

    def turn(self, turn: Turn, verdict: Verdict | None) -> None:
        """The policy made a step, with this verdict where it put a submission before the judge."""
        ...

    def scoring(self, submission_hash: str) -> None:
        """The search has ended, and its best submission is about to be judged afresh."""
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
    progress: EpisodeListener | None = None,
) -> Episode:
    """Lets `policy` work on `task` and returns the stored episode; a finished one is returned as it is.

    Everything is stored as it happens, and verdicts already in the store are reused, so a run that was
    killed goes on by being called again. The score is a fresh judgement of the best passed submission. A
    policy's own errors end the episode and are data; InfrastructureError propagates, with all before it
    stored.
    """
    episode_id = identity(task, policy.name, settings)
    finished = next((e for e in store.episodes() if e.episode_id == episode_id), None)
    if finished is not None:
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
    )
    log = _TurnLog(store, episode_id, progress)
    stop = _drive(policy, env, log, limits or Limits(), clock)
    best = env.best()
    if best is not None and progress is not None:
        progress.scoring(best)
    final = _judge_best(env, store, best)
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
        seconds=round(time.monotonic() - clock, 3),
    )
    store.put_episode(episode)
    shutil.rmtree(workdir, ignore_errors=True)
    with contextlib.suppress(OSError):  # other episodes of the run may still be at work beside it
        workdir.parent.rmdir()
    return episode


def identity(task: Task, policy: str, settings: JudgeSettings) -> str:
    """The same question has the same id, whichever process asks it."""
    return sha256_hex(f"{task.content_hash} {policy} {settings.content_hash}")[:16]


class _TurnLog:
    """Stores turns as they end. A turn that a killed run had stored alike is not stored twice."""

    def __init__(self, store: RunStore, episode_id: str, progress: EpisodeListener | None) -> None:
        self.turns: list[Turn] = []
        self._store = store
        self._episode_id = episode_id
        self._progress = progress
        self._known = {self._content(turn): turn for turn in store.turns(episode_id)}

    def add(self, note: str, seconds: float, submission: Submission | None, verdict: Verdict | None) -> None:
        """Appends the next turn and tells the listener."""
        turn = Turn(
            index=len(self.turns),
            note=note,
            submission_hash=submission.submission_hash if submission else None,
            verdict_hash=verdict.content_hash if verdict else None,
            seconds=round(seconds, 3),
        )
        known = self._known.get(self._content(turn))
        if known is None:
            self._store.append_turn(self._episode_id, turn)
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
            verdict = env.judge(step.submission) if step.submission else None
            log.add(step.note, time.monotonic() - begun, step.submission, verdict)
            begun = time.monotonic()
            if verdict is not None and verdict.status is Status.TASK_REFUSED:
                return StopReason.TASK_REFUSED
            if len(log.turns) >= limits.turns:
                return StopReason.TURN_LIMIT
            if begun - clock > limits.seconds:
                return StopReason.TIME_LIMIT
    except StopIteration:
        return StopReason.FINISHED
    except InfrastructureError:
        raise
    except TaskError as error:
        log.add(str(error), time.monotonic() - begun, None, None)
        return StopReason.TASK_REFUSED
    except Exception as error:  # noqa: BLE001  whatever a policy raises is data about the policy
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{frame.filename}:{frame.lineno}"
        note = " ".join(f"{type(error).__name__}: {error} ({place})".split())
        log.add(note, time.monotonic() - begun, None, None)
        return StopReason.POLICY_FAILED
    finally:
        steps.close()


def _judge_best(env: EpisodeEnvironment, store: RunStore, best: str | None) -> Verdict | None:
    submission = store.submission(best) if best else None
    return env.judge_final(submission) if submission else None
