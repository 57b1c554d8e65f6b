"""Reinforcement learning by verl's synchronous trainer, with our advantages, instruments, watch and seals.

Started once: `python -m warpsmith.training.engine.ppo JOB.json`.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ray
import torch
import transfer_queue as tq
import verl  # noqa: F401  loads the plugin
from omegaconf import OmegaConf
from verl.trainer.main_ppo import run_ppo
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.v1 import AgentLoopManagerTQ
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

from warpsmith.errors import InfrastructureError
from warpsmith.training.advantage import Lambdas
from warpsmith.training.budget import BudgetSpentError
from warpsmith.training.engine.config import compose
from warpsmith.training.engine.figures import (
    EPISODE_FIELDS,
    VALUE_FIELDS,
    critic_figures,
    episode_figures,
    plain,
)
from warpsmith.training.engine.policy_loss import LOSS
from warpsmith.training.jobs import COLLAPSED, PAUSED, PpoJob
from warpsmith.training.recorder import Recorder
from warpsmith.training.stage import StageFolder, read_record


class Collapsed(Exception):
    """The watch has stopped the run; why stands in the stage's folder."""


class Trainer(PPOTrainerSync):
    """verl's trainer. `job` says where the stage lies and what is watched."""

    def __init__(self, config: Any, job: PpoJob):
        super().__init__(config)
        self._job = job
        self._recorder = Recorder(Path(job.folder), job.watch, trackers=job.trackers)
        self._saved = False
        self._took: list[float] = []

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        data = self._fields(batch, EPISODE_FIELDS)
        metrics.update(episode_figures(data, self._job.plan.response_tokens, self._job.ratio_limit))
        original = core_algos.compute_gae_advantage_return
        core_algos.compute_gae_advantage_return = decoupled(self._job.lambdas)
        try:
            return super()._compute_advantage(batch, metrics)
        finally:
            core_algos.compute_gae_advantage_return = original

    def _fields(self, batch: Any, names: Sequence[str]) -> Any:
        return tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=list(names))

    def _save_checkpoint(self) -> None:
        super()._save_checkpoint()
        self._saved = True

    def _compute_metrics(
        self, batch: Any, metrics: dict[str, Any], timing_raw: dict[str, float], global_steps: int, epoch: int
    ) -> None:
        metrics.update(critic_figures(self._fields(batch, VALUE_FIELDS)))
        super()._compute_metrics(batch, metrics, timing_raw, global_steps, epoch)
        self._took.append(timing_raw["step"])
        over = global_steps < self.total_training_steps and not self._job.budget.fits(self._took)
        if over and not self._saved:
            self._save_checkpoint()
        saved, self._saved = self._saved, False
        stop = self._recorder.step(global_steps, plain(metrics), saved=saved)
        if stop is not None:
            raise Collapsed(stop.value)
        if over:
            raise BudgetSpentError("no further step fits the budget; this one is saved")


def decoupled(lambdas: Lambdas) -> Any:
    """verl's estimator, called once for the actor's λ and once for the critic's."""
    original = core_algos.compute_gae_advantage_return

    def estimate(
        token_level_rewards: torch.Tensor,
        values: torch.Tensor,
        response_mask: torch.Tensor,
        gamma: Any,
        lam: Any,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        gains, _ = original(token_level_rewards, values, response_mask, lambdas.gamma, lambdas.actor)
        _, returns = original(token_level_rewards, values, response_mask, lambdas.gamma, lambdas.of_critic)
        return gains, returns

    return estimate


@ray.remote
class Runner:
    """The trainer's process."""

    def run(self, config: Any) -> None:
        """Trains to the last step. Raises Collapsed where the watch stops it, BudgetSpentError where time is up."""
        job = read_record(Path(config.warpsmith_job), PpoJob)
        if job is None:
            raise InfrastructureError(f"no job at {config.warpsmith_job}")
        config.transfer_queue.enable = True
        config.actor_rollout_ref.actor.policy_loss.loss_mode = LOSS
        OmegaConf.resolve(config)
        tq.init(config.transfer_queue)
        try:
            trainer = Trainer(config, job)
            trainer.init()
            episodes = AgentLoopManagerTQ.create(
                config=config,
                llm_client=trainer.get_llm_client(),
                teacher_client=trainer.get_teacher_client(),
                reward_loop_worker_handles=trainer.get_reward_handles(),
            )
            trainer.fit(episodes)
        finally:
            tq.close()


def main(path: Path) -> int:
    """Runs a job; the exit status."""
    job = read_record(path, PpoJob)
    if job is None:
        raise SystemExit(f"no job at {path}")
    config = compose("ppo_trainer", (*job.overrides, f"+warpsmith_job={path}"))
    try:
        run_ppo(config, task_runner_class=Runner)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, BudgetSpentError):
            return PAUSED
        if StageFolder(Path(job.folder)).stopped() is not None:
            return COLLAPSED
        raise
    finally:
        ray.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
