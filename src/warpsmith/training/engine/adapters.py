"""verl's engines with low-rank adapters: a critic may have them, and a checkpoint holds them alone.

verl wraps every model as one that generates, which a value model is not, and stores whole weights under the names
of the wrapped modules, which nothing can load.
"""

from pathlib import Path
from typing import Any

import torch
from torch.distributed.tensor import DTensor, distribute_tensor
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead, FSDPEngineWithValueHead

from warpsmith.training.adapters import WEIGHTS, write_adapter

_FOLDER = "huggingface"
_NAME = ".default"
"""PEFT's name of the one adapter, which its files leave out."""


class _Adapters:
    """Stores what was trained in PEFT's format, and goes on from it. Without adapters it changes nothing."""

    def save_checkpoint(self, local_path: str, *args: Any, **kwargs: Any) -> None:
        """As verl's; then the adapter, and the optimizer's moments in bfloat16."""
        super().save_checkpoint(local_path, *args, **kwargs)
        if not self._is_lora:
            return
        weights = {name.replace(_NAME, ""): _whole(weights) for name, weights in self._trained()}
        if torch.distributed.get_rank() == 0:
            config = {
                key: _plain(value) for key, value in self.module.peft_config["default"].to_dict().items()
            }
            write_adapter(Path(local_path) / _FOLDER, config, weights, Path(self.model_config.local_path))
        rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
        shorten(Path(local_path) / f"optim_world_size_{ranks}_rank_{rank}.pt")
        torch.distributed.barrier()

    def load_checkpoint(self, local_path: str, *args: Any, **kwargs: Any) -> None:
        """As verl's, and the adapter."""
        super().load_checkpoint(local_path, *args, **kwargs)
        if not self._is_lora:
            return
        from safetensors.torch import load_file

        stored = load_file(Path(local_path) / _FOLDER / WEIGHTS)
        with torch.no_grad():
            for name, weights in self._trained():
                found = stored[name.replace(_NAME, "")].to(weights.dtype)
                if isinstance(weights, DTensor):
                    found = distribute_tensor(
                        found.to(weights.device), weights.device_mesh, weights.placements
                    )
                weights.copy_(found)
        torch.distributed.barrier()

    def _trained(self) -> list[tuple[str, Any]]:
        return [(name, weights) for name, weights in self.module.named_parameters() if "lora_" in name]


class LanguageEngine(_Adapters, FSDPEngineWithLMHead):
    """What generates."""


class ValueEngine(_Adapters, FSDPEngineWithValueHead):
    """What values: its head has an adapter too."""

    def _build_lora_module(self, module: Any) -> Any:
        from peft import LoraConfig, get_peft_model

        module.enable_input_require_grads()
        made = self.model_config
        config = LoraConfig(r=made.lora_rank, lora_alpha=made.lora_alpha, target_modules=made.target_modules)
        return get_peft_model(module, config)


def shorten(path: Path) -> None:
    """The moments of an optimizer's file in bfloat16; a loaded one takes its parameters' type again."""
    stored = torch.load(path, weights_only=False)
    for state in stored["state"].values():
        for name, value in state.items():
            if isinstance(value, torch.Tensor) and value.dim() > 0 and value.is_floating_point():
                state[name] = value.to(torch.bfloat16)
    torch.save(stored, path)


def register(device: str) -> None:
    """Puts these engines in place of verl's."""
    from verl.workers.engine import EngineRegistry

    for kind, engine in (("language_model", LanguageEngine), ("value_model", ValueEngine)):
        for backend in ("fsdp", "fsdp2"):
            EngineRegistry._engines[kind].setdefault(backend, {})[device] = engine


def _whole(weights: torch.Tensor) -> torch.Tensor:
    """All of a sharded tensor, in float32 on the CPU."""
    whole = weights.full_tensor() if isinstance(weights, DTensor) else weights
    return whole.detach().float().cpu().contiguous()


def _plain(value: Any) -> Any:
    """What JSON can hold."""
    if isinstance(value, set):
        return sorted(value)
    return getattr(value, "value", value)
