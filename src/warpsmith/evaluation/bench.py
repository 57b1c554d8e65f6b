"""A policy over a task set: which questions are open, who answers them, when it is enough. Imports no torch."""

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Protocol

from warpsmith.errors import InfrastructureError
from warpsmith.evaluation.rows import task_of
from warpsmith.rollout import RESUMABLE
from warpsmith.store import FailureLine, RunReader, RunStore
from warpsmith.types import Device, Episode, Record, Task, sha256_hex
from warpsmith.types.llm import Usage

_JOIN_S = 10.0
_POLL_S = 0.2


class Question(Record):
    """One attempt at one task."""

    task: Task
    sample: int
    seed: int

    @property
    def key(self) -> tuple[str, str, int]:
        """What the run's store knows it by."""
        return self.task.task_hash, self.task.name, self.sample


def seed_of(run_seed: int, task_hash: str, sample: int) -> int:
    """The seed of a sample, below 2³¹: the same for the same run seed, task and sample, whatever else is run."""
    return int(sha256_hex(f"{run_seed} {task_hash} {sample}")[:8], 16) >> 1


def questions(tasks: Sequence[Task], samples: int, run_seed: int) -> tuple[Question, ...]:
    """Every sample of every task: first one sample of each, so that a run that is cut short has seen all tasks."""
    return tuple(
        Question(task=task, sample=sample, seed=seed_of(run_seed, task.task_hash, sample))
        for sample in range(samples)
        for task in tasks
    )


def set_hash(tasks: Sequence[Task]) -> str:
    """Identity of a task set: its tasks in order, with their names."""
    return sha256_hex("".join(f"{task.task_hash} {task.name}\n" for task in tasks))


def answered(run: RunReader) -> set[tuple[str, str, int]]:
    """Keys of the questions that have an episode which is final."""
    found = set()
    for episode in run.episodes():
        task = task_of(run, episode)
        origin = (task.derived_from if task else None) or episode.task_hash
        if episode.stop not in RESUMABLE:
            found.add((origin, episode.task_name, episode.sample))
    return found


class Budget(Record):
    """When no further episode is begun; those that are under way end by themselves. None: never.

    All but `seconds` count what the run has spent since it was first started.
    """

    episodes: int | None = None
    seconds: float | None = None
    """Wall time of this start."""
    gpu_seconds: float | None = None
    """Of judgements on a GPU, compiling left out."""
    cost_usd: float | None = None

    def reached(self, spent: "Spent", seconds: float) -> "Ending | None":
        """The first that is, if any."""
        limits = (
            (Ending.EPISODES, self.episodes, spent.episodes),
            (Ending.TIME, self.seconds, seconds),
            (Ending.GPU_TIME, self.gpu_seconds, spent.gpu_seconds),
            (Ending.COST, self.cost_usd, spent.cost_usd),
        )
        return next((ending for ending, limit, now in limits if limit is not None and now >= limit), None)


class Spent(Record):
    """What a run has spent so far, over all its starts."""

    episodes: int = 0
    episode_seconds: float = 0.0
    """Sum over episodes that have ended."""
    gpu_seconds: float = 0.0
    cost_usd: float = 0.0

    @classmethod
    def of(cls, run: RunReader) -> "Spent":
        """Read off its store; money and tokens of episodes that were lost are in their turns."""
        episodes = [episode for episode in run.episodes() if episode.stop not in RESUMABLE]
        usage = Usage()
        for turn in run.turns():
            usage = usage.plus(turn.usage or Usage())
        on_gpu = [v for v in run.verdicts() if v.device is Device.CUDA]
        return cls(
            episodes=len(episodes),
            episode_seconds=sum(episode.seconds for episode in episodes),
            gpu_seconds=sum(s for v in on_gpu for phase, s in v.seconds.items() if phase != "compile"),
            cost_usd=usage.cost_usd or 0.0,
        )


class Ending(StrEnum):
    """Why a start came to its end."""

    DONE = "done"
    EPISODES = "episode budget"
    TIME = "time budget"
    GPU_TIME = "GPU budget"
    COST = "cost budget"
    BROKEN = "one episode after another was lost"


class Estimate(Record):
    """What is left to do. None: nothing tells. `measured`: by the run's own episodes, else by what is assumed."""

    episodes: int
    seconds: float | None = None
    cost_usd: float | None = None
    measured: bool = False


def estimate(
    left: int, spent: Spent, *, jobs: int, assumed_s: float | None, priced: bool, most_usd: float | None
) -> Estimate:
    """Time and cost of `left` episodes, `jobs` at a time; `most_usd`: what an episode may cost at most."""
    measured = spent.episodes > 0
    each_s = spent.episode_seconds / spent.episodes if measured else assumed_s
    each_usd: float | None = 0.0
    if priced:
        each_usd = spent.cost_usd / spent.episodes if measured else most_usd
    return Estimate(
        episodes=left,
        seconds=None if each_s is None else each_s * left / max(1, min(jobs, left or 1)),
        cost_usd=None if each_usd is None else each_usd * left,
        measured=measured,
    )


class BenchListener(Protocol):
    """Is told what happens, from one thread, once it is stored."""

    def finished(self, question: Question, episode: Episode) -> None: ...

    def lost(self, question: Question, why: str) -> None: ...


class Outcome(Record):
    """How a start ended. `lost`: (task, sample, why) of episodes that the next start tries again."""

    ending: Ending
    finished: int
    lost: tuple[tuple[str, int, str], ...] = ()


Solve = Callable[[Question], Episode]


@dataclass
class _Answer:
    question: Question
    episode: Episode | None = None
    lost: InfrastructureError | None = None
    fatal: BaseException | None = None


class _Open:
    """Questions that wait; threads take them one by one, until none is left or a budget is spent."""

    def __init__(self, store: RunStore, waiting: Sequence[Question], budget: Budget):
        self.ending = Ending.DONE
        self.closed = False
        self.waiting = deque(waiting)
        self._store, self._budget = store, budget
        self._begun = time.monotonic()
        self._under_way = 0
        self._one = threading.Lock()

    def take(self) -> Question | None:
        """The next one, if there is any and it may be begun."""
        with self._one:
            if not self.waiting or self.closed:
                return None
            spent = Spent.of(self._store)
            spent = spent.model_copy(update={"episodes": spent.episodes + self._under_way})
            if reached := self._budget.reached(spent, time.monotonic() - self._begun):
                self.ending = reached
                return None
            self._under_way += 1
            return self.waiting.popleft()

    def ended(self) -> None:
        """One that was taken has ended."""
        with self._one:
            self._under_way -= 1

    def close(self, why: Ending | None = None) -> None:
        """No further one is handed out."""
        with self._one:
            self.closed = True
            self.ending = why or self.ending


def run_bench(
    store: RunStore,
    asked: Sequence[Question],
    start: Callable[[], Solve],
    *,
    jobs: int,
    budget: Budget,
    told: BenchListener,
    stop: Callable[[], None] = lambda: None,
) -> Outcome:
    """Answers every open question, `jobs` at a time; `start` makes what one thread answers with, by `run_episode`.

    An episode that ends in an InfrastructureError is recorded as lost and left to the next start; after several of
    them in a row no further one is begun. Any other error ends the bench and is raised. On KeyboardInterrupt `stop`
    is called, which must end what runs, and all that was stored stays.
    """
    done = answered(store)
    open_ = _Open(store, [question for question in asked if question.key not in done], budget)
    answers: queue.Queue[_Answer | None] = queue.Queue()
    count = max(1, min(jobs, len(open_.waiting)))
    threads = [
        threading.Thread(target=_work, args=(store, open_, start, answers), daemon=True) for _ in range(count)
    ]
    for thread in threads:
        thread.start()
    try:
        return _gather(open_, answers, count, told)
    except BaseException:
        open_.close()
        stop()
        raise
    finally:
        open_.close()
        deadline = time.monotonic() + _JOIN_S
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))


def _work(
    store: RunStore, open_: _Open, start: Callable[[], Solve], answers: "queue.Queue[_Answer | None]"
) -> None:
    """One thread: answers until nothing is open."""
    question, solve = open_.take(), None
    while question is not None:
        answer = _Answer(question)
        try:
            solve = solve or start()
            answer.episode = solve(question)
        except InfrastructureError as error:
            answer.lost = error
            # what was ended on purpose was not lost
            if not open_.closed:
                _record(store, question, str(error))
        except Exception as error:  # noqa: BLE001  raised again in the thread that waits for all of them
            answer.fatal = error
            open_.close()
        open_.ended()
        answers.put(answer)
        question = open_.take()
    answers.put(None)


def _record(store: RunStore, question: Question, why: str) -> None:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    store.put_failure(
        FailureLine(task_hash=question.task.task_hash, sample=question.sample, detail=why, at=now)
    )


def _gather(
    open_: _Open, answers: "queue.Queue[_Answer | None]", threads: int, told: BenchListener
) -> Outcome:
    """Hears every answer, and ends when the last thread has."""
    finished, row = 0, 0
    lost: dict[tuple[str, str, int], tuple[str, int, str]] = {}
    for answer in _heard(answers, threads):
        question = answer.question
        if answer.fatal is not None:
            raise answer.fatal
        if answer.episode is not None and answer.episode.stop not in RESUMABLE:
            finished, row = finished + 1, 0
            told.finished(question, answer.episode)
        else:
            why = _why(answer)
            lost[question.key] = (question.task.name, question.sample, why)
            row += 1
            told.lost(question, why)
        if row >= max(3, 2 * threads) and open_.waiting:
            open_.close(Ending.BROKEN)
    return Outcome(ending=open_.ending, finished=finished, lost=tuple(lost.values()))


def _why(answer: _Answer) -> str:
    """Why an episode was lost, in a line."""
    if answer.lost is not None:
        return str(answer.lost)
    turns = answer.episode.turns if answer.episode else ()
    return turns[-1].note if turns else "the language model could not be reached"


def _heard(answers: "queue.Queue[_Answer | None]", threads: int) -> Iterator[_Answer]:
    """Answers as they come, until every thread has said that it has ended."""
    while threads:
        try:
            # with a limit, so that Ctrl-C is heard
            answer = answers.get(timeout=_POLL_S)
        except queue.Empty:
            continue
        if answer is None:
            threads -= 1
        else:
            yield answer
