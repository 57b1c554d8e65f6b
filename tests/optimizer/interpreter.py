"""Runs a plan's kernels with PyTorch, factor by factor: checks fusion and splitting without a compiler."""

from typing import Any

import torch
from torch.utils import _pytree as pytree

from warpsmith.optimizer.build import Plan
from warpsmith.optimizer.fuse import Kernel
from warpsmith.optimizer.ir import Const, Iota, Load, Op, Raw, TensorRef
from warpsmith.optimizer.plan import Launch

FUNCTIONS = {
    **{"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "where": torch.where},
    **{
        "maximum": torch.maximum,
        "minimum": torch.minimum,
        "to_float": lambda x: x.float(),
        "to_int": lambda x: x.long(),
    },
    **{"not": torch.logical_not, "and": torch.logical_and, "or": torch.logical_or},
}
REDUCE = {"sum": torch.sum, "max": torch.amax, "min": torch.amin}


class _Machine:
    def __init__(self, plan: Plan, memory: dict[str, torch.Tensor]) -> None:
        self.plan, self.memory = plan, memory

    def element(self, kernel: Kernel, at: int, known: dict[int, torch.Tensor]) -> torch.Tensor:
        """An expression over the whole index space."""
        for i in self.plan.program.arena.walk(at):
            if i not in known:
                known[i] = self.node(kernel, self.plan.program.arena.nodes[i], known)
        return known[at]

    def node(self, kernel: Kernel, node: object, known: dict[int, torch.Tensor]) -> torch.Tensor:
        if isinstance(node, Const):
            return torch.full(kernel.sizes, node.value)
        if isinstance(node, Load | Iota):
            place = torch.full(kernel.sizes, node.offset, dtype=torch.int64)
            for k, (size, stride) in enumerate(zip(kernel.sizes, node.strides, strict=True)):
                shape = [1] * len(kernel.sizes)
                shape[k] = size
                place = place + (torch.arange(size) * stride).view(shape)
            return place if isinstance(node, Iota) else self.memory[node.buf].reshape(-1)[place]
        assert isinstance(node, Op)
        function = FUNCTIONS.get(node.name) or getattr(torch, node.name)
        return function(*(known[a] for a in node.args))

    def run(self, launch: Launch) -> None:
        """All items in order; every result is left in memory, as registers would hold it."""
        kernel = launch.kernel
        masked = [k for k, m in enumerate(kernel.mask) if m]
        for item in kernel.items:
            value = self.element(kernel, item.expr, {})
            if item.is_reduction:
                value = REDUCE[item.kind](value, dim=masked)
            elif item.scope == "row":
                value = torch.amax(value, dim=masked)
            self.memory[item.buf] = value.reshape(-1)


def run_plan(module: Any, plan: Plan) -> float:
    """Root-mean-square error of the plan's results over (1 + rms of the model's), the largest over outputs."""
    torch.manual_seed(1)
    inputs = module.get_inputs()
    memory = {b.name: t.contiguous() for b, t in zip(plan.program.inputs, inputs, strict=True)}
    machine = _Machine(plan, memory)
    for step in plan.steps:
        assert isinstance(step, Launch)
        machine.run(step)
    expected = pytree.tree_leaves(module.Model()(*inputs))
    got = pytree.tree_leaves(plan.program.result, is_leaf=lambda x: isinstance(x, TensorRef | Raw))
    worst = 0.0
    for e, ref in zip(expected, got, strict=True):
        value = memory[ref.buf].reshape(-1).as_strided(ref.shape, ref.strides, ref.offset)
        rms = e.numel() ** -0.5
        worst = max(worst, float((value - e).norm() * rms / (e.norm() * rms + 1)))
    return worst
