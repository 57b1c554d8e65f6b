"""A step's figures, worked out by hand."""

import json
import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("tensordict", reason="needs the extra train")

from tensordict import NonTensorData, NonTensorStack, TensorDict  # noqa: E402

from warpsmith.errors import InfrastructureError  # noqa: E402
from warpsmith.training.engine.figures import critic_figures, episode_figures, plain  # noqa: E402


def nested(*rows: list[float]) -> torch.Tensor:
    return torch.nested.as_nested_tensor([torch.tensor(row) for row in rows], layout=torch.jagged)


def told(reward: float | None, turns: int, masked: float, fault: str = "") -> dict[str, str]:
    said = {"reward": reward, "fault": fault, "turns": turns, "masked_share": masked, "truncated": turns > 2}
    said |= {"generate_s": 2.0 * turns, "judge_s": 1.0 * turns}
    return {"warpsmith": json.dumps(said)}


def batch(*extra: dict[str, str]) -> TensorDict:
    """Three episodes; what the second and third say of the first token is off, and the third may not be used."""
    return TensorDict(
        {
            "response_mask": nested([1.0, 0.0, 1.0], [1.0, 1.0], [0.0]),
            "rollout_log_probs": nested([-1.0, 0.0, -2.0], [-1.0, -1.0], [-9.0]),
            "old_log_probs": nested([-1.0, -5.0, -2.0], [-1.0, -1.0 + math.log(4.0)], [0.0]),
            "values": nested([0.0, 7.0, 1.0], [2.0, 3.0], [9.0]),
            "returns": nested([0.0, 0.0, 1.0], [2.0, 3.0], [0.0]),
            "extra_fields": NonTensorStack(*(NonTensorData(one) for one in extra)),
            "uid": NonTensorStack(*(NonTensorData(uid) for uid in ("a", "a", "b"))),
        },
        batch_size=[3],
    )


def test_of_episodes() -> None:
    found = episode_figures(
        batch(told(1.0, 3, 1 / 3), told(-1.0, 1, 0.0), told(None, 2, 0.0, "lost")), 3, 2.0
    )
    assert {name: found[name] for name in ("reward/mean", "reward/1", "reward/-1", "reward/none")} == {
        "reward/mean": 0.0, "reward/1": 1 / 3, "reward/-1": 1 / 3, "reward/none": 1 / 3,
    }  # fmt: skip
    assert (found["groups/mixed"], found["groups/flat_share"]) == (1, 0.0)
    assert (found["turns/mean"], found["response/tokens"]) == (2.0, 2.0)
    assert (found["episode/generate_s"], found["episode/judge_s"]) == (4.0, 2.0)
    assert found["response/masked_share"] == pytest.approx(1 / 9)
    assert found["response/clip_ratio"] == pytest.approx(1 / 3)
    # of four written tokens one has become four times as likely
    assert found["mismatch/kl"] == pytest.approx(-math.log(4) / 4, rel=1e-5)
    assert (found["ratio/p50"], found["ratio/cut"]) == (1.0, 0.25)


def test_of_the_critic() -> None:
    assert critic_figures(batch(told(1.0, 1, 0.0), told(1.0, 1, 0.0), told(1.0, 1, 0.0))) == {
        "critic/explained_variance": 1.0
    }


def test_a_step_that_nobody_can_learn_from() -> None:
    lost = told(None, 1, 0.0, "the pool has gone")
    with pytest.raises(InfrastructureError, match="the pool has gone"):
        episode_figures(batch(lost, lost, lost), 3, 2.0)


def test_numbers_of_any_kind_under_the_names_that_the_watch_knows() -> None:
    metrics = {
        "actor/pg_loss": np.float32(0.5),
        "actor/entropy_loss": torch.tensor(1.5),
        "training/global_step": 3,
        "critic/vf_loss": np.array([2.0]),
        "lists": [1.0, 2.0],
        "text": "x",
    }
    assert plain(metrics) == {
        "actor/loss": 0.5,
        "actor/pg_loss": 0.5,
        "actor/entropy": 1.5,
        "actor/entropy_loss": 1.5,
        "critic/loss": 2.0,
        "critic/vf_loss": 2.0,
        "training/global_step": 3.0,
    }
