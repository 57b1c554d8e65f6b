"""The one path by which a policy works on a task: `run_episode`."""

from warpsmith.rollout.episode import RESUMABLE, EpisodeListener, Limits, run_episode, told_of

__all__ = ["RESUMABLE", "EpisodeListener", "Limits", "run_episode", "told_of"]
