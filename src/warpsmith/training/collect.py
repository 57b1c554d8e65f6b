"""Trajectories of any policy, by the one path of every episode; those without a conversation are given one.

A policy without a model leaves submissions and notes. Its work is rendered as a model's by playing it again: an agent
whose replies are written from what was recorded makes the same calls on the same workspace and gets the tools' true
answers. Verdicts come from the store, so nothing is judged twice.
"""

import json
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from warpsmith.agent.policy import AgentPolicy
from warpsmith.agent.settings import AgentSettings
from warpsmith.agent.text_calls import CLOSE, OPEN
from warpsmith.errors import InfrastructureError
from warpsmith.llm.scripted import ScriptedLLM, ScriptedReply
from warpsmith.rollout import Limits, run_episode
from warpsmith.store import RunReader, RunStore
from warpsmith.training.budget import NO_BUDGET, Budget, BudgetSpentError
from warpsmith.types import Episode, StopReason, Target, Task, Verdict
from warpsmith.types.protocols import (
    Compiler,
    Environment,
    Judge,
    JudgeSettings,
    Policy,
    PolicyStep,
    Sandbox,
)

REPLAYED = "replayed:"
"""Before the name of the policy whose work was rendered; the agent's own mark stands before it."""
_MODEL_FILE = "model_new.py"


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class Workbench:
    """What episodes are built and judged with."""

    judge: Judge
    compiler: Compiler
    target: Target
    settings: JudgeSettings
    limits: Limits
    close: Callable[[], None] = _nothing
    """Ends what was started to judge; so does the end of this process."""


class Sampled:
    """The same policy once more: another sample is another episode."""

    def __init__(self, policy: Policy, sample: int):
        self.name = f"{policy.name}#{sample}" if sample else policy.name
        self._policy = policy

    def solve(self, env: Environment) -> Generator[PolicyStep, Verdict | None, StopReason | None]:
        """What the policy does."""
        return self._policy.solve(env)


def collect(
    tasks: Sequence[Task],
    policy: Callable[[], Policy],
    samples: int,
    bench: Workbench,
    store: RunStore,
    *,
    at_once: int = 1,
    max_faults: int = 3,
    budget: Budget = NO_BUDGET,
    failed: Callable[[Task, InfrastructureError], None] | None = None,
) -> Iterator[Episode]:
    """Plays `samples` episodes a task into `store`; finished ones are yielded as they are, so that it can be resumed.

    What fails of the machine's doing leaves its episode to the next run, and is told to `failed`; after `max_faults`
    in a row the error is raised. Raises BudgetSpentError where episodes are left when the time is up.
    """
    faults, left = 0, False
    asked = [(sample, task) for sample in range(samples) for task in tasks]

    def one(sample: int, task: Task) -> Episode | InfrastructureError:
        try:
            if budget.spent():
                raise BudgetSpentError("the stage's time is up", hint="give the same command again")
            return play(task, Sampled(policy(), sample), bench, store)
        except InfrastructureError as error:
            return error

    for (_, task), outcome in zip(asked, _in_order(one, asked, at_once), strict=True):
        if isinstance(outcome, Episode):
            yield outcome
            faults = 0
        elif isinstance(outcome, BudgetSpentError):
            left = True
        else:
            faults += 1
            if failed is not None:
                failed(task, outcome)
            if faults >= max_faults:
                raise outcome
    if left:
        raise BudgetSpentError("the stage's time is up", hint="give the same command again")


def _in_order(
    one: Callable[[int, Task], Episode | InfrastructureError],
    asked: Sequence[tuple[int, Task]],
    at_once: int,
) -> Iterator[Episode | InfrastructureError]:
    """What comes of each, in the order of asking, `at_once` under way."""
    if at_once == 1:
        # in this thread, which an interruption reaches
        yield from (one(*question) for question in asked)
        return
    with ThreadPoolExecutor(at_once, thread_name_prefix="episode") as threads:
        waiting = [threads.submit(one, *question) for question in asked]
        try:
            yield from (future.result() for future in waiting)
        finally:
            for future in waiting:
                future.cancel()


def play(task: Task, policy: Policy, bench: Workbench, store: RunStore) -> Episode:
    """One episode in `store`."""
    return run_episode(
        task,
        policy,
        judge=bench.judge,
        compiler=bench.compiler,
        target=bench.target,
        settings=bench.settings,
        store=store,
        limits=bench.limits,
    )


def render(
    episode: Episode,
    bench: Workbench,
    store: RunStore,
    sandbox: Sandbox,
    settings: AgentSettings | None = None,
) -> Episode | None:
    """The episode as an agent's, stored beside it under a policy named after it; None: it handed in nothing.

    Raises InfrastructureError where the store lacks the task or a submission.
    """
    replies = script_of(episode, store)
    if not replies:
        return None
    task = task_of(episode, store)
    llm = ScriptedLLM(replies, name=f"{REPLAYED}{episode.policy}", native_tools=False)
    settings = settings or AgentSettings(text_tools=True)
    return play(task, AgentPolicy(llm, sandbox, settings), bench, store)


def task_of(episode: Episode, store: RunReader) -> Task:
    """The task of an episode. Raises InfrastructureError where the store has lost it."""
    data = store.blob(episode.task_record_hash or "")
    if data is None:
        raise InfrastructureError(
            f"{store.path} holds no task of episode {episode.episode_id}",
            hint="it was written by an older version: collect again",
        )
    return Task.model_validate_json(data)


def script_of(episode: Episode, store: RunReader) -> list[ScriptedReply]:
    """Replies that redo what an episode handed in, its best last; empty where nothing passed."""
    best = episode.best_submission_hash
    if best is None:
        return []
    steps = [(turn.submission_hash, turn.note) for turn in episode.turns if turn.submission_hash is not None]
    if not steps or steps[-1][0] != best:
        steps.append((best, "The best result so far is put back."))
    replies = [_reply("I look at what is there first.", [("Read", {"file_path": _MODEL_FILE})])]
    before: dict[str, str] = {}
    for submission_hash, note in steps:
        submission = store.submission(submission_hash)
        if submission is None:
            raise InfrastructureError(f"{store.path} has lost submission {submission_hash[:12]}")
        replies.append(_reply(_sentence(note), _changes(before, submission.files)))
        replies.append(_reply("Is it right?", [("Verify", {})]))
        before = submission.files
    return [*replies, ScriptedReply(text="The judge has passed it: done.")]


def _changes(before: dict[str, str], after: dict[str, str]) -> list[tuple[str, dict[str, str]]]:
    """Calls that turn one state of the folder into the other."""
    calls: list[tuple[str, dict[str, str]]] = [
        ("Write", {"file_path": path, "content": text})
        for path, text in after.items()
        if before.get(path) != text
    ]
    gone = " ".join(f"'{path}'" for path in before if path not in after)
    return [*calls, ("Bash", {"command": f"rm -f {gone}"})] if gone else calls


def _reply(text: str, calls: Sequence[tuple[str, dict[str, str]]]) -> ScriptedReply:
    blocks = [
        f"{OPEN}\n{json.dumps({'name': name, 'arguments': arguments})}\n{CLOSE}" for name, arguments in calls
    ]
    return ScriptedReply(text="\n".join([text, *blocks]))


def _sentence(note: str) -> str:
    note = note.strip()
    return f"{note[:1].upper()}{note[1:]}." if note else "The next version."
