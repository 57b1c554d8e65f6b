"""Which extensions a submission asks for: asked of a sandboxed process, and remembered."""

import json
import os
import sys
from pathlib import Path

from pydantic import ValidationError

from warpsmith.compile.cache import Cache
from warpsmith.compile.isolation import lay_out, take
from warpsmith.compile.mentions import names_in
from warpsmith.compile.requests import ExtensionRequest
from warpsmith.compile.toolchain import require_torch
from warpsmith.errors import CompileFailedError, InfrastructureError
from warpsmith.sandbox import python_paths
from warpsmith.sandbox.process import run_tree
from warpsmith.types import Submission, Target, sha256_hex
from warpsmith.types.protocols import Sandbox, SandboxSpec

_COLLECTED = "collected"
_NOTES = "notes"
_REVISION = 1
MAX_EXTENSIONS = 64
_MAX_NOTES_BYTES = 16 << 20
_TIMEOUT_S = 90.0


def collect(
    submission: Submission, target: Target, cache: Cache, sandbox: Sandbox
) -> tuple[ExtensionRequest, ...] | None:
    """The requests, each once, in the order of the calls; None where no code names PyTorch's extension builder.

    Raises CompileFailedError for a request that no build can meet, MissingExtraError without torch,
    InfrastructureError where the process that imports the submission does not start.
    """
    names = names_in(submission.files)
    if names.isdisjoint({"cpp_extension", "load_inline"}):
        return None
    versions = f"{require_torch().version} {sys.version}"
    key = sha256_hex(
        json.dumps([_REVISION, submission.submission_hash, target.arch, target.device, versions])
    )
    entry = cache.lookup(_COLLECTED, key)
    if entry is not None:
        return _read((entry.files / _NOTES).read_bytes())
    with cache.workspace() as folder:
        notes, whole = _asked(submission, target, folder, sandbox)
        requests = _read(notes)
        if whole:
            files = folder / "files"
            files.mkdir()
            (files / _NOTES).write_bytes(notes)
            cache.publish(_COLLECTED, key, files)
    return requests


def _asked(submission: Submission, target: Target, folder: Path, sandbox: Sandbox) -> tuple[bytes, bool]:
    """The notes, and whether the process came to its end."""
    root, out = folder / "submission", folder / "out"
    lay_out(submission.files, root)
    out.mkdir()
    spec = SandboxSpec(
        cwd=str(root),
        read_only=(*python_paths(), str(root)),
        writable=(str(out),),
        cpu_seconds=int(_TIMEOUT_S),
    )
    module = "warpsmith.compile.collector"
    argv = [sys.executable, "-I", "-m", module, str(root), str(out / _NOTES), target.arch]
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": "/tmp",
        "LC_ALL": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    end = run_tree(sandbox.command(argv, spec), timeout_s=_TIMEOUT_S, cwd=root, env=environment)
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


def _read(notes: bytes) -> tuple[ExtensionRequest, ...]:
    requests: dict[str, ExtensionRequest] = {}
    for line in notes.splitlines():
        try:
            note = json.loads(line)
            if note == {"started": True}:
                continue
            if "refused" in note:
                raise CompileFailedError(str(note["refused"])[:1000])
            request = ExtensionRequest.model_validate(note["request"])
        except (ValueError, TypeError, KeyError, ValidationError, RecursionError) as error:
            raise CompileFailedError("the submission wrote into the list of its extensions") from error
        requests.setdefault(request.content_hash, request)
    if len(requests) > MAX_EXTENSIONS:
        raise CompileFailedError(f"more than {MAX_EXTENSIONS} extensions in one submission")
    return tuple(requests.values())
