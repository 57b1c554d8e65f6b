"""Generation for verl by transformers' continuous batching: no other engine is needed on the CPU and on one GPU.

Weights come from the trainer after every step, and drop every block of the cache.
"""

import os
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

import ray
import torch
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.config import HFModelConfig, RolloutConfig
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, TokenOutput

from warpsmith.training.batching import Batches

_CHUNK_BYTES = 256 << 20


class TransformersServer:
    """Holds a model and answers requests. It lives in an actor of Ray, whose coroutines take turns."""

    def __init__(self, config: Any, model_config: Any, device: str, answer_tokens: int):
        from transformers import AutoModelForCausalLM

        self._config: RolloutConfig = omega_conf_to_dataclass(config, dataclass_type=RolloutConfig)
        model: HFModelConfig = omega_conf_to_dataclass(model_config, dataclass_type=HFModelConfig)
        self._device = device
        if device == "cpu":
            torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
        self._model = AutoModelForCausalLM.from_pretrained(
            model.local_path,
            dtype=getattr(torch, self._config.dtype),
            attn_implementation="paged|sdpa",
        ).eval()
        self._answer_tokens = answer_tokens
        self._version: int | None = None
        made = self._config
        self._batches = Batches(
            self._model,
            _stop_ids(model),
            model.tokenizer.pad_token_id,
            longest=made.max_model_len or made.prompt_length + made.response_length,
            answer_tokens=answer_tokens,
            memory=made.gpu_memory_utilization,
        )

    async def ping(self) -> str:
        """Answers once the model is loaded."""
        return "ok"

    async def generate(
        self, prompt_ids: list[int], sampling_params: Mapping[str, Any], request_id: str, **_: Any
    ) -> TokenOutput:
        """Tokens behind the prompt with their log-probabilities. Raises RuntimeError where the engine fails."""
        drawn = await self._batches.draw(
            prompt_ids,
            int(sampling_params.get("max_tokens") or self._answer_tokens),
            float(sampling_params.get("temperature", 1.0)),
        )
        return TokenOutput(
            token_ids=list(drawn.ids),
            log_probs=list(drawn.logprobs),
            stop_reason="completed",
            extra_fields={"global_steps": self._version},
        )

    async def load_weights(self, named: list[tuple[str, torch.Tensor]]) -> None:
        """Takes some of the trainer's weights. No request may be under way."""
        self._batches.stop()
        with torch.no_grad():
            own = self._model.state_dict()
            for name, value in named:
                own[name].copy_(value)

    async def loaded(self, version: int | None) -> None:
        """All weights of this step have come."""
        if self._device != "cpu":
            self._model.to(self._device)
        self._version = version

    async def sleep(self) -> None:
        """Gives the device's memory to the trainer."""
        self._batches.stop()
        if self._device != "cpu":
            self._model.to("cpu")
            torch.cuda.empty_cache()

    async def wake_up(self, tags: list[str] | None = None) -> None:
        """Takes the device's memory back."""
        if self._device != "cpu":
            self._model.to(self._device)

    async def clear_kv_cache(self) -> None:
        """Drops every block, and with them what prefixes share."""
        self._batches.stop()

    async def abort_all_requests(self, reject_request: bool = False) -> None:
        """Nothing is under way when this is called: episodes end before a step does."""

    async def resume_generation(self) -> None:
        """Nothing was stopped."""


class WeightSender(BaseRollout):
    """The trainer's side: sends its weights to the server of the same rank."""

    def __init__(self, config: Any, model_config: Any, device_mesh: Any, replica_rank: int = -1):
        super().__init__(config, model_config, device_mesh)
        self._rank = int(os.environ["RANK"]) if replica_rank == -1 else replica_rank
        self._server: Any = None

    async def resume(self, tags: list[str]) -> None:
        """The server takes its memory back by itself once the weights have come."""

    async def release(self) -> None:
        """The server was told to sleep."""

    async def update_weights(
        self,
        weights: Iterable[tuple[str, torch.Tensor]] | AsyncIterator[tuple[str, torch.Tensor]],
        wire_format: str = "named_tensors",
        global_steps: int | None = None,
        peft_config: Any = None,
        **_: Any,
    ) -> None:
        """Sends whole weights, some at a time. Raises ValueError for adapters, which must be merged before."""
        if peft_config is not None:
            raise ValueError("adapters are not sent: set model.lora.merge")
        if self._server is None:
            self._server = ray.get_actor(server_name(self._rank))
        chunk: list[tuple[str, torch.Tensor]] = []
        size = 0
        for name, value in weights:
            # sharded weights are gathered by every rank alike
            whole = value.full_tensor() if hasattr(value, "full_tensor") else value
            chunk.append((name, whole.detach().to("cpu", copy=True)))
            size += whole.numel() * whole.element_size()
            if size > _CHUNK_BYTES:
                await self._server.load_weights.remote(chunk)
                chunk, size = [], 0
        await self._server.load_weights.remote(chunk)
        await self._server.loaded.remote(global_steps)


class TransformersReplica(RolloutReplica):
    """Starts one server a rank."""

    async def launch_servers(self) -> None:
        """Makes the server's actor and waits until its model is loaded."""
        device = "cpu" if os.environ.get("VERL_PLATFORM") == "cpu" else "cuda"
        options: dict[str, Any] = {"num_cpus": 0.1, "max_concurrency": 1000}
        if device == "cuda":
            # it shares the GPU of the trainer's process with its rank
            visible = {
                "CUDA_VISIBLE_DEVICES": str(self.replica_rank % self.gpus_per_node),
                "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "1",
            }
            options["runtime_env"] = {"env_vars": visible}
        actor = ray.remote(TransformersServer).options(name=server_name(self.replica_rank), **options)
        server = actor.remote(self.config, self.model_config, device, self.config.response_length)
        await server.ping.remote()
        self.servers = [server]
        self._server_handle = server
        self._server_address = f"transformers:{self.replica_rank}"


def server_name(rank: int) -> str:
    """The actor's name in Ray."""
    return f"warpsmith_transformers_{rank}"


def _stop_ids(model: HFModelConfig) -> list[int]:
    """Ids that end a reply: the tokenizer's, and those of the model's own generation settings."""
    ids = {model.tokenizer.eos_token_id}
    further = getattr(model.generation_config, "eos_token_id", None)
    ids |= set(further if isinstance(further, list) else [further])
    return sorted(token for token in ids if token is not None)
