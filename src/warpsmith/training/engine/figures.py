"""What is read off a step of verl's trainer. Fields of a batch are nested, (batch, tokens)."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from warpsmith.errors import InfrastructureError
from warpsmith.training.curriculum import count_groups
from warpsmith.training.instruments import (
    explained_variance,
    guarded_ratios,
    length_clip_ratio,
    milestones,
    mismatch,
)

EPISODE_FIELDS = ("response_mask", "rollout_log_probs", "old_log_probs", "extra_fields", "uid")
VALUE_FIELDS = ("response_mask", "values", "returns")
_RENAMED = {
    "actor/pg_loss": "actor/loss",
    "critic/vf_loss": "critic/loss",
    "actor/entropy_loss": "actor/entropy",
}
_LOOKED_AT = 200_000
"""Tokens of a step that are looked at, evenly spread."""


def episode_figures(data: Any, response_tokens: int, ratio_limit: float) -> dict[str, float]:
    """Figures of a step's episodes. Raises InfrastructureError where none of them may be learned from."""
    told = [json.loads(fields["warpsmith"]) for fields in _listed(data, "extra_fields")]
    rewards = [one["reward"] for one in told]
    given = [reward for reward in rewards if reward is not None]
    if not given:
        raise InfrastructureError(
            f"no episode of this step can be rewarded: {told[0]['fault']}",
            hint="mend that; the same command goes on from the last checkpoint",
        )
    groups: dict[str, list[float]] = {}
    for uid, reward in zip(_listed(data, "uid"), rewards, strict=True):
        if reward is not None:
            groups.setdefault(str(uid), []).append(reward)
    counted = count_groups(groups)
    lengths = data["response_mask"].offsets().diff().tolist()
    written = data["response_mask"].values().bool()
    rollout, trainer = _spread(data["rollout_log_probs"], written), _spread(data["old_log_probs"], written)
    _, cut = guarded_ratios(rollout, trainer, ratio_limit)
    return (
        milestones(rewards)
        | mismatch(rollout, trainer)
        | {
            "ratio/cut": cut,
            "reward/mean": sum(given) / len(given),
            "groups/flat_share": counted.flat_share,
            "groups/mixed": counted.mixed,
            "groups/all_failed": counted.all_failed,
            "episode/generate_s": sum(one["generate_s"] for one in told) / len(told),
            "episode/judge_s": sum(one["judge_s"] for one in told) / len(told),
            "turns/mean": sum(one["turns"] for one in told) / len(told),
            "response/masked_share": sum(one["masked_share"] for one in told) / len(told),
            "response/truncated": sum(one["truncated"] for one in told) / len(told),
            "response/tokens": sum(lengths) / len(lengths),
            "response/clip_ratio": length_clip_ratio(lengths, response_tokens),
        }
    )


def critic_figures(data: Any) -> dict[str, float]:
    """How much of the returns the critic foresaw."""
    written = data["response_mask"].values().bool()
    found = explained_variance(_spread(data["values"], written), _spread(data["returns"], written))
    return {"critic/explained_variance": found}


def plain(metrics: Mapping[str, Any]) -> dict[str, float]:
    """verl's metrics that are one number each, the main ones under the names that the watch knows."""
    numbers = {
        name: float(value.item() if hasattr(value, "item") else value)
        for name, value in metrics.items()
        if isinstance(value, int | float | np.number)
        or (isinstance(value, torch.Tensor | np.ndarray) and value.shape in ((), (1,)))
    }
    return {ours: numbers[theirs] for theirs, ours in _RENAMED.items() if theirs in numbers} | numbers


def _listed(data: Any, name: str) -> list[Any]:
    """A field that is no tensor, one item an episode, whichever kind of list it comes in."""
    return [getattr(item, "data", item) for item in data[name]]


def _spread(values: Any, written: torch.Tensor) -> Sequence[float]:
    """Up to _LOOKED_AT of the written tokens' values, evenly spread."""
    flat = values.values().float()[written]
    return flat[:: max(1, -(-len(flat) // _LOOKED_AT))].tolist()
