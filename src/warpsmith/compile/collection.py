"""Which extensions a submission asks for: asked of a sandboxed process, and remembered."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from warpsmith.compile.cache import Cache
from warpsmith.compile.constructor import FILE, arguments_of, environment
from warpsmith.compile.isolation import lay_out, take
from warpsmith.compile.mentions import names_in
from warpsmith.compile.requests import ExtensionRequest
from warpsmith.compile.toolchain import require_torch
from warpsmith.errors import CompileFailedError, InfrastructureError
from warpsmith.sandbox import python_paths
from warpsmith.sandbox.process import run_tree
from warpsmith.types import Submission, Target, Task, sha256_hex
from warpsmith.types.protocols import Sandbox, SandboxSpec

_COLLECTED = "collected"
_NOTES = "notes"
_REVISION = 2
MAX_EXTENSIONS = 64
_MAX_NOTES_BYTES = 16 << 20
_TIMEOUT_S = 90.0


def collect(
    submission: Submission, target: Target, cache: Cache, sandbox: Sandbox, task: Task | None = None
) -> tuple[ExtensionRequest, ...] | None:
    """The requests, each once, in the order of the calls; None where no code names PyTorch's extension builder.

    Where a constructor makes requests it is asked again with the arguments that `task` gives it.

    Raises CompileFailedError for a request that no build can meet, MissingExtraError without torch,
    InfrastructureError where the process that imports the submission does not start.
    """
    names = names_in(submission.files)
    if names.isdisjoint({"cpp_extension", "load_inline"}):
        return None
    found = _collected(submission, target, cache, sandbox, None)
    if not found.constructs or task is None:
        return found.requests
    arguments = arguments_of(task, cache, sandbox)
    if arguments is None:
        return found.requests
    return _collected(submission, target, cache, sandbox, arguments).requests


@dataclass(frozen=True)
class _Notes:
    """What a process noted. `constructs`: requests hang on arguments of a constructor, which were made up."""

    requests: tuple[ExtensionRequest, ...]
    constructs: bool


def _collected(
    submission: Submission, target: Target, cache: Cache, sandbox: Sandbox, arguments: bytes | None
) -> _Notes:
    versions = f"{require_torch().version} {sys.version}"
    given = sha256_hex(arguments) if arguments is not None else None
    key = sha256_hex(
        json.dumps([_REVISION, submission.submission_hash, target.arch, target.device, versions, given])
    )
    entry = cache.lookup(_COLLECTED, key)
    if entry is not None:
        return _read((entry.files / _NOTES).read_bytes())
    with cache.workspace() as folder:
        notes, whole = _asked(submission, target, folder, sandbox, arguments)
        found = _read(notes)
        if whole:
            files = folder / "files"
            files.mkdir()
            (files / _NOTES).write_bytes(notes)
            cache.publish(_COLLECTED, key, files)
    return found


def _asked(
    submission: Submission, target: Target, folder: Path, sandbox: Sandbox, arguments: bytes | None
) -> tuple[bytes, bool]:
    """The notes, and whether the process came to its end."""
    root, out = folder / "submission", folder / "out"
    lay_out(submission.files, root)
    out.mkdir()
    given: list[str] = []
    if arguments is not None:
        given = [str(folder / FILE)]
        (folder / FILE).write_bytes(arguments)
        (folder / FILE).chmod(0o644)
    spec = SandboxSpec(
        cwd=str(root),
        read_only=(*python_paths(), str(root), *given),
        writable=(str(out),),
        cpu_seconds=int(_TIMEOUT_S),
    )
    module = "warpsmith.compile.collector"
    argv = [sys.executable, "-I", "-m", module, str(root), str(out / _NOTES), target.arch, *given]
    end = run_tree(sandbox.command(argv, spec), timeout_s=_TIMEOUT_S, cwd=root, env=environment())
    notes = _notes(out / _NOTES)
    if not notes:
        said = end.tail.strip().splitlines()
        raise InfrastructureError(
            f"the submission cannot be looked through in the sandbox {sandbox.name}"
            f"{f': {said[-1][:300]}' if said else ''}",
            hint="run `warpsmith doctor`",
        )
    return notes, end.exit_code in (0, 1) and not end.timed_out


def _notes(path: Path) -> bytes:
    """What the process wrote, whatever it made of the file."""
    if not take(path, path.parent.parent / _NOTES, _MAX_NOTES_BYTES):
        return b""
    return (path.parent.parent / _NOTES).read_bytes()


def _read(notes: bytes) -> _Notes:
    requests: dict[str, ExtensionRequest] = {}
    constructs = False
    for line in notes.splitlines():
        try:
            note = json.loads(line)
            if note == {"started": True}:
                continue
            if note == {"constructs": True}:
                constructs = True
                continue
            if "refused" in note:
                raise CompileFailedError(str(note["refused"])[:1000])
            request = ExtensionRequest.model_validate(note["request"])
        except (ValueError, TypeError, KeyError, ValidationError, RecursionError) as error:
            raise CompileFailedError("the submission wrote into the list of its extensions") from error
        requests.setdefault(request.content_hash, request)
    if len(requests) > MAX_EXTENSIONS:
        raise CompileFailedError(f"more than {MAX_EXTENSIONS} extensions in one submission")
    return _Notes(tuple(requests.values()), constructs)
