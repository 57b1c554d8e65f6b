"""How each stage is run: the figures of a recipe, and what they are called in verl's configuration."""

from collections.abc import Mapping
from types import MappingProxyType

from pydantic import Field, ValidationError, model_validator

from warpsmith.errors import UsageError
from warpsmith.training.advantage import Lambdas
from warpsmith.training.watch import WatchSettings
from warpsmith.types import Record


class Recipe(Record):
    """Figures of training. Lengths in tokens; learning rates as given to AdamW."""

    device: str = "cuda"
    rollout: str = "vllm"
    """What generates: vllm, sglang, or transformers."""
    gpus: int = Field(1, ge=1)
    """Of one host; on the CPU, processes."""
    nodes: int = Field(1, ge=1)
    dtype: str = "bfloat16"
    attention: str = "sdpa"
    remove_padding: bool = False
    """Needs flash attention."""
    sequence_parallel: int = Field(1, ge=1)
    """Ulysses: GPUs that share one sequence."""
    lora_rank: int = Field(0, ge=0)
    """0: every weight is trained; else adapters of actor and critic alone, and a checkpoint holds nothing else."""
    lora_alpha: int = Field(16, ge=1)
    """What an adapter adds is scaled by alpha / rank."""
    gradient_checkpointing: bool = True
    offload: bool = False
    """Weights and optimizer state wait in the host's memory while others work."""
    actor_lr: float = 3e-6
    critic_lr: float = 6e-6
    batch: int = Field(1024, ge=1)
    """Episodes a step; the mini-batch is the same, so that every step is on its own policy."""
    samples: int = Field(1, ge=1)
    """Episodes a task within a batch."""
    micro_batch: int = Field(1, ge=1)
    steps: int = Field(150, ge=1)
    critic_warmup: int = Field(0, ge=0)
    """Steps in which the actor is left as it is."""
    save_every: int = Field(5, ge=1)
    clip_low: float = 0.2
    clip_high: float = 0.28
    lambdas: Lambdas = Lambdas()
    compact: bool = False
    """A short prompt and few tools, for small models and contexts."""
    at_once: int = Field(1, ge=1)
    """Episodes at a time in collect and eval."""
    turns: int = Field(150, ge=1)
    prompt_tokens: int = Field(32_768, ge=16)
    response_tokens: int = Field(98_304, ge=16)
    answer_tokens: int = Field(8192, ge=16)
    temperature: float = 1.0
    ratio_limit: float = 2.0
    rollout_memory: float = Field(0.5, gt=0, lt=1)
    """Share of a GPU's memory that generation takes."""
    agent_workers: int = Field(8, ge=1)
    fine_tune_lr: float = 1e-5
    fine_tune_batch: int = Field(64, ge=1)
    fine_tune_epochs: int = Field(3, ge=1)
    value_batch: int = Field(256, ge=1)
    value_epochs: int = Field(2, ge=1)
    watch: WatchSettings = WatchSettings()
    trackers: tuple[str, ...] = ()
    """Where figures also go: names in `trackers.TRACKERS`."""
    silence_s: float = 3600.0
    """A trainer that has not moved for so long is ended."""

    @model_validator(mode="after")
    def _whole_groups(self) -> "Recipe":
        if self.batch % self.samples:
            raise ValueError("batch is not a multiple of samples")
        return self

    @property
    def kept_checkpoints(self) -> int:
        """So many that the last good one outlives an alarm, which takes `patience` steps to stop a run."""
        return self.watch.patience + 2

    @property
    def context_tokens(self) -> int:
        """Prompt and response together."""
        return self.prompt_tokens + self.response_tokens


_TINY = Recipe(
    device="cpu",
    rollout="transformers",
    dtype="float32",
    attention="sdpa",
    gradient_checkpointing=False,
    actor_lr=1e-3,
    critic_lr=1e-3,
    batch=8,
    samples=4,
    micro_batch=4,
    steps=2,
    save_every=1,
    turns=3,
    prompt_tokens=2048,
    response_tokens=64,
    answer_tokens=48,
    agent_workers=1,
    fine_tune_lr=3e-3,
    fine_tune_batch=4,
    fine_tune_epochs=4,
    value_batch=4,
    value_epochs=4,
    silence_s=900.0,
)

_LENT = Recipe(
    rollout="transformers",
    lora_rank=2,
    lora_alpha=16,
    actor_lr=1e-4,
    critic_lr=2e-4,
    batch=64,
    samples=8,
    micro_batch=2,
    steps=24,
    save_every=2,
    turns=4,
    compact=True,
    at_once=64,
    prompt_tokens=3072,
    response_tokens=4096,
    answer_tokens=768,
    rollout_memory=0.3,
    agent_workers=1,
    fine_tune_lr=3e-4,
    fine_tune_batch=16,
    fine_tune_epochs=4,
    value_batch=32,
    value_epochs=4,
    silence_s=600.0,
)

RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        # arXiv 2602.24286: 131,072 tokens, 150 turns, 150 steps of 1024 episodes, no KL term
        "paper": Recipe(gpus=8, nodes=16, remove_padding=True, sequence_parallel=8, attention="flash_attention_2"),
        # its first stage: one answer within 32,768 tokens
        "paper_warmup": Recipe(
            gpus=8,
            nodes=16,
            remove_padding=True,
            attention="flash_attention_2",
            turns=1,
            prompt_tokens=8192,
            response_tokens=24_576,
            answer_tokens=24_576,
        ),
        "one_gpu": Recipe(
            rollout="transformers",
            lora_rank=32,
            actor_lr=3e-5,
            critic_lr=3e-5,
            batch=64,
            samples=8,
            steps=30,
            turns=4,
            prompt_tokens=6144,
            response_tokens=6144,
            answer_tokens=1536,
            agent_workers=1,
            fine_tune_lr=1e-4,
            fine_tune_batch=16,
            value_batch=32,
        ),
        # one H200 that is lent for minutes: Qwen2.5-Coder-1.5B or smaller, a checkpoint of at most 40 MB
        "lent_gpu": _LENT,
        "cpu_tiny": _TINY,
    }
)  # fmt: skip
"""One entry a recipe."""


def recipe(name: str, **changes: object) -> Recipe:
    """The recipe of this name with `changes`. Raises UsageError for an unknown name or figure."""
    if name not in RECIPES:
        raise UsageError(f"unknown recipe {name!r}", hint=f"choose one of: {', '.join(sorted(RECIPES))}")
    if unknown := sorted(set(changes) - set(Recipe.model_fields)):
        raise UsageError(f"a recipe has no {unknown[0]!r}", hint="see the fields of training.recipes.Recipe")
    try:
        return Recipe.model_validate(RECIPES[name].model_dump() | changes)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        figure = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"{figure} of the recipe: {first['msg']}") from error


def learner_overrides(
    made: Recipe, model: str, checkpoints: str, *, critic: bool, batch: int, epochs: int, steps: int
) -> tuple[str, ...]:
    """verl's `sft_trainer_engine` for fine-tuning or the critic."""
    rate = made.critic_lr if critic else made.fine_tune_lr
    share = max(1, batch // made.gpus)
    # the engine takes whole micro-batches only
    micro = max(size for size in range(1, min(made.micro_batch, share) + 1) if share % size == 0)
    return (
        f"model.path={model}",
        f"+model.override_config.attn_implementation={made.attention}",
        f"model.use_remove_padding={made.remove_padding}",
        f"model.enable_gradient_checkpointing={made.gradient_checkpointing}",
        f"model.lora_rank={made.lora_rank}",
        f"model.lora_alpha={made.lora_alpha}",
        "engine.strategy=fsdp2",
        f"engine.dtype={made.dtype}",
        f"++engine.mixed_precision={_precision(made)}",
        "engine.use_torch_compile=False",
        f"engine.ulysses_sequence_parallel_size={made.sequence_parallel}",
        f"optim.lr={rate}",
        f"data.train_batch_size={batch}",
        f"data.micro_batch_size_per_gpu={micro}",
        "data.use_dynamic_bsz=False",
        f"data.max_length={made.context_tokens}",
        f"data.max_token_len_per_gpu={made.context_tokens}",
        "data.num_workers=0",
        "data.train_files=none",
        *_contents(made, "checkpoint"),
        f"trainer.default_local_dir={checkpoints}",
        f"trainer.total_epochs={epochs}",
        f"trainer.total_training_steps={steps}",
        f"trainer.device={made.device}",
        f"trainer.n_gpus_per_node={made.gpus}",
        f"trainer.nnodes={made.nodes}",
        "trainer.resume_mode=auto",
        f"trainer.max_ckpt_to_keep={made.kept_checkpoints}",
        "trainer.logger=[console]",
    )


def ppo_overrides(
    made: Recipe, actor: str, critic: str, tasks: str, checkpoints: str, loop: str
) -> tuple[str, ...]:
    """verl's `ppo_trainer`. `loop` is the YAML file that names our agent loop."""
    prompts = made.batch // made.samples
    actor_keys = "actor_rollout_ref.actor"
    shared = [
        f"actor_rollout_ref.model.path={actor}",
        f"critic.model.path={critic}",
        f"actor_rollout_ref.rollout.name={made.rollout}",
        f"actor_rollout_ref.rollout.n={made.samples}",
        f"actor_rollout_ref.rollout.dtype={made.dtype}",
        f"actor_rollout_ref.rollout.temperature={made.temperature}",
        f"actor_rollout_ref.rollout.prompt_length={made.prompt_tokens}",
        f"actor_rollout_ref.rollout.response_length={made.response_tokens}",
        f"actor_rollout_ref.rollout.max_model_len={made.context_tokens}",
        f"actor_rollout_ref.rollout.gpu_memory_utilization={made.rollout_memory}",
        "actor_rollout_ref.rollout.tensor_model_parallel_size=1",
        "actor_rollout_ref.rollout.calculate_log_probs=True",
        f"actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu={made.micro_batch}",
        f"actor_rollout_ref.rollout.agent.num_workers={made.agent_workers}",
        f"actor_rollout_ref.rollout.agent.agent_loop_config_path={loop}",
        "actor_rollout_ref.rollout.agent.default_agent_loop=warpsmith",
        f"{actor_keys}.optim.lr={made.actor_lr}",
        f"{actor_keys}.clip_ratio_low={made.clip_low}",
        f"{actor_keys}.clip_ratio_high={made.clip_high}",
        f"{actor_keys}.ppo_mini_batch_size={prompts}",
        f"{actor_keys}.ppo_micro_batch_size_per_gpu={made.micro_batch}",
        f"{actor_keys}.use_kl_loss=False",
        f"{actor_keys}.calculate_entropy=True",
        f"{actor_keys}.loss_agg_mode=token-mean",
        f"critic.optim.lr={made.critic_lr}",
        "critic.enable=True",
        # the value's clip would tie it to what it said before: plain ½ MSE
        "critic.cliprange_value=1000000.0",
        f"critic.ppo_mini_batch_size={prompts}",
        f"critic.ppo_micro_batch_size_per_gpu={made.micro_batch}",
        "algorithm.adv_estimator=gae",
        f"algorithm.gamma={made.lambdas.gamma}",
        f"algorithm.lam={made.lambdas.actor}",
        "algorithm.use_kl_in_reward=False",
        "algorithm.rollout_correction.rollout_is=token",
        f"algorithm.rollout_correction.rollout_is_threshold={made.ratio_limit}",
        f"data.train_files={tasks}",
        f"data.val_files={tasks}",
        f"data.train_batch_size={prompts}",
        f"data.max_prompt_length={made.prompt_tokens}",
        f"data.max_response_length={made.response_tokens}",
        "data.dataloader_num_workers=0",
        "data.return_raw_chat=True",
        "data.shuffle=False",
        f"trainer.device={made.device}",
        f"trainer.nnodes={made.nodes}",
        f"trainer.n_gpus_per_node={made.gpus}",
        "trainer.logger=[console]",
        "trainer.val_before_train=False",
        "trainer.test_freq=-1",
        f"trainer.save_freq={made.save_every}",
        f"trainer.max_actor_ckpt_to_keep={made.kept_checkpoints}",
        f"trainer.max_critic_ckpt_to_keep={made.kept_checkpoints}",
        f"trainer.total_training_steps={made.steps}",
        "trainer.total_epochs=1000000",
        f"trainer.critic_warmup={made.critic_warmup}",
        f"trainer.default_local_dir={checkpoints}",
        "reward.num_workers=1",
        "+ray_kwargs.ray_init.include_dashboard=False",
    ]
    return (*shared, *_models(made), *(_on_cpu(made) if made.device == "cpu" else ()))


def _models(made: Recipe) -> list[str]:
    """What actor and critic have in common."""
    found = []
    for model, worker in (("actor_rollout_ref.model", "actor_rollout_ref.actor"), ("critic.model", "critic")):
        engine = f"{worker}.fsdp_config" if worker.endswith("actor") else f"{worker}.fsdp"
        found += [
            f"+{model}.override_config.attn_implementation={made.attention}",
            f"{model}.use_remove_padding={made.remove_padding}",
            f"{model}.enable_gradient_checkpointing={made.gradient_checkpointing}",
            f"{model}.lora_rank={made.lora_rank}",
            f"{model}.lora_alpha={made.lora_alpha}",
            f"{worker}.strategy=fsdp2",
            f"{engine}.dtype={made.dtype}",
            f"++{engine}.mixed_precision={_precision(made)}",
            f"{engine}.use_torch_compile=False",
            f"{engine}.param_offload={made.offload}",
            f"{engine}.optimizer_offload={made.offload}",
            f"{engine}.ulysses_sequence_parallel_size={made.sequence_parallel}",
            *_contents(made, f"{worker}.checkpoint"),
        ]
    if made.lora_rank:
        # what generates gets whole weights, and needs to know nothing of adapters
        found.append("actor_rollout_ref.model.lora.merge=True")
    return found


def _contents(made: Recipe, checkpoint: str) -> list[str]:
    """What a checkpoint holds besides what `engine.adapters` writes."""
    if made.lora_rank:
        return [f"{checkpoint}.{way}_contents=[optimizer,extra]" for way in ("save", "load")]
    return [f"{checkpoint}.save_contents=[model,optimizer,extra,hf_model]"]


def _precision(made: Recipe) -> str:
    """What is computed in; sums of gradients are float32 everywhere."""
    return (
        f"{{param_dtype:{'fp32' if made.dtype == 'float32' else 'bf16'},reduce_dtype:fp32,buffer_dtype:fp32}}"
    )


def _on_cpu(made: Recipe) -> list[str]:
    return [
        "actor_rollout_ref.actor.use_torch_compile=False",
        "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
        # logical ones: verl asks for more than a small machine has, and nothing is bound to them
        "ray_kwargs.ray_init.num_cpus=32",
        f"+ray_kwargs.ray_init.num_gpus={made.gpus}",
        "+ray_kwargs.ray_init.object_store_memory=500000000",
    ]
