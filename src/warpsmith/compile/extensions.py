"""In the process that runs a submission: `load_inline` and `load` hand out what was built before."""

import importlib.util
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpsmith.errors import CompileFailedError

if TYPE_CHECKING:
    from warpsmith.compile.requests import ExtensionRequest

FOLDER = "warpsmith_extensions"
"""Beside `model_new.py`: one folder an extension, and the index."""
INDEX = f"{FOLDER}/index.json"
"""Request hash → path of the built library, relative to the submission."""


def install(folder: Path) -> None:
    """Replaces both functions of `torch.utils.cpp_extension` where the submission in `folder` has an index.

    To be called before the submission is imported; nothing is undone. What was not built raises
    CompileFailedError at the call.
    """
    index = folder / INDEX
    if not index.is_file():
        return
    import torch.utils.cpp_extension as cpp_extension

    # pydantic, which other submissions' processes do without
    from warpsmith.compile.requests import inline_request, load_request

    built: dict[str, str] = json.loads(index.read_text())
    loaded: dict[str, Any] = {}

    def found(request: "ExtensionRequest") -> Any:
        key = request.content_hash
        if key not in loaded:
            if key not in built:
                raise CompileFailedError(
                    f"{request.name}: this call was not seen before the build, so there is nothing to load; "
                    "call load_inline at import, with sources and flags that are the same each time"
                )
            loaded[key] = _opened(request, folder / built[key])
        return loaded[key]

    cpp_extension.load_inline = lambda *args, **kwargs: found(inline_request(folder, *args, **kwargs))
    cpp_extension.load = lambda *args, **kwargs: found(load_request(folder, *args, **kwargs))


def _opened(request: "ExtensionRequest", path: Path) -> Any:
    if not request.python_module:
        import torch

        torch.ops.load_library(path)
        return str(path)
    # Two extensions may have one name, and pybind11 hands out the first of a name again: the folder makes it whole.
    # For the library's entry only the last part counts.
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}.{request.name}", path)
    if spec is None or spec.loader is None:
        raise CompileFailedError(f"{request.name}: {path.name} is not an extension module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
