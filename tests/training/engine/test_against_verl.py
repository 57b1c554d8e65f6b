"""Figures worked out by hand against what verl computes from the same."""

import json

import pytest

torch = pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("verl", reason="needs the extra train")

from omegaconf import OmegaConf  # noqa: E402
from tensordict import NonTensorData, TensorDict  # noqa: E402
from verl.experimental.agent_loop.agent_loop import AgentLoopOutput  # noqa: E402
from verl.trainer.ppo.core_algos import compute_gae_advantage_return  # noqa: E402

from warpsmith.training.advantage import (  # noqa: E402
    Lambdas,
    advantages,
    outcome_rewards,
    value_targets,
    whitened,
)
from warpsmith.training.engine.agent_loop import _output  # noqa: E402
from warpsmith.training.engine.learner import value_loss  # noqa: E402
from warpsmith.training.engine.policy_loss import policy_loss  # noqa: E402
from warpsmith.training.engine.ppo import decoupled  # noqa: E402
from warpsmith.training.instruments import clip_fractions  # noqa: E402
from warpsmith.training.player import Played  # noqa: E402
from warpsmith.training.trajectory import Trajectory  # noqa: E402

MASK = [True, False, True]
VALUES = [0.5, 9.0, 0.2]
TRAJECTORY = Trajectory(
    prompt=(1, 2), response=(3, 4, 5), mask=tuple(MASK), logprobs=(-0.5, 0.0, -1.0), replies=2
)


def as_verl_has_it(output: AgentLoopOutput) -> dict[str, torch.Tensor]:
    return output.as_dict()


def test_what_verl_receives_of_an_episode() -> None:
    found = as_verl_has_it(_output(Played(TRAJECTORY, 2.0, None), 3, {"global_steps": 2}))
    assert found["prompts"].tolist() == [1, 2] and found["responses"].tolist() == [3, 4, 5]
    assert found["response_mask"].tolist() == [1, 0, 1]
    assert found["rollout_log_probs"].tolist() == [-0.5, 0.0, -1.0]
    assert found["rm_scores"].tolist() == [0.0, 0.0, 2.0] == outcome_rewards(2.0, MASK)
    assert json.loads(found["extra_fields"]["warpsmith"])["reward"] == 2.0


@pytest.mark.parametrize(
    "played",
    [
        Played(TRAJECTORY, None, None, "no reward"),
        Played(None, 1.0, None, "?"),
        Played(None, None, None, "gone"),
    ],
)
def test_what_may_not_be_learned_is_masked_whole(played: Played) -> None:
    found = as_verl_has_it(_output(played, 1, {}))
    assert found["response_mask"].sum() == 0 and found["rm_scores"].abs().sum() == 0
    assert len(found["responses"]) == len(found["response_mask"]) == len(found["rollout_log_probs"])


def test_advantages_and_targets() -> None:
    tensors = (
        torch.tensor([outcome_rewards(2.0, MASK)]),
        torch.tensor([VALUES]),
        torch.tensor([MASK]).float(),
    )
    gains, returns = compute_gae_advantage_return(*tensors, 1.0, 0.95)
    # by hand: Â = 1.41 and 1.8, V + Â = 1.91 and 2.0
    rewards = outcome_rewards(2.0, MASK)
    assert advantages(rewards, VALUES, MASK, 1.0, 0.95) == pytest.approx([1.41, 0.0, 1.8])
    assert (returns[0] * tensors[2][0]).tolist() == pytest.approx([1.91, 0.0, 2.0])
    assert (gains[0] * tensors[2][0]).tolist() == pytest.approx(whitened([1.41, 0.0, 1.8], MASK), abs=1e-4)


def test_each_gets_its_own_lambda() -> None:
    tensors = (
        torch.tensor([outcome_rewards(2.0, MASK)]),
        torch.tensor([VALUES]),
        torch.tensor([MASK]).float(),
    )
    gains, returns = decoupled(Lambdas(actor=0.95, critic=1.0))(*tensors, None, None)
    alone, _ = compute_gae_advantage_return(*tensors, 1.0, 0.95)
    assert gains.tolist() == alone.tolist()
    assert (returns[0] * tensors[2][0]).tolist() == pytest.approx(
        value_targets(outcome_rewards(2.0, MASK), VALUES, MASK, 1.0, 1.0)
    )


def test_a_reward_on_a_masked_token_is_lost_without_a_word() -> None:
    """The trap: had the trajectory ended on tool text, every return would be what the critic had said before."""
    mask = torch.tensor([[1.0, 1.0, 0.0]])
    values = torch.zeros(1, 3)
    _, lost = compute_gae_advantage_return(torch.tensor([[0.0, 0.0, 2.0]]), values, mask, 1.0, 0.95)
    assert (lost * mask).abs().sum() == 0.0
    # which no trajectory of ours can be: it would not be one
    with pytest.raises(ValueError, match="ends on a token that the model wrote"):
        Trajectory(prompt=(1,), response=(2, 3, 4), mask=(True, True, False), logprobs=(0.0,) * 3, replies=1)
    kept = as_verl_has_it(_output(Played(TRAJECTORY, 2.0, None), 1, {}))
    assert kept["response_mask"][-1] == 1


def test_the_clip_is_counted_on_each_side() -> None:
    ratios = [0.7, 0.7, 1.4, 1.4, 1.0, 5.0]
    gains = [-1.0, 1.0, 1.0, -1.0, 1.0, 1.0]
    mask = torch.tensor([[1.0] * 5 + [0.0]])
    config = OmegaConf.create(
        {"clip_ratio": 0.2, "clip_ratio_low": 0.2, "clip_ratio_high": 0.28, "clip_ratio_c": 1e6}
    )
    config.global_batch_info = {}
    loss, metrics = policy_loss(
        torch.zeros(1, 6),
        torch.log(torch.tensor([ratios])),
        torch.tensor([gains]),
        mask,
        "token-mean",
        config,
    )
    low, high = clip_fractions(ratios[:5], gains[:5], 0.2, 0.28)
    assert (metrics["actor/clip_low"], metrics["actor/clip_high"]) == (low, high) == (0.2, 0.2)
    assert metrics["actor/pg_clipfrac"] == pytest.approx(low + high)
    # by hand: 0.8·1 − 0.7 − 1.28 + 1.4 − 1.0 over five tokens
    assert loss.item() == pytest.approx((0.8 - 0.7 - 1.28 + 1.4 - 1.0) / 5)


def test_the_critics_loss_is_half_the_squared_error_of_the_position_before() -> None:
    def nested(*rows: list[float]) -> torch.Tensor:
        return torch.nested.as_nested_tensor([torch.tensor(row) for row in rows], layout=torch.jagged)

    # the token at position 2 is valued at position 1, and so on; the last position values nothing
    values = nested([9.0, 1.0, 3.0, 9.0], [2.0, 9.0])
    data = TensorDict(
        {
            "loss_mask": nested([0.0, 0.0, 1.0, 1.0], [0.0, 1.0]),
            "targets": nested([0.0, 0.0, 2.0, 1.0], [0.0, -1.0]),
            "batch_num_tokens": NonTensorData(3),
            "dp_size": NonTensorData(1),
        },
        batch_size=[2],
    )
    loss, _ = value_loss({"values": values}, data)
    assert loss.item() == pytest.approx(0.5 * ((1 - 2) ** 2 + (3 - 1) ** 2 + (2 + 1) ** 2) / 3)
