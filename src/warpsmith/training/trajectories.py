"""Rewarded trajectories in a file: what the critic is pretrained on."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from warpsmith.errors import UntrainableError
from warpsmith.rollout.journal import journal_path, read_journal
from warpsmith.store import RunReader
from warpsmith.training.reward import RewardSettings, episode_reward
from warpsmith.training.trajectory import Trajectory, trajectory_of
from warpsmith.types import Record


class Rewarded(Record):
    """A trajectory and what its episode earned, whatever that was."""

    episode_id: str
    policy: str
    task_hash: str
    reward: float
    trajectory: Trajectory


class Gathered(Record):
    """Trajectories, and how many episodes cannot be used for which reason."""

    rewarded: tuple[Rewarded, ...]
    left_out: dict[str, int]


def gather(runs: Sequence[RunReader], reward: RewardSettings, response_tokens: int) -> Gathered:
    """Every rewarded trajectory of the runs, failures too: a critic that sees successes alone learns nothing."""
    found: list[Rewarded] = []
    left_out: Counter[str] = Counter()
    for run in runs:
        for episode in run.episodes():
            earned = episode_reward(episode, run.verdict, reward)
            if earned is None:
                left_out["no_reward"] += 1
                continue
            try:
                journal = read_journal(journal_path(run.path, episode.episode_id))
                trajectory = trajectory_of(journal).cut(response_tokens)
            except UntrainableError:
                left_out["no_token_ids"] += 1
                continue
            found.append(
                Rewarded(
                    episode_id=episode.episode_id,
                    policy=episode.policy,
                    task_hash=episode.task_hash,
                    reward=earned,
                    trajectory=trajectory,
                )
            )
    return Gathered(rewarded=tuple(found), left_out=dict(left_out))


def find_runs(folder: Path) -> list[RunReader]:
    """The run folders at or below `folder`, in order of their paths."""
    manifests = sorted(folder.rglob("manifest.json"))
    return [RunReader(path.parent) for path in manifests if (path.parent / "segments").is_dir()]
