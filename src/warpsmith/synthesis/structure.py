"""The structural fingerprint of a task: equal for tasks that compute the same by the same operators.

The operator graph decides where the task's forward can be traced; where it cannot, the syntax tree does, and the
fingerprint says so. Neither sizes, names, comments, helper functions, wrapper modules nor the order of independent
statements change a graph's fingerprint. Tasks run in processes of their own, isolated where the machine can.
"""

import hashlib
import json
import os
import select
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path

from pydantic import ValidationError

from warpsmith.errors import InfrastructureError
from warpsmith.sandbox import LocalSandbox, python_paths
from warpsmith.sandbox.process import Tree
from warpsmith.synthesis.graph_worker import WAITING
from warpsmith.synthesis.similarity import bag
from warpsmith.types import Record
from warpsmith.types.protocols import Sandbox, SandboxSpec

TRACE_TIMEOUT_S = 20.0
"""A recurrent network is traced step by step; one of 512 steps takes minutes, and its syntax stands in."""
_START_TIMEOUT_S = 120.0
_KEPT_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH")


class FingerprintKind(StrEnum):
    """What a fingerprint was taken of."""

    GRAPH = "graph"
    SYNTAX = "syntax"
    """The text could not be traced: only names, sizes and comments are normalised."""
    UNREADABLE = "unreadable"
    """No Python: the hash of the text."""


class Outcome(StrEnum):
    """What became of a task that was traced or run."""

    OK = "ok"
    RAISED = "raised"
    TIMED_OUT = "timed_out"
    CRASHED = "crashed"
    """Its code ended the process."""
    NOT_TRACED = "not_traced"
    """It runs, but its graph cannot be taken."""


class Structure(Record):
    """What a task computes with."""

    kind: FingerprintKind
    fingerprint: str
    """Hex; prefixed by the kind, so that fingerprints of two kinds are never equal."""
    called: tuple[str, ...] = ()
    """Torch functions, methods and modules that ran, in order of their first call; empty where nothing was traced."""
    nodes: int = 0
    """Operators and leaves of the canonical graph."""
    trace: Outcome = Outcome.OK
    run: Outcome | None = None
    """Whether it ran on the CPU at small sizes; None where it was not asked for."""
    detail: str = ""
    """What it raised, in one line."""


def syntax_structure(code: str, trace: Outcome = Outcome.NOT_TRACED, detail: str = "") -> Structure:
    """The fingerprint of the text alone: of its bag of pq-grams, or of its bytes where it is no Python."""
    try:
        grams = sorted(bag(code).items())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        digest = hashlib.sha256(code.encode("utf-8", "replace")).hexdigest()[:32]
        kind = FingerprintKind.UNREADABLE
        return Structure(kind=kind, fingerprint=f"{kind}-{digest}", trace=Outcome.RAISED, detail="no Python")
    digest = hashlib.sha256(repr(grams).encode()).hexdigest()[:32]
    kind = FingerprintKind.SYNTAX
    return Structure(kind=kind, fingerprint=f"{kind}-{digest}", trace=trace, detail=detail)


def structures(
    codes: Sequence[str],
    *,
    sandbox: Sandbox | None = None,
    run: bool = False,
    workers: int = 1,
    timeout_s: float = TRACE_TIMEOUT_S,
    told: Callable[[int], None] | None = None,
) -> list[Structure]:
    """The structure of each task source, in order. `run`: run each at small sizes on the CPU as well.

    `timeout_s`: processor time of one. `sandbox` isolates the processes that tasks run in (default: no isolation).
    `told` is called with the number of tasks done. Raises InfrastructureError where the workers do not start.
    """
    sandbox = sandbox or LocalSandbox()
    unique = list(dict.fromkeys(codes))
    found: dict[str, Structure] = {}
    pending = [code for code in unique]
    while pending:
        shares = [pending[start::workers] for start in range(min(workers, len(pending)))]
        answers = _Crew(shares, sandbox, run=run, timeout_s=timeout_s)
        before = len(found)
        for code, structure in answers:
            found[code] = structure
            if told is not None:
                told(len(found))
        pending = [code for code in unique if code not in found]
        if pending and len(found) == before:
            raise InfrastructureError(
                "the processes that trace tasks end without an answer",
                hint="run `warpsmith doctor`; is there enough memory?",
            )
    return [found[code] for code in codes]


class _Crew:
    """Workers over shares of the tasks; yields answers as they come and leaves no process behind."""

    def __init__(
        self, shares: Sequence[Sequence[str]], sandbox: Sandbox, *, run: bool, timeout_s: float
    ) -> None:
        self.shares = shares
        self.sandbox = sandbox
        self.run = run
        self.timeout_s = timeout_s

    def __iter__(self) -> Iterator[tuple[str, Structure]]:
        with tempfile.TemporaryDirectory(prefix="warpsmith-trace-") as folder:
            trees: list[Tree] = []
            sources: dict[int, tuple[Sequence[str], bytearray]] = {}
            try:
                for number, share in enumerate(self.shares):
                    tree, descriptor = self.start(Path(folder) / str(number), share)
                    trees.append(tree)
                    sources[descriptor] = (share, bytearray())
                while sources:
                    limit = _START_TIMEOUT_S + 2 * WAITING * self.timeout_s
                    ready, _, _ = select.select(list(sources), [], [], limit)
                    if not ready:
                        return
                    for descriptor in ready:
                        yield from self.read(descriptor, sources)
            finally:
                for descriptor in sources:
                    os.close(descriptor)
                for tree in trees:
                    tree.kill_tree()

    def start(self, folder: Path, share: Sequence[str]) -> tuple[Tree, int]:
        folder.mkdir(mode=0o755)
        folder.parent.chmod(0o755)  # the sandbox's user reads it
        (folder / "tasks.json").write_text(json.dumps(list(share)))
        ours, theirs = os.pipe()
        command = [sys.executable, "-I", "-m", "warpsmith.synthesis.graph_worker"]
        command += [str(folder / "tasks.json"), str(theirs), str(self.timeout_s), str(int(self.run))]
        spec = SandboxSpec(cwd=str(folder), read_only=(*python_paths(), str(folder)))
        environment = {key: os.environ[key] for key in _KEPT_ENVIRONMENT if key in os.environ}
        # HF_HUB_OFFLINE: a model hub is not asked, and asked again, for what a task must bring itself
        environment |= {"HOME": "/tmp", "USER": "nobody", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        environment |= {"PYTHONDONTWRITEBYTECODE": "1", "CUDA_VISIBLE_DEVICES": ""}
        try:
            tree = Tree(self.sandbox.command(command, spec), cwd=folder, env=environment, pass_fds=(theirs,))
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        return tree, ours

    def read(
        self, descriptor: int, sources: dict[int, tuple[Sequence[str], bytearray]]
    ) -> Iterator[tuple[str, Structure]]:
        share, text = sources[descriptor]
        block = os.read(descriptor, 1 << 16)
        text += block
        while (end := text.find(b"\n")) >= 0:
            line = bytes(text[:end])
            del text[: end + 1]
            if answer := _answer(line, share):
                yield answer
        if not block:
            os.close(descriptor)
            del sources[descriptor]


def _answer(line: bytes, share: Sequence[str]) -> tuple[str, Structure] | None:
    """A worker's line: the place of the task and its structure; None for what cannot be read."""
    try:
        place, fields = json.loads(line)
        code = share[place]
        if fields["kind"] is None:
            structure = syntax_structure(code, Outcome(fields["trace"]), fields["detail"])
            return code, structure.model_copy(update={"run": fields["run"] and Outcome(fields["run"])})
        return code, Structure.model_validate(fields)
    except (ValueError, TypeError, KeyError, IndexError, ValidationError):
        return None
