"""A task's source becomes an exported graph, without its inputs or weights ever being allocated."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from warpsmith.errors import TaskRefusedError, TaskUnreadableError, TaskUnsupportedError
from warpsmith.types.arguments import constructor_arguments

if TYPE_CHECKING:
    import torch

SMALL_BYTES = 256 << 20
"""Inputs and state up to this size may be allocated for real where fake tensors do not do."""
MAX_CONSTANT_ELEMENTS = 4096
DECOMPOSE = frozenset(
    "smooth_l1_loss mse_loss huber_loss l1_loss kl_div triplet_margin_loss cosine_similarity soft_margin_loss "
    "pairwise_distance binary_cross_entropy binary_cross_entropy_with_logits hinge_embedding_loss softmin "
    "margin_ranking_loss addcmul softplus_backward pixel_shuffle".split()
)
"""Composite operators that are worth taking apart; every other one is lowered as a whole or kept as a call."""


@dataclass(frozen=True)
class StateEntry:
    """One entry of the reference's `state_dict()`; `dtype` is such as `float32`."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    is_parameter: bool


@dataclass
class Captured:
    """An exported model with its state and the tensors that are constants of the code."""

    exported: Any
    state: tuple[StateEntry, ...]
    constants: dict[str, torch.Tensor]
    """Tensors that are in the graph but in no state dict, by the name that the signature gives them."""


def load_task(path: Path) -> ModuleType:
    """Import a task file. Raises TaskUnreadableError or TaskRefusedError."""
    spec = importlib.util.spec_from_file_location("warpsmith_task", path)
    if spec is None or spec.loader is None:
        raise TaskUnreadableError(f"{path.name} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise TaskUnreadableError(f"the task has a syntax error: {_one_line(error)}") from error
    except Exception as error:
        raise TaskRefusedError(f"the task raises on import: {_one_line(error)}") from error
    for name in ("Model", "get_inputs"):
        if not hasattr(module, name):
            raise TaskUnreadableError(f"the task defines no {name}")
    return module


def capture(module: ModuleType) -> Captured:
    """Export `Model` for its inputs in eval mode under no_grad.

    Raises TaskRefusedError where the model itself raises, TaskUnsupportedError where only the export fails.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    try:
        with FakeTensorMode(allow_non_fake_inputs=True):
            captured = _export(module)
    except Exception as fake_error:  # noqa: BLE001 - sorted out below, with real tensors
        return _capture_real(module, fake_error)
    needs = [s for s in captured.exported.graph_signature.input_specs if _is_constant(s)]
    if needs:
        captured.constants = _known_constants(
            captured.exported, [_constant_key(s) for s in needs]
        ) or _constants(module, [_constant_key(s) for s in needs])
    return captured


def _known_constants(exported: Any, names: Sequence[str]) -> dict[str, torch.Tensor] | None:
    """Values that the export kept for real (those of small literals); None unless all are known."""
    from torch._subclasses.fake_tensor import FakeTensor

    found = {}
    for name in names:
        value = exported.constants.get(name)
        value = value.constant if isinstance(value, FakeTensor) else value
        if value is None:
            return None
        found[name] = value
    return found


def _capture_real(module: ModuleType, fake_error: Exception) -> Captured:
    size = _fake_bytes(module)
    if size is not None and size > SMALL_BYTES:
        raise TaskUnsupportedError(
            f"torch.export cannot capture the model without allocating it: {_one_line(fake_error)}"
        ) from fake_error
    import torch

    try:
        with torch.no_grad():
            model, inputs = _build(module)
            model(*inputs)
    except Exception as error:
        raise TaskRefusedError(f"the model raises: {_one_line(error)}") from error
    try:
        captured = _export(module)
    except Exception as error:
        raise TaskUnsupportedError(f"torch.export cannot capture the model: {_one_line(error)}") from error
    needs = [s for s in captured.exported.graph_signature.input_specs if _is_constant(s)]
    if needs:
        captured.constants = _constants(module, [_constant_key(s) for s in needs])
    return captured


def _build(module: ModuleType) -> tuple[torch.nn.Module, list[Any]]:
    found = module.get_init_inputs() if hasattr(module, "get_init_inputs") else []
    init = constructor_arguments(found, module.Model)
    model = module.Model(*init.args, **init.kwargs)
    return model.eval(), list(module.get_inputs())


def _export(module: ModuleType) -> Captured:
    import torch

    with torch.no_grad():
        model, inputs = _build(module)
        exported = torch.export.export(model, tuple(inputs), strict=False)
        table = torch.export.default_decompositions()
        chosen = {op: f for op, f in table.items() if _base_name(op) in DECOMPOSE}
        exported = exported.run_decompositions(chosen)
    parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    state = tuple(
        StateEntry(name, tuple(t.shape), str(t.dtype).removeprefix("torch."), name in parameters)
        for name, t in model.state_dict().items()
    )
    return Captured(exported, state, {})


def _base_name(op: Any) -> str:
    return str(op).removeprefix("aten.").split(".")[0]


def _fake_bytes(module: ModuleType) -> int | None:
    """Bytes of inputs and state, or None where even that cannot be found without allocating."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    try:
        with FakeTensorMode(allow_non_fake_inputs=True):
            model, inputs = _build(module)
            tensors = [*model.state_dict().values(), *(x for x in inputs if hasattr(x, "nbytes"))]
            return sum(t.nbytes for t in tensors)
    except Exception:  # noqa: BLE001 - unknown is an answer here
        return None


def _is_constant(spec: Any) -> bool:
    return "CONSTANT" in spec.kind.name or (spec.kind.name == "BUFFER" and spec.persistent is False)


def _constant_key(spec: Any) -> str:
    return str(spec.target)


def _constants(module: ModuleType, names: Sequence[str]) -> dict[str, torch.Tensor]:
    """Real values of tensors that are fixed by the code. Two constructions must agree."""
    import torch

    size = _fake_bytes(module)
    if size is not None and size > SMALL_BYTES:
        raise TaskUnsupportedError("the model holds constants that are in no state dict and is large")
    found = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        with torch.no_grad():
            model, inputs = _build(module)
            exported = torch.export.export(model, tuple(inputs), strict=False).run_decompositions({})
        found.append({**exported.constants, **dict(model.named_buffers())})
    result = {}
    for name in names:
        first, second = found[0].get(name), found[1].get(name)
        if first is None or second is None or not torch.equal(first, second):
            raise TaskUnsupportedError(f"the constant {name} differs from one construction to the next")
        if first.numel() > MAX_CONSTANT_ELEMENTS:
            raise TaskUnsupportedError(f"the constant {name} has more than {MAX_CONSTANT_ELEMENTS} elements")
        result[name] = first.detach().clone()
    return result


def _one_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__
