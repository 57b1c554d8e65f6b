"""Loaded by every process of verl through VERL_USE_EXTERNAL_MODULES, before anything else of it."""

import importlib
import os
from typing import Any

if os.environ.get("VERL_PLATFORM") == "cpu":
    from warpsmith.training.engine.platform import register_platform

    register_platform()

import verl.utils.model
from verl.utils.device import get_device_name
from verl.workers.rollout import base
from verl.workers.rollout.replica import RolloutReplicaRegistry

ROLLOUT = "transformers"


def _value_head(local_path: str, torch_dtype: Any, model_config: Any, trust_remote_code: bool) -> Any:
    """A token classifier with one label and the attention that was asked for; verl insists on flash attention."""
    from warpsmith.training.adapters import load_value_model

    attention = getattr(model_config, "_attn_implementation", "sdpa")
    return load_value_model(
        local_path, torch_dtype, attention, config=model_config, trust_remote_code=trust_remote_code
    )


def _replica() -> type:
    from warpsmith.training.engine.rollout import TransformersReplica

    return TransformersReplica


verl.utils.model.load_valuehead_model = _value_head
importlib.import_module("warpsmith.training.engine.adapters").register(get_device_name())
# the loss is looked up by name where the actor lives
importlib.import_module("warpsmith.training.engine.policy_loss")
base._ROLLOUT_REGISTRY[(ROLLOUT, "async")] = "warpsmith.training.engine.rollout.WeightSender"
RolloutReplicaRegistry.register(ROLLOUT, _replica)
