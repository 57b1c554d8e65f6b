"""The baselines there are: modes of arithmetic times ways to run. One table, and how a runner enters an entry.

The errors of a mode are told from eager runs of it and hold for every kind. Importing this loads no torch.
"""

import importlib.util
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from warpsmith.types import BaselineKind, baseline_name

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Mode:
    """A way to compute in float32 with PyTorch's own means.

    `tf32`: set everywhere, for products and for cuDNN; None leaves PyTorch's flags as they are. `autocast`: name of
    the dtype that autocast computes in; outputs are cast back to the reference's dtypes inside the timed region.
    """

    name: str
    tf32: bool | None = None
    autocast: str | None = None

    @property
    def always(self) -> bool:
        """Whether its baselines compete however accurate the candidate is."""
        return self.autocast is None and self.tf32 is not True

    def inapplicable(self, dtypes: Iterable[str]) -> str:
        """Why it changes nothing for a task of tensors of these dtypes; empty where it may."""
        if self.name != DEFAULT.name and "float32" not in set(dtypes):
            return "no float32 tensor: the same as default"
        return ""


DEFAULT = Mode("default")
MODES = (
    DEFAULT,
    Mode("strict", tf32=False),
    Mode("tf32", tf32=True),
    Mode("bf16", autocast="bfloat16"),
    Mode("fp16", autocast="float16"),
)
"""One line a mode."""


def mode_named(name: str) -> Mode:
    """The mode of that name."""
    return next(mode for mode in MODES if mode.name == name)


@dataclass(frozen=True)
class Entry:
    """One baseline: a mode and how it is run."""

    mode: Mode
    kind: BaselineKind

    @property
    def name(self) -> str:
        """Such as `tf32 compile`."""
        return baseline_name(self.mode.name, self.kind)

    @property
    def paper(self) -> bool:
        """Whether it is one of the two baselines of the published comparison."""
        return self.mode is DEFAULT and self.kind in (BaselineKind.EAGER, BaselineKind.COMPILE)


PAPER = (Entry(DEFAULT, BaselineKind.EAGER), Entry(DEFAULT, BaselineKind.COMPILE))
OPTIONAL = tuple(
    Entry(DEFAULT, kind)
    for kind in (BaselineKind.FROZEN, BaselineKind.MAX_AUTOTUNE, BaselineKind.CUDA_GRAPHS, BaselineKind.TVM)
)
"""Shown where everything is asked for; never part of a matched ratio."""


def competitors(modes: Sequence[str], *, frozen: bool) -> tuple[Entry, ...]:
    """What a candidate is matched with: every competing mode, eager and compiled.

    `frozen`: the candidate has a `prepare()`, so that it also meets torch.compile with its weights frozen.
    """
    kinds = [BaselineKind.EAGER, BaselineKind.COMPILE] + [BaselineKind.FROZEN] * frozen
    return tuple(Entry(mode, kind) for mode in MODES if mode.name in modes for kind in kinds)


def unavailable(entry: Entry) -> str:
    """Why this installation cannot run an entry, told without trying; empty where it may."""
    if entry.kind is BaselineKind.TVM and importlib.util.find_spec("tvm") is None:
        return "TVM is not installed"
    return ""


@contextmanager
def flags(mode: Mode) -> Iterator[None]:
    """PyTorch's precision flags as `mode` wants them; as they were afterwards, whatever happens inside."""
    kept = _flags()
    try:
        _set_flags(mode)
        yield
    finally:
        for holder, name, value in kept:
            setattr(holder, name, value)


def enter(entry: Entry, model: "torch.nn.Module", dtypes: Sequence[str], device: str) -> Callable[..., Any]:
    """`model` run on `device` as `entry` says. Sets this process's flags for good: it must run nothing else.

    `dtypes`: of the reference's outputs in order, which autocast's are cast back to.
    """
    _set_flags(entry.mode)
    return _KINDS[entry.kind](computing(entry.mode, model, dtypes, device))


def computing(mode: Mode, model: "torch.nn.Module", dtypes: Sequence[str], device: str) -> Callable[..., Any]:
    """`model` under the mode's autocast, its outputs cast back; the model itself where there is none."""
    import torch

    if mode.autocast is None:
        return model
    low = getattr(torch, mode.autocast)
    wanted = [getattr(torch, name) for name in dtypes]

    def forward(*inputs: Any) -> Any:
        with torch.autocast(device, dtype=low):
            output = model(*inputs)
        return _cast(output, list(wanted))

    return forward


def _cast(value: Any, wanted: list["torch.dtype"]) -> Any:
    """`value` with each tensor in the dtype at its place in `wanted`, which is used up. Simple enough for dynamo."""
    import torch

    if isinstance(value, torch.Tensor):
        return value.to(wanted.pop(0)) if wanted else value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[_cast(v, wanted) for v in value])
    if isinstance(value, (list, tuple)):
        return type(value)([_cast(v, wanted) for v in value])
    if type(value) is dict:
        return {key: _cast(v, wanted) for key, v in value.items()}
    return value


def _compiled(forward: Callable[..., Any], **how: Any) -> Callable[..., Any]:
    import torch

    return torch.compile(forward, **how)


def _frozen(forward: Callable[..., Any]) -> Callable[..., Any]:
    import torch._inductor.config

    # Not an option of this one compilation: dynamo asks the global. Weights and the casts of them become constants
    # at the first call, which comes after the last change of weights.
    torch._inductor.config.freezing = True
    return _compiled(forward)


def _replayed(forward: Callable[..., Any]) -> Callable[..., Any]:
    """CUDA graphs: a replay overwrites the outputs of the one before, so each call's are copied out, timed too."""
    import torch

    graph = _compiled(forward, mode="reduce-overhead")

    def run(*inputs: Any) -> Any:
        torch.compiler.cudagraph_mark_step_begin()
        return _copied(graph(*inputs))

    return run


def _copied(value: Any) -> Any:
    import torch
    from torch.utils import _pytree

    return _pytree.tree_map_only(torch.Tensor, lambda t: t.clone(), value)


_KINDS: dict[BaselineKind, Callable[..., Callable[..., Any]]] = {
    BaselineKind.EAGER: lambda forward: forward,
    BaselineKind.COMPILE: _compiled,
    BaselineKind.FROZEN: _frozen,
    BaselineKind.MAX_AUTOTUNE: lambda forward: _compiled(forward, mode="max-autotune-no-cudagraphs"),
    BaselineKind.CUDA_GRAPHS: _replayed,
    BaselineKind.TVM: lambda forward: _compiled(forward, backend="tvm"),
}
"""One line a kind."""
KEEPING = (BaselineKind.FROZEN, BaselineKind.TVM)
"""Kinds that make constants of the weights at the first call: none may change after it."""


def _set_flags(mode: Mode) -> None:
    import torch

    if mode.tf32 is not None:
        torch.backends.cuda.matmul.allow_tf32 = mode.tf32
        torch.backends.cudnn.allow_tf32 = mode.tf32


def _flags() -> list[tuple[Any, str, Any]]:
    """(holder, attribute, value) of the flags that modes set, in a form that sets them again."""
    import torch

    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    try:
        return [(holder, "allow_tf32", holder.allow_tf32) for holder in (matmul, cudnn)]
    except RuntimeError:
        # A task has set them by their newer names, and so that the older ones have no answer.
        holders = (matmul, cudnn.conv, cudnn.rnn)
        return [(holder, "fp32_precision", holder.fp32_precision) for holder in holders]
