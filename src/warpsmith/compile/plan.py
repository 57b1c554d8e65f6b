"""What a build consists of: translation units, a link, a module. Pure data; nothing is run."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from warpsmith.compile import support
from warpsmith.compile.backends import Backend, TorchExtension
from warpsmith.compile.binding import LIBRARY
from warpsmith.compile.flags import ExtensionFlags, extension_flags
from warpsmith.compile.launchers import Launcher, find_launchers
from warpsmith.compile.mentions import names_in
from warpsmith.compile.options import nvcc_flags
from warpsmith.compile.requests import ExtensionRequest
from warpsmith.compile.sources import SourceTree, source_tree
from warpsmith.errors import CompileFailedError
from warpsmith.types import Device, Submission, SubmissionForm, sha256_hex

_REVISION = 1
"""Raised when the meaning of what is stored under a key changes."""
_EXTENSION = "cuda_extension.so"


@dataclass(frozen=True)
class Unit:
    """One file to compile among `tree` (path → text), with `argv` (source and output follow).

    Where the tree was rewritten, `written` is what its author wrote: what diagnostics quote.
    """

    path: str
    tree: Mapping[str, str]
    argv: tuple[str, ...]
    fingerprint: str
    written: Mapping[str, str] | None = None

    @cached_property
    def key(self) -> str:
        """Hash of everything that decides the object."""
        return _hash(self.path, dict(self.tree), self.argv, self.fingerprint)


@dataclass(frozen=True)
class Plan:
    """A whole build. `launchers` are bound through ctypes; None where the library is a Python extension."""

    device: Device
    units: tuple[Unit, ...]
    link: tuple[str, ...]
    libraries: tuple[str, ...]
    output: str
    launchers: tuple[Launcher, ...] | None
    fingerprint: str

    @cached_property
    def key(self) -> str:
        """Hash of everything that decides the result."""
        launchers = repr(self.launchers)
        units = [unit.key for unit in self.units]
        return _hash(units, self.link, self.libraries, self.output, launchers, self.fingerprint)


@dataclass(frozen=True)
class Whole:
    """All that a submission needs built: `cuda_extension`, if it uses that, and what its code asks for by call.

    `calls` is None where no code of the submission names PyTorch's extension builder.
    """

    extension: Plan | None
    calls: tuple[tuple[ExtensionRequest, Plan], ...] | None

    @property
    def plans(self) -> tuple[Plan, ...]:
        """Every library, each once."""
        own = [self.extension] if self.extension else []
        return tuple({plan.key: plan for plan in [*own, *(plan for _, plan in self.calls or ())]}.values())

    @cached_property
    def key(self) -> str:
        """Hash of everything that decides the result."""
        if self.calls is None and self.extension is not None:
            return self.extension.key
        calls = [(request.content_hash, plan.key) for request, plan in self.calls or ()]
        return _hash(
            "whole", self.extension.key if self.extension else None, calls if self.calls is not None else None
        )


def plan_whole(
    submission: Submission,
    backend: Backend,
    requests: tuple[ExtensionRequest, ...] | None,
    for_arch: Callable[[str], Backend],
    arch: str,
) -> Whole:
    """The build of a submission whose code makes these requests.

    Raises CompileFailedError or SubmissionUnsupportedError for what can be seen without a compiler.
    """
    tree = source_tree(submission.files)
    if not requests:
        form = submission.form
        plan = None if form is SubmissionForm.SINGLE_FILE else _plan_module(submission, tree, form, backend)
        return Whole(plan, requests)
    calls = []
    for request in requests:
        flags = extension_flags(request, arch)
        calls.append(
            (
                request,
                _plan_call(request, flags, tree, backend if flags.arch == arch else for_arch(flags.arch)),
            )
        )
    plan = None
    if "cuda_extension" in names_in(submission.files):
        # what a call builds is not built a second time
        called = {unit for request in requests for unit in request.units}
        rest = Submission(files={path: text for path, text in submission.files.items() if path not in called})
        if rest.form is not SubmissionForm.SINGLE_FILE:
            plan = _plan_module(rest, source_tree(rest.files), rest.form, backend)
    return Whole(plan, tuple(calls))


def _plan_module(submission: Submission, tree: SourceTree, form: SubmissionForm, backend: Backend) -> Plan:
    """The build of `cuda_extension`."""
    torch = TorchExtension() if form is SubmissionForm.WORKSPACE else None
    flags = nvcc_flags(submission.files)
    # none found may mean a syntax error, which a compiler explains better
    launchers = None if torch else find_launchers({path: tree.files[path] for path in tree.units})
    if torch:
        tree = tree.with_defaults(
            {support.REGISTRY_PATH: support.REGISTRY, support.BINDING_PATH: support.BINDING}
        )
    link, libraries = backend.link_argv(tree, torch=torch is not None)
    units = _units(tree, tree.units, backend, torch, cuda=flags, cpp=())
    versions = backend.fingerprint(torch=torch is not None)
    output = _EXTENSION if torch else LIBRARY
    return Plan(backend.device, units, link, libraries, output, launchers, versions)


def _plan_call(request: ExtensionRequest, flags: ExtensionFlags, tree: SourceTree, backend: Backend) -> Plan:
    """The build of one extension that `load_inline` or `load` is asked for."""
    lost = [unit for unit in request.units if unit not in tree.files]
    if lost or not (request.units or request.generated):
        raise CompileFailedError(f"{request.name}: no source file {lost[0] if lost else ''}".rstrip())
    tree = source_tree({**tree.files, **request.generated})
    names = [*request.units, *request.generated]
    if odd := [name for name in names if name not in tree.units]:
        raise CompileFailedError(f"{request.name}: {odd[0]} is no .cu, .cpp or .cc file")
    torch = TorchExtension(request.name, inline=True, include=request.include_paths)
    units = _units(tree, names, backend, torch, cuda=flags.cuda, cpp=flags.cxx)
    reached = SourceTree({path: text for name in names for path, text in tree.visible_to(name).items()})
    link, libraries = backend.link_argv(reached, torch=True, linked=flags.libraries, openmp=flags.openmp)
    versions = backend.fingerprint(torch=True)
    return Plan(backend.device, units, link, libraries, f"{request.name}.so", None, versions)


def _units(
    tree: SourceTree,
    names: Iterable[str],
    backend: Backend,
    torch: TorchExtension | None,
    *,
    cuda: tuple[str, ...],
    cpp: tuple[str, ...],
) -> tuple[Unit, ...]:
    versions = backend.fingerprint(torch=torch is not None)
    by_suffix = {True: backend.cuda_argv(cuda, torch), False: backend.cpp_argv(cpp, torch)}
    rewritten = backend.rewrite(tree)
    written = tree.files if rewritten is not tree else None
    units = [
        Unit(name, rewritten.visible_to(name), by_suffix[name.endswith(".cu")], versions, written)
        for name in names
    ]
    return (*units, *_support(backend, torch=torch is not None))


def raw_key(submission: Submission, device: Device, arch: str) -> str:
    """The key of a build that fails before it is planned."""
    return _hash("unplanned", submission.files, device, arch)


def _support(backend: Backend, *, torch: bool) -> list[Unit]:
    argv, versions = backend.cpp_argv((), None), backend.fingerprint(torch=False)
    return [Unit(path, {path: text}, argv, versions) for path, text in backend.support_units(torch=torch)]


def _hash(*parts: object) -> str:
    return sha256_hex(json.dumps([_REVISION, *parts], sort_keys=True))
