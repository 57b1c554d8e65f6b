"""Loaded by every process of verl through VERL_USE_EXTERNAL_MODULES, before anything else of it."""

import importlib
import os
from typing import Any

if os.environ.get("VERL_PLATFORM") == "cpu":
    from warpsmith.training.engine.platform import register, register_platform

    register_platform()
    register()

import verl.utils.model
from verl.workers.rollout import base
from verl.workers.rollout.replica import RolloutReplicaRegistry

ROLLOUT = "transformers"


def _value_head(local_path: str, torch_dtype: Any, model_config: Any, trust_remote_code: bool) -> Any:
    """A token classifier with one label and the attention that was asked for; verl insists on flash attention."""
    from transformers import AutoModelForTokenClassification

    return AutoModelForTokenClassification.from_pretrained(
        local_path,
        dtype=torch_dtype,
        config=model_config,
        attn_implementation=getattr(model_config, "_attn_implementation", "sdpa"),
        trust_remote_code=trust_remote_code,
    )


def _replica() -> type:
    from warpsmith.training.engine.rollout import TransformersReplica

    return TransformersReplica


verl.utils.model.load_valuehead_model = _value_head
# the loss is looked up by name where the actor lives
importlib.import_module("warpsmith.training.engine.policy_loss")
base._ROLLOUT_REGISTRY[(ROLLOUT, "async")] = "warpsmith.training.engine.rollout.WeightSender"
RolloutReplicaRegistry.register(ROLLOUT, _replica)
