"""One episode for a trainer: played, judged, rewarded, and turned into tokens; what fails is left out and told.

Each has a run folder of its own, so that many can be under way at once in many processes. One that finished before a
trainer was killed is taken as it is; one that was under way goes on with the tokens that were drawn.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from pydantic import Field

from warpsmith.agent.policy import AgentPolicy
from warpsmith.agent.settings import AgentSettings
from warpsmith.agent.single_turn import SingleTurnPolicy
from warpsmith.errors import InfrastructureError, UntrainableError
from warpsmith.rollout import Limits, run_episode
from warpsmith.rollout.episode import TRAINING_TURNS, identity
from warpsmith.rollout.journal import journal_path, read_journal
from warpsmith.sandbox import LocalSandbox, best_available
from warpsmith.store import Manifest, RunStore
from warpsmith.training.chat import ChatEncoder
from warpsmith.training.judges import JudgeSpec, connect_judge
from warpsmith.training.reward import RewardSettings, episode_reward
from warpsmith.training.token_llm import Generate, Generated, TokenLLM
from warpsmith.training.trajectory import Trajectory, trajectory_of
from warpsmith.types import Episode, Record, Submission, Task, Verdict
from warpsmith.types.protocols import Judge, JudgeSettings, Policy


class Mode(StrEnum):
    """How the policy works: with tools over many turns, or by one answer."""

    AGENT = "agent"
    SINGLE_TURN = "single_turn"


class EpisodePlan(Record):
    """How the episodes of a training run are played. It crosses to every worker as JSON."""

    folder: str
    """Of the run: each episode gets one of its own below it."""
    mode: Mode = Mode.AGENT
    judge: JudgeSpec
    reward: RewardSettings = RewardSettings()
    turns: int = Field(TRAINING_TURNS, ge=1)
    seconds: float = Field(3600.0, gt=0)
    """Of one episode; judging counts."""
    context_tokens: int = Field(131_072, ge=64)
    response_tokens: int = Field(98_304, ge=1)
    """Longer trajectories are cut."""
    answer_tokens: int = Field(8192, ge=16)
    """Of one reply."""
    temperature: float = Field(1.0, ge=0)
    compact: bool = False
    """A short prompt and few tools, for small models and contexts."""
    judge_seconds: float = Field(1800.0, gt=0)
    """Longest wait for one verdict; then the judge counts as lost."""
    attempts: int = Field(3, ge=1)
    """Tries at an episode whose judge is lost."""
    wait_s: float = Field(10.0, ge=0)
    """Before the second try; doubled before each further one."""
    unsafe_local: bool = False


@dataclass(frozen=True)
class Played:
    """`reward` or `trajectory` None: not to be trained on, for the reason `fault`."""

    trajectory: Trajectory | None
    reward: float | None
    episode: Episode | None
    fault: str = ""
    generate_s: float = field(default=0.0, compare=False)
    judge_s: float = field(default=0.0, compare=False)
    """What this process waited for: nothing of what an earlier one had done."""

    @property
    def usable(self) -> bool:
        """Whether a trainer may learn from it."""
        return self.trajectory is not None and self.reward is not None


class Player:
    """Plays episodes by a plan. Safe to use from several threads."""

    def __init__(
        self, plan: EpisodePlan, encoder: ChatEncoder, *, sleep: Callable[[float], None] = time.sleep
    ):
        self._plan = plan
        self._encoder = encoder
        self._sleep = sleep
        bench = connect_judge(plan.judge)
        self._judge: Judge = bench.judge
        self._compiler, self._target, self._settings = bench.compiler, bench.target, bench.settings

    def play(self, task: Task, name: str, generate: Generate) -> Played:
        """The episode of this name: the same name on the same task is the same episode. Raises only for usage."""
        judge, generate_s = PatientJudge(self._judge, self._plan.judge_seconds), 0.0

        def timed(prompt: Sequence[int], most: int, temperature: float) -> Generated:
            nonlocal generate_s
            begun = time.monotonic()
            try:
                return generate(prompt, most, temperature)
            finally:
                generate_s += time.monotonic() - begun

        played = self._patiently(task, name, timed, judge)
        return replace(played, generate_s=generate_s, judge_s=judge.waited_s)

    def _patiently(self, task: Task, name: str, generate: Generate, judge: Judge) -> Played:
        wait_s = self._plan.wait_s
        for attempt in range(1, self._plan.attempts + 1):
            try:
                return self._once(task, name, generate, judge)
            except InfrastructureError as error:
                if attempt == self._plan.attempts:
                    return Played(None, None, None, fault=str(error))
                self._sleep(wait_s)
                wait_s *= 2
        raise AssertionError("attempts is at least 1")

    def _once(self, task: Task, name: str, generate: Generate, judge: Judge) -> Played:
        plan = self._plan
        folder = Path(plan.folder) / name
        llm = TokenLLM(name, self._encoder, generate, plan.context_tokens, temperature=plan.temperature)
        policy = self._policy(llm)
        with RunStore(folder) as store:
            store.open(_manifest(task, policy.name, self._settings, plan))
            journal = journal_path(folder, identity(task, policy, self._settings))
            llm.recall(read_journal(journal))
            episode = run_episode(
                task,
                policy,
                judge=judge,
                compiler=self._compiler,
                target=self._target,
                settings=self._settings,
                store=store,
                limits=Limits(turns=plan.turns, seconds=plan.seconds),
                speedup=plan.reward.speedup,
            )
            reward = episode_reward(episode, store.verdict, plan.reward)
        try:
            trajectory = trajectory_of(read_journal(journal)).cut(plan.response_tokens)
        except UntrainableError as error:
            return Played(None, reward, episode, fault=f"{error}; it ended as {episode.stop.value}")
        fault = "" if reward is not None else f"no reward: the episode ended as {episode.stop.value}"
        return Played(trajectory, reward, episode, fault)

    def _policy(self, llm: TokenLLM) -> Policy:
        plan = self._plan
        settings = AgentSettings(
            context_tokens=max(1024, plan.context_tokens),
            max_output_tokens=plan.answer_tokens,
            temperature=plan.temperature,
            keep_tokens=True,
            text_tools=True,
            trim=False,
            compact=plan.compact,
        )
        if plan.mode is Mode.SINGLE_TURN:
            return SingleTurnPolicy(llm, settings)
        return AgentPolicy(llm, LocalSandbox() if plan.unsafe_local else best_available(), settings)


class PatientJudge:
    """A judge whose verdict is waited for so long; then it counts as lost, and InfrastructureError is raised."""

    def __init__(self, judge: Judge, seconds: float):
        self._judge = judge
        self._seconds = seconds
        self.waited_s = 0.0
        """For all verdicts so far."""

    def judge(self, task: Task, submission: Submission, settings: JudgeSettings) -> Verdict:
        """The judge's verdict, or whatever it raises."""
        found: list[Verdict] = []
        raised: list[BaseException] = []

        def ask() -> None:
            try:
                found.append(self._judge.judge(task, submission, settings))
            except BaseException as error:  # noqa: BLE001  raised again where it was asked for
                raised.append(error)

        # a thread that never ends must not keep the process from ending
        thread = threading.Thread(target=ask, daemon=True)
        begun = time.monotonic()
        thread.start()
        thread.join(self._seconds)
        self.waited_s += time.monotonic() - begun
        if raised:
            raise raised[0]
        if not found:
            raise InfrastructureError(
                f"the judge gave no verdict within {self._seconds:g} s", hint="see warpsmith doctor"
            )
        return found[0]


def _manifest(task: Task, policy: str, settings: JudgeSettings, plan: EpisodePlan) -> Manifest:
    return Manifest(
        command="train",
        task_hash=task.task_hash,
        task_name=task.name,
        policy=policy,
        device=settings.device,
        settings={"mode": plan.mode.value, "reward": plan.reward.scheme, "judge": settings.content_hash},
    )
