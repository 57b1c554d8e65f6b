"""What `torch.utils.cpp_extension.load_inline` or `load` is asked for, as a record.

Made by the same code where a submission is looked through before the build and where it runs, so that equal calls
have equal hashes.
"""

import os
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, field_validator

from warpsmith.errors import CompileFailedError
from warpsmith.types import Record

_SYSTEM = ("/usr/", "/opt/")
_Words = Iterable[str] | str | None


class ExtensionRequest(Record):
    """One extension: `generated` files (path → text) and `units` of the submission, compiled and linked as `name`.

    `include_paths` are folders of the submission.
    """

    name: str
    generated: dict[str, str] = Field(default_factory=dict)
    units: tuple[str, ...] = ()
    cflags: tuple[str, ...] = ()
    cuda_cflags: tuple[str, ...] = ()
    ldflags: tuple[str, ...] = ()
    include_paths: tuple[str, ...] = ()
    python_module: bool = True

    @field_validator("name")
    @classmethod
    def _is_name(cls, name: str) -> str:
        if not re.fullmatch(r"[A-Za-z_]\w{0,99}", name, re.ASCII):
            raise ValueError(f"an extension cannot be named {name[:100]!r}: use letters, digits and `_`")
        return name


def inline_request(
    root: Path,
    name: str,
    cpp_sources: _Words,
    cuda_sources: _Words = None,
    sycl_sources: _Words = None,
    functions: Mapping[str, str] | _Words = None,
    extra_cflags: _Words = None,
    extra_cuda_cflags: _Words = None,
    extra_sycl_cflags: _Words = None,
    extra_ldflags: _Words = None,
    extra_include_paths: _Words = None,
    build_directory: Any = None,
    verbose: bool = False,
    with_cuda: bool | None = None,
    with_sycl: bool | None = None,
    is_python_module: bool = True,
    with_pytorch_error_handling: bool = True,
    keep_intermediates: bool = True,
    use_pch: bool = False,
    no_implicit_headers: bool = False,
) -> ExtensionRequest:
    """The request of a call of `load_inline` with these arguments, in a submission that lies in `root`.

    Raises CompileFailedError for what no build can do, TypeError for arguments of a wrong type.
    """
    if sycl_sources:
        raise CompileFailedError(f"{name}: SYCL sources cannot be built; give cuda_sources")
    cpp, cuda = _words(cpp_sources), _words(cuda_sources)
    implicit = not no_implicit_headers
    main = ["#include <torch/extension.h>", *cpp] if implicit else cpp
    if functions is not None:
        bound = functions if isinstance(functions, Mapping) else {f: f for f in _words(functions)}
        wrap = "torch::wrap_pybind_function({})" if with_pytorch_error_handling else "{}"
        main = [*main, "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {"]
        main += [
            f'm.def("{function}", {wrap.format(function)}, "{said}");' for function, said in bound.items()
        ]
        main.append("}")
    generated = {"main.cpp": "\n".join(main)}
    if cuda:
        headers = ("torch/types.h", "cuda.h", "cuda_runtime.h") if implicit else ()
        generated["cuda.cu"] = "\n".join([*(f"#include <{header}>" for header in headers), *cuda])
    return _request(
        root, name, generated, (), is_python_module,
        extra_cflags, extra_cuda_cflags, extra_ldflags, extra_include_paths,
    )  # fmt: skip


def load_request(
    root: Path,
    name: str,
    sources: _Words,
    extra_cflags: _Words = None,
    extra_cuda_cflags: _Words = None,
    extra_sycl_cflags: _Words = None,
    extra_ldflags: _Words = None,
    extra_include_paths: _Words = None,
    build_directory: Any = None,
    verbose: bool = False,
    with_cuda: bool | None = None,
    with_sycl: bool | None = None,
    is_python_module: bool = True,
    is_standalone: bool = False,
    keep_intermediates: bool = True,
) -> ExtensionRequest:
    """The same for a call of `load`. Files outside `root`, such as temporary ones, are taken by their text."""
    if is_standalone:
        raise CompileFailedError(f"{name}: is_standalone makes a program, not an extension")
    generated: dict[str, str] = {}
    units = []
    for number, source in enumerate(_words(sources)):
        inside = _inside(root, source)
        if inside is not None:
            units.append(inside)
            continue
        try:
            # its name may be another one in each process
            generated[f"source{number}{Path(source).suffix}"] = Path(source).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise CompileFailedError(f"{name}: cannot read the source file {source}") from error
    return _request(
        root, name, generated, tuple(units), is_python_module,
        extra_cflags, extra_cuda_cflags, extra_ldflags, extra_include_paths,
    )  # fmt: skip


def _request(
    root: Path,
    name: str,
    generated: Mapping[str, str],
    units: tuple[str, ...],
    python_module: bool,
    cflags: _Words,
    cuda_cflags: _Words,
    ldflags: _Words,
    include_paths: _Words,
) -> ExtensionRequest:
    try:
        return ExtensionRequest(
            name=name,
            generated={f"{name}/{path}": text for path, text in generated.items()},
            units=units,
            cflags=tuple(_words(cflags)),
            cuda_cflags=tuple(_words(cuda_cflags)),
            ldflags=tuple(_words(ldflags)),
            include_paths=_folders(root, name, _words(include_paths)),
            python_module=bool(python_module),
        )
    except ValidationError as error:
        raise CompileFailedError(str(error.errors()[0]["msg"]).removeprefix("Value error, ")) from error


def _words(value: _Words) -> list[str]:
    if value is None:
        return []
    words = [value] if isinstance(value, (str, Path)) else list(value)
    return [os.fspath(word) if isinstance(word, Path) else _text(word) for word in words]


def _text(word: object) -> str:
    if not isinstance(word, str):
        raise TypeError(f"expected str, got {type(word).__name__}")
    return word


def _inside(root: Path, path: str) -> str | None:
    """`path` relative to the submission, or None where it lies outside."""
    resolved, root = Path(path).resolve(), root.resolve()
    return resolved.relative_to(root).as_posix() if resolved.is_relative_to(root) else None


def _folders(root: Path, name: str, paths: Iterable[str]) -> tuple[str, ...]:
    inside = []
    for path in paths:
        if (relative := _inside(root, path)) is not None:
            inside.append(relative)
        elif not str(Path(path).resolve()).startswith((*_SYSTEM, sys.prefix, sys.base_prefix)):
            raise CompileFailedError(f"{name}: the include path {path} lies outside the submission")
    # the toolkit's, PyTorch's and Python's own are there anyway
    return tuple(inside)
