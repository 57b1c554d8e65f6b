"""A catalogue of a few operators, tried once, and tasks of a known fate."""

from functools import lru_cache

from warpsmith.synthesis.crawl_torch import catalogue_of
from warpsmith.synthesis.function_templates import function_templates
from warpsmith.synthesis.module_templates import module_templates
from warpsmith.synthesis.records import Catalogue, ComposedTask, CostEstimate, Family, Origin, Provenance
from warpsmith.synthesis.templates import function, module

NAMES = frozenset(
    "nn.Linear nn.LayerNorm nn.Conv2d nn.GroupNorm nn.MaxPool2d torch.sum torch.amax torch.mul torch.clamp "
    "torch.where F.layer_norm F.linear torch.pow nn.LeakyReLU".split()
)


@lru_cache(maxsize=1)
def small_catalogue() -> Catalogue:
    """About twenty templates of torch, in a few seconds."""
    table = [t for t in (*module_templates(), *function_templates()) if t.name in NAMES]
    guessed = [
        module("ReLU", Family.ACTIVATION, "2345"),
        module("Tanh", Family.ACTIVATION, "2345"),
        function("F.gelu", Family.ACTIVATION, "2345", "{x}"),
        function("torch.exp", Family.ELEMENTWISE, "2345", "{x}"),
        function("torch.log1p", Family.ELEMENTWISE, "2345", "{x}"),
    ]
    return catalogue_of([*table, *guessed])


def written(
    forward: str,
    *,
    init: str = "pass",
    inputs: str = "torch.randn(batch, 64)",
    ops: tuple[str, ...] = ("torch.exp",),
    head: str = "",
    cost: CostEstimate | None = None,
    origin: Origin = Origin.USER,
) -> ComposedTask:
    """A task with this body of forward(x) and these inputs; `batch` is 1024."""
    code = f"""import torch
import torch.nn as nn
import torch.nn.functional as F
{head}

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {init}

    def forward(self, x, *more):
        {forward}


batch = 1024


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
"""
    provenance = Provenance(origin=origin, libraries=("torch",), licences=("Apache-2.0",))
    return ComposedTask(name="written", ops=ops, data_source="torch#1", code=code, provenance=provenance,
                        cost=cost or estimate())  # fmt: skip


def estimate(eager_ms: float = 3.0, fused_ms: float = 1.0, flops: int = 0) -> CostEstimate:
    """An estimate within every bound."""
    return CostEstimate(
        gpu="H200", eager_ms=eager_ms, fused_ms=fused_ms, floor_ms=fused_ms, fusion_gain=eager_ms / fused_ms,
        headroom=eager_ms / fused_ms, peak_bytes=1 << 30, flops=flops,
    )  # fmt: skip
