"""What rejection fine-tuning learns from: token ids with a loss mask, from episodes that deserve it."""

from collections import Counter
from collections.abc import Sequence

from pydantic import Field, ValidationError, model_validator

from warpsmith.agent.text_calls import as_text
from warpsmith.errors import UntrainableError
from warpsmith.rollout.journal import journal_path, read_journal
from warpsmith.store import RunReader
from warpsmith.training.chat import ChatEncoder
from warpsmith.training.filters import FilterSettings, Rejection, rejections
from warpsmith.training.reward import RewardSettings, episode_reward
from warpsmith.training.trajectory import trajectory_of
from warpsmith.types import Episode, Record
from warpsmith.types.llm import Entry, Message, Role


class Sample(Record):
    """One conversation to learn; `mask[t]`: the loss counts `ids[t]`."""

    episode_id: str
    policy: str
    task_hash: str
    reward: float
    ids: tuple[int, ...]  # (tokens,)
    mask: tuple[bool, ...]  # (tokens,)

    @model_validator(mode="after")
    def _holds(self) -> "Sample":
        if len(self.ids) != len(self.mask) or not any(self.mask[1:]):
            raise ValueError("a sample has as many mask bits as ids, and something to learn")
        return self


class SampleSettings(Record):
    """`max_tokens` cuts samples at their end; `max_per_task` keeps the highest rewards."""

    reward: RewardSettings = RewardSettings()
    filter: FilterSettings = FilterSettings()
    max_tokens: int = Field(131_072, ge=2)
    max_per_task: int | None = Field(None, ge=1)


class Selection(Record):
    """Samples kept, and how many episodes were left out for which fault."""

    samples: tuple[Sample, ...]
    episodes: int
    left_out: dict[str, int]


def select(runs: Sequence[RunReader], encoder: ChatEncoder, settings: SampleSettings) -> Selection:
    """Looks at every episode of the runs. An episode without a conversation is left out as such."""
    kept: list[Sample] = []
    left_out: Counter[str] = Counter()
    episodes = 0
    for run in runs:
        for episode in run.episodes():
            episodes += 1
            journal = read_journal(journal_path(run.path, episode.episode_id))
            reward = episode_reward(episode, run.verdict, settings.reward)
            against: Sequence[Rejection] = rejections(episode, journal, reward, settings.filter)
            if against or reward is None:
                left_out.update(rejection.fault.name.lower() for rejection in against)
                continue
            try:
                kept.append(sample_of(episode, journal, reward, encoder, settings.max_tokens))
            except UntrainableError:
                left_out["no_conversation"] += 1
    chosen = _best_of_each(kept, settings.max_per_task)
    if len(chosen) < len(kept):
        left_out["enough_of_this_task"] = len(kept) - len(chosen)
    return Selection(samples=tuple(chosen), episodes=episodes, left_out=dict(left_out))


def sample_of(
    episode: Episode, journal: Sequence[Entry], reward: float, encoder: ChatEncoder, max_tokens: int
) -> Sample:
    """The episode's conversation: as it was drawn where ids are known, else encoded. Raises UntrainableError."""
    try:
        drawn = trajectory_of(journal)
        ids = (*drawn.prompt, *drawn.response)
        mask = (*([False] * len(drawn.prompt)), *drawn.mask)
    except UntrainableError:
        ids, mask = encoded(journal, encoder)
    try:
        return Sample(
            episode_id=episode.episode_id,
            policy=episode.policy,
            task_hash=episode.task_hash,
            reward=reward,
            ids=ids[:max_tokens],
            mask=mask[:max_tokens],
        )
    except ValidationError as error:
        raise UntrainableError(f"nothing to learn in the first {max_tokens} tokens") from error


def encoded(journal: Sequence[Entry], encoder: ChatEncoder) -> tuple[tuple[int, ...], tuple[bool, ...]]:
    """Ids and mask of a conversation that is known as text only. Raises UntrainableError where there is no reply."""
    said = [
        entry.reply.message if entry.reply else entry.message
        for entry in journal
        if entry.reply is not None or entry.message is not None
    ]
    messages = as_text([message for message in said if message is not None])
    ids: list[int] = []
    mask: list[bool] = []
    waiting: list[Message] = []
    for message in messages:
        if message.role is not Role.ASSISTANT:
            waiting.append(message)
            continue
        told = encoder.more(waiting, closed=True) if ids else encoder.start(waiting)
        wrote = encoder.reply(message.text)
        ids += [*told, *wrote]
        mask += [*([False] * len(told)), *([True] * len(wrote))]
        waiting = []
    if not ids:
        raise UntrainableError("the episode holds no reply of a model")
    return tuple(ids), tuple(mask)


def _best_of_each(samples: list[Sample], most: int | None) -> list[Sample]:
    if most is None:
        return samples
    taken: Counter[str] = Counter()
    chosen = set()
    for at in sorted(range(len(samples)), key=lambda at: -samples[at].reward):
        taken[samples[at].task_hash] += 1
        if taken[samples[at].task_hash] <= most:
            chosen.add(at)
    return [sample for at, sample in enumerate(samples) if at in chosen]
