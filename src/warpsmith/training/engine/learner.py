"""Supervised stages on verl's own worker and checkpoints: fine-tuning, and the critic's pretraining.

Started once a rank: `python -m warpsmith.training.engine.learner JOB.json`, under torchrun where there are several.
"""

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed
import verl  # noqa: F401  loads the plugin
from omegaconf import OmegaConf
from tensordict import NonTensorData, TensorDict
from verl.trainer.sft_trainer import SFTTrainer
from verl.utils import tensordict_utils as tu
from verl.workers.engine_workers import TrainingWorker, TrainingWorkerConfig
from verl.workers.utils.losses import sft_loss

from warpsmith.training.advantage import Lambdas, outcome_rewards, value_targets
from warpsmith.training.engine.batches import SampleDataset, TrajectoryDataset, by_epochs
from warpsmith.training.engine.config import compose
from warpsmith.training.instruments import explained_variance
from warpsmith.training.jobs import COLLAPSED, PAUSED, LearnerJob, LearnerKind
from warpsmith.training.recorder import Recorder
from warpsmith.training.stage import read_record


class FineTuner(SFTTrainer):
    """Learns the tokens that a mask leaves: mean negative log-likelihood over them."""

    kind, prefix = "language_model", "actor"
    dataset: Callable[[Path], Any] = SampleDataset

    def __init__(self, config: Any, job: LearnerJob):
        self._job = job
        super().__init__(config)

    def _build_dataset(self) -> None:
        self.train_dataset, self.val_dataset = type(self).dataset(Path(self._job.data)), None

    def _build_engine(self) -> None:
        worker = TrainingWorkerConfig(
            model_type=self.kind,
            model_config=self.model_config,
            engine_config=self.engine_config,
            optimizer_config=self.optimizer_config,
            checkpoint_config=self.checkpoint_config,
            profiler_config=self.profiler_config,
        )
        self.training_client = TrainingWorker(config=worker)
        self.training_client.set_loss_fn(loss_fn=self._loss)
        self.engine = self.training_client.engine

    @property
    def _loss(self) -> Callable[..., Any]:
        return lambda model_output, data, dp_group=None: sft_loss(None, model_output, data, dp_group)

    def _prepare(self, data: TensorDict) -> dict[str, float]:
        """Adds what the loss needs besides; figures that are known before the step."""
        return {}

    def fit(self) -> None:
        """Runs to the last step, sealing checkpoints as it goes.

        Exits with COLLAPSED where the watch says so, with PAUSED where no further step fits the budget.
        """
        is_first = torch.distributed.get_rank() == 0
        job = self._job
        recorder = Recorder(Path(job.folder), job.watch, writes=is_first, trackers=job.trackers)
        step = self.resume_global_step
        if step >= self.total_training_steps:
            return
        epoch, begun, took = step // self.steps_per_epoch, time.monotonic(), list[float]()
        for batch in by_epochs(self.train_dataloader, self.train_sampler.set_epoch, epoch):
            step += 1
            data = tu.get_tensordict(tensor_dict=batch, non_tensor_dict=self._meta())
            tokens = self._get_batch_seqlens(data=data)
            tu.assign_non_tensor(data, update_lr_scheduler=True, global_token_num=NonTensorData(tokens))
            figures = self._prepare(data)
            output = self.training_client.train_batch(data=data)
            figures |= _figures(tu.get(output, "metrics"), self.prefix) | {"tokens": float(sum(tokens))}
            is_last = step >= self.total_training_steps
            took.append(time.monotonic() - begun)
            is_over = not is_last and self._is_over(took)
            is_saved = is_last or is_over or step % self._job.save_every == 0
            if is_saved:
                self.ckpt_handler.save_checkpoint(step=step)
            stop = recorder.step(step, figures, saved=is_saved)
            torch.distributed.barrier()
            if stop is not None:
                sys.exit(COLLAPSED)
            if is_over:
                sys.exit(PAUSED)
            if is_last:
                return
            begun = time.monotonic()

    def _is_over(self, took: list[float]) -> bool:
        """Whether no further step is begun: the first rank's clock says it for all."""
        said = [not self._job.budget.fits(took)]
        torch.distributed.broadcast_object_list(said, src=0)
        return said[0]

    def _meta(self) -> dict[str, Any]:
        return {
            "use_remove_padding": self.config.model.use_remove_padding,
            "use_dynamic_bsz": self.config.data.use_dynamic_bsz,
            "max_token_len_per_gpu": self.config.data.max_token_len_per_gpu,
            "micro_batch_size_per_gpu": self.config.data.micro_batch_size_per_gpu,
            "temperature": 1.0,
            "global_batch_size": self.global_batch_size,
            "pad_mode": self.config.data.pad_mode,
            "pad_token_id": self.model_config.tokenizer.pad_token_id,
        }


class CriticTrainer(FineTuner):
    """Learns V + Â of stored trajectories, with V as the critic says it before each step: ½ MSE over tokens."""

    kind, prefix = "value_model", "critic"
    dataset = TrajectoryDataset

    @property
    def _loss(self) -> Callable[..., Any]:
        return value_loss

    def _prepare(self, data: TensorDict) -> dict[str, float]:
        asked = data.clone()
        tu.assign_non_tensor(asked, compute_loss=False)
        values = self.training_client.infer_batch(asked)["values"]
        masks, outcomes = data["loss_mask"].unbind(), data.pop("outcome").unbind()
        targets, said, wanted = [], [], []
        for value, mask, outcome in zip(values.unbind(), masks, outcomes, strict=True):
            written = [bool(bit) for bit in mask.tolist()]
            # what the critic says of a token is read off the position before it
            before = [0.0, *value.float().tolist()[:-1]]
            target = _targets(float(outcome), before, written, self._job.lambdas)
            targets.append(torch.tensor(target, dtype=torch.float32))
            said += [v for v, w in zip(before, written, strict=True) if w]
            wanted += [t for t, w in zip(target, written, strict=True) if w]
        data["targets"] = torch.nested.as_nested_tensor(targets, layout=torch.jagged)
        return {
            "critic/explained_variance": explained_variance(said, wanted),
            "critic/value_mean": sum(said) / len(said),
            "critic/target_mean": sum(wanted) / len(wanted),
        }


def value_loss(
    model_output: Any, data: TensorDict, dp_group: Any = None
) -> tuple[torch.Tensor, dict[str, Any]]:
    """½ (V − target)², mean over the tokens that the model wrote; V of token t stands at position t − 1.

    `model_output["values"]`, `data["targets"]` and `data["loss_mask"]` are nested, (batch, tokens).
    """
    values = model_output["values"].values().float()
    mask = torch.roll(data["loss_mask"].values(), shifts=-1, dims=0).to(values.device)
    targets = torch.roll(data["targets"].values(), shifts=-1, dims=0).to(values.device)
    squared = 0.5 * (values - targets) ** 2
    return (squared * mask).sum() / data["batch_num_tokens"] * data["dp_size"], {}


def _targets(outcome: float, before: list[float], written: list[bool], lambdas: Lambdas) -> list[float]:
    rewards = outcome_rewards(outcome, written)
    return value_targets(rewards, before, written, lambdas.gamma, lambdas.of_critic)


def _figures(metrics: Mapping[str, Any], prefix: str) -> dict[str, float]:
    names = ("loss", "grad_norm", "lr")
    return {f"{prefix}/{name}": float(metrics[name]) for name in names if name in metrics}


def main(path: Path) -> None:
    """Runs one rank of a job."""
    from verl.utils.distributed import destroy_global_process_group, initialize_global_process_group

    job = read_record(path, LearnerJob)
    if job is None:
        raise SystemExit(f"no job at {path}")
    config = compose("sft_trainer_engine", job.overrides)
    OmegaConf.resolve(config)
    initialize_global_process_group()
    trainer = {LearnerKind.FINE_TUNE: FineTuner, LearnerKind.CRITIC: CriticTrainer}[job.kind](config, job)
    trainer.fit()
    destroy_global_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
