"""The process that finds out which extensions a submission asks for: imports it, and notes instead of building.

Started as `python -I -m warpsmith.compile.collector FOLDER NOTES ARCH [ARGUMENTS]` in a sandbox, since it runs the
submission's code. ARGUMENTS is the file of what the task gives the constructor. Each call appends one line of JSON to
the file NOTES. What is said there is not believed: it is one more source to be compiled, and the process that runs
the submission later gets a library only for the very call it was made from.

The simulator's preamble stands in for CUDA on both devices, so that no GPU is touched and a guard such as
`torch.cuda.is_available()` holds.
"""

import importlib.util
import inspect
import json
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from warpsmith.compile.requests import ExtensionRequest, inline_request, load_request
from warpsmith.errors import CompileFailedError
from warpsmith.types.arguments import Arguments

MODEL = "model_new"
MODEL_CLASS = "ModelNew"
_EXAMPLES: dict[Any, Any] = {float: 1.0, bool: True, str: "", tuple: (1,), list: [1]}


class Placeholder(ModuleType):
    """Stands for an extension: has every attribute, takes every call, and is nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Placeholder(name)

    def __call__(self, *_args: Any, **_kwargs: Any) -> Any:
        return self


class Recorder:
    """Takes the place of `load_inline` and `load`; notes each request, or why it cannot be one."""

    def __init__(self, root: Path, notes: Path):
        self._root, self._notes = root, notes
        self.guessing = False
        """Calls made with arguments of ours: what cannot be built then proves nothing."""

    def start(self) -> None:
        """Notes that the submission's code runs from here on: what fails before is not its fault."""
        self._write({"started": True})

    def constructs(self) -> None:
        """Notes that a constructor was called with arguments of ours, and that what it asks for may hang on them."""
        self._write({"constructs": True})

    def load_inline(self, *args: Any, **kwargs: Any) -> Any:
        """As PyTorch's, without building."""
        return self._note(inline_request, args, kwargs)

    def load(self, *args: Any, **kwargs: Any) -> Any:
        """As PyTorch's, without building."""
        return self._note(load_request, args, kwargs)

    def _note(self, made: Callable[..., ExtensionRequest], args: tuple[Any, ...], kwargs: dict) -> Any:
        try:
            request = made(self._root, *args, **kwargs)
        except CompileFailedError as error:
            if not self.guessing:
                self._write({"refused": str(error)})
            raise
        self._write({"request": request.model_dump(mode="json")})
        return Placeholder(request.name) if request.python_module else ""

    def _write(self, note: dict) -> None:
        with self._notes.open("a") as file:
            file.write(json.dumps(note) + "\n")


def main() -> int:
    """Imports the submission, then calls what would build later. Status 1 where the import raised."""
    root, notes, arch = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    import torch
    import torch.utils.cpp_extension as cpp_extension

    from warpsmith.sim import preamble

    torch.set_num_threads(1)
    preamble.install()
    if (match := re.fullmatch(r"sm_(\d+)(\d)[af]?", arch)) is not None:
        capability = int(match[1]), int(match[2])
        torch.cuda.get_device_capability = lambda *_args, **_kwargs: capability
    recorder = Recorder(root, notes)
    cpp_extension.load_inline, cpp_extension.load = recorder.load_inline, recorder.load
    sys.modules["cuda_extension"] = Placeholder("cuda_extension")
    sys.path.insert(0, str(root))
    spec = importlib.util.spec_from_file_location(MODEL, root / f"{MODEL}.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[MODEL] = importlib.util.module_from_spec(spec)
    recorder.start()
    try:
        spec.loader.exec_module(module)
    except BaseException:  # noqa: BLE001 - the judge's own import tells; what was noted counts
        traceback.print_exc()
        return 1
    recorder.guessing = True
    given = torch.load(sys.argv[4], weights_only=False) if len(sys.argv) > 4 else None
    with torch.no_grad():
        for call in later_calls(module, recorder, given):
            try:
                call()
            except BaseException:  # noqa: BLE001 - made with arguments of ours
                traceback.print_exc()
    return 0


def later_calls(
    module: ModuleType, recorder: Recorder, given: Arguments | None
) -> Iterator[Callable[[], Any]]:
    """Calls of those functions and classes of `module` by which an extension would be built after the import.

    Functions that need arguments are reached by their callers; methods get arguments of ours. So do constructors,
    unless the real ones of `ModelNew` are `given`: it then constructs whatever else it needs.
    """
    unwrapped = {name: _function(value, module) for name, value in vars(module).items()}
    functions = {name: function for name, function in unwrapped.items() if function is not None}
    classes = [c for c in vars(module).values() if isinstance(c, type) and c.__module__ == module.__name__]
    methods = {cls: {n: f for n, f in vars(cls).items() if isinstance(f, FunctionType)} for cls in classes}
    everything = [*functions.items(), *(item for owned in methods.values() for item in owned.items())]
    builds = _reaching(module, everything)
    for name, function in functions.items():
        if name in builds and not _arguments(function):
            yield function
    wanted = {cls: [name for name in owned if name in builds] for cls, owned in methods.items()}
    if not any(wanted.values()):
        return
    model = vars(module).get(MODEL_CLASS)
    if given is not None and model in wanted:
        yield lambda: _visit(model, wanted[model], given)
        return
    recorder.constructs()
    for cls, names in wanted.items():
        if names:
            yield lambda cls=cls, names=names: _visit(cls, names, None)


def _function(value: object, module: ModuleType) -> FunctionType | None:
    """The function of this module that `value` is or wraps (a cache's, a decorator's)."""
    function = (
        inspect.unwrap(value) if callable(value) and not isinstance(value, (type, Placeholder)) else None
    )
    if isinstance(function, FunctionType) and function.__globals__ is vars(module):
        return function
    return None


def _reaching(module: ModuleType, functions: list[tuple[str, FunctionType]]) -> set[str]:
    """Names of functions whose code names `load_inline`, `load` or another such function."""
    found = {"load_inline", "cpp_extension"}
    found |= {
        name for name, value in vars(module).items() if isinstance(getattr(value, "__self__", None), Recorder)
    }
    while True:
        more = {name for name, f in functions if not found.isdisjoint(_names(f.__code__))} - found
        if not more:
            return found
        found |= more


def _names(code: CodeType) -> set[str]:
    nested = (_names(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*nested)


def _visit(cls: type, methods: list[str], given: Arguments | None) -> None:
    import torch

    arguments = given or Arguments(tuple(_arguments(vars(cls).get("__init__"))), {})
    try:
        instance = cls(*arguments.args, **arguments.kwargs)
    except BaseException:  # noqa: BLE001 - an instance that nothing was given
        instance = cls.__new__(cls)
        if isinstance(instance, torch.nn.Module):
            torch.nn.Module.__init__(instance)
    for name in methods:
        if name != "__init__":
            try:
                getattr(instance, name)(*_arguments(vars(cls)[name], tensors=True))
            except BaseException:  # noqa: BLE001 - made with arguments of ours
                traceback.print_exc()


def _arguments(function: FunctionType | None, *, tensors: bool = False) -> list[Any]:
    """Values for the parameters that have no default; `self` is not among them."""
    import torch

    if function is None:
        return []
    parameters = list(inspect.signature(function).parameters.values())
    if "." in function.__qualname__.rpartition("<locals>.")[2]:
        parameters = parameters[1:]
    wanted = [
        p
        for p in parameters
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    return [torch.ones(1, 1) if tensors else _EXAMPLES.get(p.annotation, 1) for p in wanted]


if __name__ == "__main__":
    raise SystemExit(main())
