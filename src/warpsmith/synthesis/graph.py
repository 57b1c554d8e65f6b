"""The operator graph of a task: what its forward runs, traced on fake tensors, so that no size costs anything.

Runs the task's code in this process; `graph_worker` is the process to do it in. Imports torch.
"""

import contextlib
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from warpsmith.types.arguments import constructor_arguments

MODULE_NAME = "warpsmith_task"
_WARM_UP = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)

    def forward(self, x):
        return torch.nn.functional.silu(self.layer(x)).softmax(-1)


def get_inputs():
    return [torch.randn(2, 2)]
"""


@dataclass(frozen=True)
class Trace:
    """A traced forward: `graph_module` is functional and decomposed to core ATen, its weights are inputs."""

    graph_module: Any
    weights: int
    """How many of the placeholders, the first ones, are parameters and buffers; the others are inputs."""
    called: tuple[str, ...]
    """Torch functions, methods and modules as the task's code calls them, each once: `torch.nn.Linear`."""


def trace(code: str) -> Trace:
    """Traces a task's `Model` in the mode that tasks run in: eval, no gradients. Raises whatever the task raises."""
    import torch
    from torch._decomp import core_aten_decompositions
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.func import functional_call, functionalize
    from torch.fx.experimental.proxy_tensor import make_fx

    module = _imported(code)
    called: dict[str, None] = {}
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        init = constructor_arguments(_given(module, "get_init_inputs"), module.Model)
        model = module.Model(*init.args, **init.kwargs).eval()
        inputs = _as_list(_given(module, "get_inputs"))
        state = {**dict(model.named_parameters()), **dict(model.named_buffers())}

        def forward(state: dict[str, Any], inputs: list[Any]) -> Any:
            # the mode sits inside the tracer, so that it sees what the task calls and not what tracing does
            with _recorded(called):
                return functional_call(model, state, tuple(inputs))

        table = core_aten_decompositions()
        traced = make_fx(functionalize(forward), decomposition_table=table, tracing_mode="real")(
            state, inputs
        )
    return Trace(traced, len(state), tuple(called))


def run(code: str) -> None:
    """Runs a task's `Model` for real on the CPU. Raises whatever the task raises."""
    import torch

    module = _imported(code)
    with torch.no_grad():
        init = constructor_arguments(_given(module, "get_init_inputs"), module.Model)
        model = module.Model(*init.args, **init.kwargs).eval()
        model(*_as_list(_given(module, "get_inputs")))


def _imported(code: str) -> types.ModuleType:
    module = types.ModuleType(MODULE_NAME)
    # dataclasses look their class up through its module
    sys.modules[MODULE_NAME] = module
    exec(compile(code, "<task>", "exec", dont_inherit=True), module.__dict__)
    return module


def _given(module: types.ModuleType, name: str) -> Any:
    return getattr(module, name)() if hasattr(module, name) else []


def _as_list(found: Any) -> list[Any]:
    return list(found) if isinstance(found, list | tuple | Iterator) else [found]


@contextlib.contextmanager
def _recorded(called: dict[str, None]) -> Iterator[None]:
    """Adds to `called` the name of every torch function, method and torch module that is called."""
    from torch.nn.modules.module import register_module_forward_pre_hook
    from torch.overrides import TorchFunctionMode, resolve_name

    class Recorder(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if name := resolve_name(func) or getattr(func, "__name__", ""):
                called.setdefault(name)
            return func(*args, **(kwargs or {}))

    def entered(module: Any, args: Any) -> None:
        kind = type(module)
        in_torch = kind.__module__.split(".")[:2] == ["torch", "nn"]
        called.setdefault(f"torch.nn.{kind.__name__}" if in_torch else kind.__name__)

    hook = register_module_forward_pre_hook(entered)
    try:
        with Recorder():
            yield
    finally:
        hook.remove()


def warm_up() -> None:
    """Traces a small model, so that forks of this process need not load what tracing loads."""
    trace(_WARM_UP)
