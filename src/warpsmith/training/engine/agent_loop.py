"""Our episode as an agent loop of verl: `run_episode` in a thread, its model the trainer's own."""

import asyncio
import concurrent.futures
import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput

from warpsmith.errors import InfrastructureError, ModelUnavailableError
from warpsmith.training.chat import ChatEncoder
from warpsmith.training.jobs import PpoJob
from warpsmith.training.player import Played, Player
from warpsmith.training.stage import read_record
from warpsmith.training.token_llm import Generate, Generated
from warpsmith.types import Task

NAME = "warpsmith"
_GENERATE_S = 3600.0
"""Longest wait for one reply."""
_THREADS = 256


class EpisodeLoop(AgentLoopBase):
    """One a trajectory; the player and its threads are shared by all of a worker's process."""

    def __init__(self, *args: Any, job: str, tools: Any = None, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._player, self._threads = _shared(job, self.tokenizer)

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> AgentLoopOutput:
        """Plays the row's task. What cannot be used is masked whole, so that nothing is learned from it."""
        task = Task.model_validate_json(row["task"])
        step, sample = int(row["global_steps"]), int(row.get("session_id", 0))
        name = f"step-{step:06d}/{task.task_hash[:12]}-{int(row['index'])}-{sample}"
        seen: dict[str, Any] = {}
        generate = self._generate(sampling_params, seen, asyncio.get_running_loop())
        played = await asyncio.get_running_loop().run_in_executor(
            self._threads, self._player.play, task, name, generate
        )
        return _output(played, step, seen)

    def _generate(
        self, sampling_params: dict[str, Any], seen: dict[str, Any], loop: asyncio.AbstractEventLoop
    ) -> Generate:
        request = uuid4().hex

        def generate(prompt: Sequence[int], most: int, temperature: float) -> Generated:
            asked = self.server_manager.generate(
                request_id=request,
                prompt_ids=list(prompt),
                sampling_params={**sampling_params, "max_tokens": most, "temperature": temperature},
            )
            try:
                output = asyncio.run_coroutine_threadsafe(asked, loop).result(_GENERATE_S)
            except (TimeoutError, concurrent.futures.TimeoutError) as error:
                raise ModelUnavailableError(f"no reply came within {_GENERATE_S:g} s") from error
            if output.log_probs is None:
                raise InfrastructureError(
                    "the rollout engine tells no log-probabilities", hint="set rollout.calculate_log_probs"
                )
            seen.update(output.extra_fields)
            return Generated(ids=tuple(output.token_ids), logprobs=tuple(output.log_probs))

        return generate


def _output(played: Played, step: int, seen: dict[str, Any]) -> AgentLoopOutput:
    trajectory = played.trajectory
    usable = played.usable and trajectory is not None
    told = {
        "reward": played.reward if usable else None,
        "fault": played.fault,
        "stop": played.episode.stop.value if played.episode else "",
        "turns": len(played.episode.turns) if played.episode else 0,
        "masked_share": trajectory.masked_share if trajectory else 0.0,
        "truncated": trajectory is not None and trajectory.truncated,
        "generate_s": played.generate_s,
        "judge_s": played.judge_s,
    }
    # episodes of an earlier process were made by the weights of the step before
    versions = {"min_global_steps": step - 1, "max_global_steps": step - 1, "global_steps": step - 1} | {
        name: value for name, value in seen.items() if value is not None
    }
    return AgentLoopOutput(
        prompt_ids=list(trajectory.prompt) if trajectory else [0],
        response_ids=list(trajectory.response) if trajectory else [0],
        response_mask=[int(written and usable) for written in trajectory.mask] if trajectory else [0],
        response_logprobs=list(trajectory.logprobs) if trajectory else [0.0],
        reward_score=float(played.reward) if usable and played.reward is not None else 0.0,
        num_turns=told["turns"],
        metrics=AgentLoopMetrics(generate_sequences=played.generate_s, compute_score=played.judge_s),
        extra_fields=versions | {"warpsmith": json.dumps(told), "reward_extra_info": {}},
    )


@functools.lru_cache(maxsize=1)
def _shared(job: str, tokenizer: Any) -> tuple[Player, concurrent.futures.ThreadPoolExecutor]:
    """A worker's process plays for one run only."""
    read = read_record(Path(job), PpoJob)
    if read is None:
        raise InfrastructureError(f"no job at {job}")
    threads = concurrent.futures.ThreadPoolExecutor(_THREADS, thread_name_prefix="episode")
    return Player(read.plan, ChatEncoder(tokenizer)), threads
