"""The one path by which a policy works on a task: `run_episode`."""

from warpsmith.rollout.episode import (
    EVALUATION,
    RESUMABLE,
    TRAINING,
    EpisodeListener,
    Limits,
    run_episode,
    told_of,
)

__all__ = ["EVALUATION", "RESUMABLE", "TRAINING", "EpisodeListener", "Limits", "run_episode", "told_of"]
