"""verl's names that the adapters use and that it promises nobody: this fails first where one of them moves."""

import inspect

import pytest

verl = pytest.importorskip("verl", reason="needs the extra train")

EXPECTED_VERSION = "0.9.1"


def test_the_version_is_the_one_that_was_tried() -> None:
    from importlib.metadata import version

    assert version("verl") == EXPECTED_VERSION


def test_registries() -> None:
    from verl.plugin.platform import PlatformRegistry
    from verl.trainer.ppo.core_algos import POLICY_LOSS_REGISTRY
    from verl.workers.engine import EngineRegistry
    from verl.workers.rollout.base import _ROLLOUT_REGISTRY
    from verl.workers.rollout.replica import RolloutReplicaRegistry

    assert callable(PlatformRegistry.register) and callable(RolloutReplicaRegistry.register)
    assert ("vllm", "async") in _ROLLOUT_REGISTRY and "vanilla" in POLICY_LOSS_REGISTRY
    assert {"language_model", "value_model"} <= set(EngineRegistry._engines)


def test_what_is_overridden_is_there() -> None:
    from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
    from verl.trainer.sft_trainer import SFTTrainer

    parameters = {
        name: list(inspect.signature(getattr(PPOTrainerSync, name)).parameters)
        for name in ("_compute_advantage", "_save_checkpoint", "_compute_metrics")
    }
    assert parameters == {
        "_compute_advantage": ["self", "batch", "metrics"],
        "_save_checkpoint": ["self"],
        "_compute_metrics": ["self", "batch", "metrics", "timing_raw", "global_steps", "epoch"],
    }
    for name in ("_build_dataset", "_build_engine", "_get_batch_seqlens", "_build_ckpt_handler", "fit"):
        assert callable(getattr(SFTTrainer, name))


def test_the_advantage_is_looked_up_where_it_is_replaced() -> None:
    """The decoupled estimator stands in for a function that verl finds in its module at each call."""
    from verl.trainer.ppo import core_algos, ray_trainer

    assert list(inspect.signature(core_algos.compute_gae_advantage_return).parameters) == [
        "token_level_rewards", "values", "response_mask", "gamma", "lam",
    ]  # fmt: skip
    assert "core_algos.compute_gae_advantage_return" in inspect.getsource(ray_trainer.compute_advantage)


def test_the_value_head_is_looked_up_where_it_is_replaced() -> None:
    import verl.utils.model
    from verl.workers.engine.fsdp import transformer_impl

    source = inspect.getsource(transformer_impl)
    assert "load_valuehead_model" in source
    # imported when the model is built, not when the module is loaded: else the replacement would come too late
    assert not hasattr(transformer_impl, "load_valuehead_model")
    assert list(inspect.signature(verl.utils.model.load_valuehead_model).parameters) == [
        "local_path", "torch_dtype", "model_config", "trust_remote_code",
    ]  # fmt: skip


def test_records_of_the_rollout() -> None:
    from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput
    from verl.workers.rollout.replica import TokenOutput

    assert {"token_ids", "log_probs", "stop_reason", "extra_fields"} <= set(TokenOutput.model_fields)
    wanted = {"prompt_ids", "response_ids", "response_mask", "response_logprobs", "reward_score", "num_turns"}
    assert wanted <= set(AgentLoopOutput.model_fields)
    assert list(inspect.signature(AgentLoopBase.run).parameters)[:2] == ["self", "sampling_params"]
