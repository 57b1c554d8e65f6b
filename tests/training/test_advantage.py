"""Advantages worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.training.advantage import Lambdas, advantages, outcome_rewards, value_targets, whitened

MASK = [True, False, True]


def test_masked_tokens_are_as_if_they_were_not_there() -> None:
    # tokens 0 and 2 are written, V = 0.5 and 0.2, r = 2 on the last; γ = 1, λ = 0.95
    # δ_2 = 2 − 0.2 = 1.8 = Â_2;  δ_0 = 0.2 − 0.5 = −0.3;  Â_0 = −0.3 + 0.95 · 1.8 = 1.41
    rewards, values = outcome_rewards(2.0, MASK), [0.5, 9.0, 0.2]
    assert rewards == [0.0, 0.0, 2.0]
    assert advantages(rewards, values, MASK, 1.0, 0.95) == pytest.approx([1.41, 0.0, 1.8])
    assert value_targets(rewards, values, MASK, 1.0, 0.95) == pytest.approx([1.91, 0.0, 2.0])


def test_discount() -> None:
    # δ_1 = 1 − 0.4 = 0.6;  δ_0 = 0.9 · 0.4 − 0.1 = 0.26;  Â_0 = 0.26 + 0.9 · 0.5 · 0.6 = 0.53
    assert advantages([0.0, 1.0], [0.1, 0.4], [True, True], 0.9, 0.5) == pytest.approx([0.53, 0.6])


def test_lambda_one_makes_the_target_the_outcome_and_zero_the_next_value() -> None:
    values, mask = [0.3, -0.2, 0.7], [True] * 3
    assert value_targets([0.0, 0.0, -1.0], values, mask, 1.0, 1.0) == pytest.approx([-1.0] * 3)
    assert value_targets([0.0, 0.0, -1.0], values, mask, 1.0, 0.0) == pytest.approx([-0.2, 0.7, -1.0])


def test_the_reward_needs_a_written_token_to_sit_on() -> None:
    assert outcome_rewards(3.0, [True, True, False]) == [0.0, 3.0, 0.0]
    with pytest.raises(ValueError, match="no token"):
        outcome_rewards(1.0, [False, False])


def test_the_critics_lambda_is_the_actors_unless_given() -> None:
    assert Lambdas(actor=0.9).of_critic == 0.9
    assert Lambdas(actor=0.9, critic=1.0).of_critic == 1.0


def test_whitening() -> None:
    # 1 and 3: mean 2, unbiased variance 2
    assert whitened([1.0, 5.0, 3.0], MASK) == pytest.approx([-(0.5**0.5), 0.0, 0.5**0.5])


@given(
    st.lists(st.tuples(st.booleans(), st.floats(-3, 3)), min_size=1).filter(lambda t: any(w for w, _ in t)),
    st.floats(-1, 3),
    st.floats(0, 1),
)
def test_taking_masked_tokens_out_changes_nothing(
    tokens: list[tuple[bool, float]], reward: float, lam: float
) -> None:
    mask, values = [w for w, _ in tokens], [v for _, v in tokens]
    whole = advantages(outcome_rewards(reward, mask), values, mask, 1.0, lam)
    kept = [v for w, v in tokens if w]
    alone = advantages(outcome_rewards(reward, [True] * len(kept)), kept, [True] * len(kept), 1.0, lam)
    assert [a for a, w in zip(whole, mask, strict=True) if w] == alone
    assert all(a == 0.0 for a, w in zip(whole, mask, strict=True) if not w)
