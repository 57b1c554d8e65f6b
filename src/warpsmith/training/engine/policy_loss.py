"""PPO's loss as verl computes it, with its clip counted on each side."""

from typing import Any

import torch
from verl.trainer.ppo.core_algos import compute_policy_loss_vanilla, register_policy_loss

LOSS = "warpsmith"


@register_policy_loss(LOSS)
def policy_loss(
    old_log_prob: torch.Tensor,  # (batch, response)
    log_prob: torch.Tensor,  # (batch, response)
    advantages: torch.Tensor,  # (batch, response)
    response_mask: torch.Tensor,  # (batch, response)
    loss_agg_mode: str = "token-mean",
    config: Any = None,
    rollout_is_weights: torch.Tensor | None = None,
) -> tuple[torch.Tensor, dict[str, Any]]:
    """The clipped objective; `actor/clip_low` and `actor/clip_high` are `instruments.clip_fractions`."""
    loss, metrics = compute_policy_loss_vanilla(
        old_log_prob, log_prob, advantages, response_mask, loss_agg_mode, config, rollout_is_weights
    )
    mask = response_mask.bool()
    ratios = torch.exp((log_prob - old_log_prob).detach())[mask]
    gains = advantages[mask]
    tokens = max(1, ratios.numel())
    below = ((ratios < 1 - config.clip_ratio_low) & (gains < 0)).sum().item() / tokens
    above = ((ratios > 1 + config.clip_ratio_high) & (gains > 0)).sum().item() / tokens
    return loss, metrics | {"actor/clip_low": below, "actor/clip_high": above}
