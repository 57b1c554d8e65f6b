"""Generation for verl by transformers' continuous batching: no other engine is needed on the CPU and on one GPU.

Requests of all episodes share batches, each with a temperature of its own; blocks of equal prefixes are shared, so
that a turn pays for what is new. Weights come from the trainer after every step, and drop every block.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

import ray
import torch
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.config import HFModelConfig, RolloutConfig
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, TokenOutput

_BLOCK_TOKENS = 256
_BATCH_TOKENS = 512
"""On the CPU; on a GPU the engine looks at its memory."""
_MOST_SEQUENCES = 32
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
        self._stop_ids = _stop_ids(model)
        self._pad = model.tokenizer.pad_token_id
        self._answer_tokens = answer_tokens
        self._version: int | None = None
        self._manager: Any = None
        self._requests = 0

    async def ping(self) -> str:
        """Answers once the model is loaded."""
        return "ok"

    async def generate(
        self, prompt_ids: list[int], sampling_params: Mapping[str, Any], request_id: str, **_: Any
    ) -> TokenOutput:
        """Tokens behind the prompt with their log-probabilities. Raises RuntimeError where the engine fails."""
        if self._manager is None:
            self._start()
        self._requests += 1
        request = f"{request_id}-{self._requests}"
        done = asyncio.get_running_loop().create_future()

        def take(result: Any) -> None:
            if result.is_finished() and not done.done():
                done.set_result(result)

        self._manager.register_result_handler(request, take)
        temperature = float(sampling_params.get("temperature", 1.0))
        self._manager.add_request(
            list(prompt_ids),
            request_id=request,
            max_new_tokens=int(sampling_params.get("max_tokens") or self._answer_tokens),
            eos_token_id=self._stop_ids,
            # 0 would divide by nothing; this is as good as greedy
            temperature=max(temperature, 1e-3),
        )
        result = await done
        if result.error:
            raise RuntimeError(result.error)
        return TokenOutput(
            token_ids=list(result.generated_tokens),
            log_probs=[float(value) for value in result.logprobs],
            stop_reason="completed",
            extra_fields={"global_steps": self._version},
        )

    async def load_weights(self, named: list[tuple[str, torch.Tensor]]) -> None:
        """Takes some of the trainer's weights. No request may be under way."""
        self._stop()
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
        self._stop()
        if self._device != "cpu":
            self._model.to("cpu")
            torch.cuda.empty_cache()

    async def wake_up(self, tags: list[str] | None = None) -> None:
        """Takes the device's memory back."""
        if self._device != "cpu":
            self._model.to(self._device)

    async def clear_kv_cache(self) -> None:
        """Drops every block, and with them what prefixes share."""
        self._stop()

    async def abort_all_requests(self, reject_request: bool = False) -> None:
        """Nothing is under way when this is called: episodes end before a step does."""

    async def resume_generation(self) -> None:
        """Nothing was stopped."""

    def _start(self) -> None:
        from transformers import GenerationConfig
        from transformers.generation import ContinuousBatchingConfig

        room: dict[str, int] = {}
        if self._device == "cpu":
            length = self._config.max_model_len or self._config.prompt_length + self._config.response_length
            room = {
                "num_blocks": _MOST_SEQUENCES * (-(-length // _BLOCK_TOKENS) + 1),
                "max_batch_tokens": _BATCH_TOKENS,
            }
        generation = GenerationConfig(
            max_new_tokens=self._answer_tokens,
            do_sample=True,
            # every request names its own; were this 1, the engine would leave the whole step out
            temperature=0.5,
            top_k=0,
            top_p=1.0,
            eos_token_id=self._stop_ids,
            pad_token_id=self._pad,
        )
        batching = ContinuousBatchingConfig(
            block_size=_BLOCK_TOKENS,
            max_memory_percent=self._config.gpu_memory_utilization,
            return_logprobs=True,
            allow_block_sharing=True,
            per_request_processors=True,
            **room,
        )
        self._manager = self._model.init_continuous_batching(
            generation_config=generation, continuous_batching_config=batching
        )
        self._manager.start()

    def _stop(self) -> None:
        if self._manager is not None:
            manager, self._manager = self._manager, None
            manager.stop(block=True)


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
