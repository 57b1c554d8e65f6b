"""What a build consists of: translation units, a link, a module. Pure data; nothing is run."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from warpsmith.compile import support
from warpsmith.compile.backends import Backend
from warpsmith.compile.binding import LIBRARY
from warpsmith.compile.launchers import Launcher, find_launchers
from warpsmith.compile.options import nvcc_flags
from warpsmith.compile.sources import source_tree
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


def plan_build(submission: Submission, backend: Backend) -> Plan | None:
    """The build of a submission, or None where there is nothing to build (single-file form).

    Raises CompileFailedError or SubmissionUnsupportedError for what can be seen without a compiler.
    """
    form = submission.form
    if form is SubmissionForm.SINGLE_FILE:
        return None
    torch = form is SubmissionForm.WORKSPACE
    flags = nvcc_flags(submission.files)
    tree = source_tree(submission.files)
    # none found may mean a syntax error, which a compiler explains better
    launchers = None if torch else find_launchers({path: tree.files[path] for path in tree.units})
    if torch:
        tree = tree.with_defaults(
            {support.REGISTRY_PATH: support.REGISTRY, support.BINDING_PATH: support.BINDING}
        )
    link, libraries = backend.link_argv(tree, torch=torch)
    versions = backend.fingerprint(torch=torch)
    cuda, cpp = backend.cuda_argv(flags, torch=torch), backend.cpp_argv(torch=torch)
    rewritten = backend.rewrite(tree)
    units = [
        Unit(
            path,
            rewritten.visible_to(path),
            cuda if path.endswith(".cu") else cpp,
            versions,
            tree.files if rewritten is not tree else None,
        )
        for path in rewritten.units
    ]
    units += _support(backend, torch=torch)
    output = _EXTENSION if torch else LIBRARY
    return Plan(backend.device, tuple(units), link, libraries, output, launchers, versions)


def raw_key(submission: Submission, device: Device, arch: str) -> str:
    """The key of a build that fails before it is planned."""
    return _hash("unplanned", submission.files, device, arch)


def _support(backend: Backend, *, torch: bool) -> list[Unit]:
    argv, versions = backend.cpp_argv(torch=False), backend.fingerprint(torch=False)
    return [Unit(path, {path: text}, argv, versions) for path, text in backend.support_units(torch=torch)]


def _hash(*parts: object) -> str:
    return sha256_hex(json.dumps([_REVISION, *parts], sort_keys=True))
