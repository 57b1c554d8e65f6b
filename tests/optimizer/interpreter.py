"""Runs a plan's kernels with PyTorch, factor by factor: checks fusion and splitting without a compiler."""

from math import prod
from typing import Any

import torch
from torch.utils import _pytree as pytree

from warpsmith.optimizer.build import Plan
from warpsmith.optimizer.fuse import Kernel
from warpsmith.optimizer.ir import SCANS, Const, Iota, Load, Op, Raw, TensorRef
from warpsmith.optimizer.library import Conv, Gemm, Library, Math, Operand
from warpsmith.optimizer.plan import Launch


def _pick(flat: torch.Tensor, index: torch.Tensor, guard: torch.Tensor) -> torch.Tensor:
    """Reads where the guard holds, and there only within the buffer."""
    assert bool(((index >= 0) & (index < flat.numel()) | ~guard).all())
    found = flat[index.where(guard, torch.tensor(0))]
    return found.where(guard, torch.zeros((), dtype=flat.dtype))


def _arg_key(x: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    bits = (x + 0.0).view(torch.int32).long()
    ordered = torch.where(x.isnan(), 0x7FFFFFFF, torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits))
    return (ordered << 32) | (0xFFFFFFFF - place)


def _leading_bits(x: torch.Tensor) -> torch.Tensor:
    return ((x.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


FUNCTIONS = {
    "leading_bits": _leading_bits,
    **{"pick": _pick, "pick_wide": _pick, "arg_key": _arg_key},
    **{"within": lambda x, n: (x >= 0) & (x < n), "key_place": lambda key: 0xFFFFFFFF - (key & 0xFFFFFFFF)},
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
        if isinstance(node, Load) and node.is_address:
            return self.memory[node.buf].reshape(-1)
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
        if launch.stages:
            for stage in launch.stages:
                self.run(stage)
            return
        kernel = launch.kernel
        masked = [k for k, m in enumerate(kernel.mask) if m]
        for item in kernel.items:
            value = self.element(kernel, item.expr, {})
            if item.kind in SCANS:
                value = _scanned(value, item.kind, masked)
            elif item.is_reduction:
                value = REDUCE[item.kind](value, dim=masked)
            elif item.scope == "row":
                value = torch.amax(value, dim=masked)
            self.memory[item.buf] = value.reshape(-1)


def _scanned(value: torch.Tensor, kind: str, masked: list[int]) -> torch.Tensor:
    last = [*(d for d in range(value.dim()) if d not in masked), *masked]
    moved = value.permute(last)
    flat = moved.reshape(*moved.shape[: value.dim() - len(masked)], -1)
    flat = flat.flip(-1) if kind.endswith("_reverse") else flat
    out = flat.cumsum(-1) if kind.startswith("cumsum") else flat.cumprod(-1)
    out = out.flip(-1) if kind.endswith("_reverse") else out
    return out.reshape(moved.shape).permute([last.index(d) for d in range(value.dim())])


def _key(code: str) -> str:
    """A parameter's name in the state dict."""
    return code.removeprefix("self.").replace('._modules["', ".").replace('"]', "")


def run_library(memory: dict[str, torch.Tensor], step: Library) -> None:
    """What the library is asked for, in the terms that it is asked in."""
    given = [memory[r.buf].reshape(-1)[r.offset :] for r in step.refs]
    if isinstance(step.spec, Gemm):
        out = _gemm(step.spec, given)
    else:
        out = _conv(step.spec, *given)
    memory[step.outs[0]] = out.reshape(-1)


def _matrix(flat: torch.Tensor, at: Operand, batches: int, rows: int, columns: int) -> torch.Tensor:
    strides = (1, at.leading) if at.transposed else (at.leading, 1)
    return flat.as_strided((batches, rows, columns), (at.step, *strides), flat.storage_offset())


def _as_tf32(x: torch.Tensor) -> torch.Tensor:
    """Cut to 10 bits after the leading one, as tensor cores read float32."""
    return (x.contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32)


def _gemm(spec: Gemm, given: list[torch.Tensor]) -> torch.Tensor:
    left = _matrix(given[0], spec.left, spec.batches, spec.rows, spec.inner)
    right = _matrix(given[1], spec.right, spec.batches, spec.inner, spec.columns)
    if spec.math is Math.TF32:
        left, right = _as_tf32(left), _as_tf32(right)
    out = spec.alpha * (left @ right)
    rest = given[2:]
    if spec.bias:
        out = out + rest.pop(0)[: spec.columns]
    if spec.beta:
        out = out + spec.beta * rest.pop(0)[: out.numel()].view(out.shape)
    if spec.activation == "gelu":
        return torch.nn.functional.gelu(out, approximate="tanh")
    return out.relu() if spec.activation else out


def _conv(spec: Conv, data: torch.Tensor, taps: torch.Tensor) -> torch.Tensor:
    rank = len(spec.stride)
    whole = (spec.parts * spec.sizes[0], *spec.sizes[1:])
    data, taps = data[: prod(whole)].view(whole), taps[: prod(spec.filter)].view(spec.filter)
    if not spec.transposed:
        run = getattr(torch.nn.functional, f"conv{rank}d")
        return run(data, taps, None, spec.stride, spec.padding, spec.dilation, spec.groups)
    run = getattr(torch.nn.functional, f"conv_transpose{rank}d")
    plain = run(data, taps, None, spec.stride, spec.padding, 0, spec.groups, spec.dilation)
    extra = [a - b for a, b in zip(spec.out[2:], plain.shape[2:], strict=True)]
    return run(data, taps, None, spec.stride, spec.padding, extra, spec.groups, spec.dilation)


def run_plan(module: Any, plan: Plan) -> float:
    """Root-mean-square error of the plan's results over (1 + rms of the model's), the largest over outputs."""
    torch.manual_seed(1)
    inputs = module.get_inputs()
    model = module.Model().eval()
    state = model.state_dict()
    memory = {b.name: t.contiguous() for b, t in zip(plan.program.inputs, inputs, strict=True)}
    memory |= {b.name: state[_key(b.code)] for b in plan.program.buffers.values() if b.role == "state"}
    machine = _Machine(plan, memory)
    for step in (*plan.ahead, *plan.steps):
        assert isinstance(step, Launch | Library)
        if isinstance(step, Library):
            run_library(memory, step)
        else:
            machine.run(step)
    with torch.no_grad():
        expected = pytree.tree_leaves(model(*inputs))
    got = pytree.tree_leaves(plan.program.result, is_leaf=lambda x: isinstance(x, TensorRef | Raw))
    worst = 0.0
    for e, ref in zip(expected, got, strict=True):
        value = memory[ref.buf].reshape(-1).as_strided(ref.shape, ref.strides, ref.offset)
        rms, value, e = e.numel() ** -0.5, value.double(), e.double()
        worst = max(worst, float((value - e).norm() * rms / (e.norm() * rms + 1)))
    return worst
