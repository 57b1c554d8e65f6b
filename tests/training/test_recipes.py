"""What is asked of verl, and that verl knows every word of it."""

import pytest

from warpsmith.errors import UsageError
from warpsmith.training.recipes import RECIPES, Recipe, learner_overrides, ppo_overrides, recipe


def test_the_papers_figures() -> None:
    made = recipe("paper")
    assert (made.actor_lr, made.critic_lr, made.batch, made.steps) == (3e-6, 6e-6, 1024, 150)
    assert (made.clip_low, made.clip_high, made.turns, made.context_tokens) == (0.2, 0.28, 150, 131_072)
    assert (made.lambdas.gamma, made.lambdas.actor) == (1.0, 0.95)
    assert recipe("paper_warmup").context_tokens == 32_768
    words = ppo_overrides(made, "a", "c", "t", "ck", "l")
    assert (
        "actor_rollout_ref.actor.use_kl_loss=False" in words and "algorithm.use_kl_in_reward=False" in words
    )
    # the mini-batch is the batch: every step is on its own policy
    assert (
        "actor_rollout_ref.actor.ppo_mini_batch_size=1024" in words and "data.train_batch_size=1024" in words
    )


def test_the_last_good_checkpoint_outlives_an_alarm() -> None:
    made = recipe("paper", watch={"patience": 4})
    words = ppo_overrides(made, "a", "c", "t", "ck", "l")
    assert {f"trainer.max_{who}_ckpt_to_keep=6" for who in ("actor", "critic")} <= set(words)
    assert "trainer.max_ckpt_to_keep=6" in learner_overrides(
        made, "m", "ck", critic=True, batch=1, epochs=1, steps=1
    )


@pytest.mark.parametrize(("batch", "gpus", "micro"), [(6, 1, 3), (8, 1, 4), (7, 1, 1), (2, 1, 2), (12, 2, 3)])
def test_a_batch_is_whole_micro_batches(batch: int, gpus: int, micro: int) -> None:
    made = recipe("cpu_tiny", gpus=gpus, micro_batch=4)
    words = learner_overrides(made, "m", "ck", critic=True, batch=batch, epochs=1, steps=1)
    assert f"data.micro_batch_size_per_gpu={micro}" in words


def test_changes() -> None:
    assert recipe("cpu_tiny", steps=7).steps == 7
    for changes, reason in (
        ({"stepz": 1}, "no 'stepz'"),
        ({"steps": 0}, "steps of"),
        ({"samples": 3}, "multiple"),
    ):
        with pytest.raises(UsageError, match=reason):
            recipe("cpu_tiny", **changes)
    with pytest.raises(UsageError, match="unknown recipe 'huge'"):
        recipe("huge")


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_verl_knows_every_word(name: str) -> None:
    pytest.importorskip("verl", reason="needs the extra train")
    from warpsmith.training.engine.config import compose

    made: Recipe = RECIPES[name]
    config = compose("ppo_trainer", ppo_overrides(made, "actor", "critic", "tasks", "ck", "loop"))
    assert config.actor_rollout_ref.model.path == "actor" and config.critic.model.path == "critic"
    assert config.critic.optim.lr == made.critic_lr and config.algorithm.lam == 0.95
    assert config.actor_rollout_ref.rollout.n * config.data.train_batch_size == made.batch
    for critic in (False, True):
        words = learner_overrides(made, "m", "ck", critic=critic, batch=4, epochs=2, steps=6)
        learner = compose("sft_trainer_engine", words)
        assert learner.optim.lr == (made.critic_lr if critic else made.fine_tune_lr)
        assert (learner.trainer.total_training_steps, learner.model.path) == (6, "m")
