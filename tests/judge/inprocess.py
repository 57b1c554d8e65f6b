"""The judge's own session against a runner in this very process: every check, without processes, compiler or sandbox.

Messages are encoded, memory is shared and answers are parsed as ever; only a candidate that ends its process, and
the simulator's kernels, need the real thing.
"""

import copy
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import torch

from warpsmith.errors import WarpsmithError
from warpsmith.judge.job import JobFolder, RefereeJob
from warpsmith.judge.runner.channel import decode, encode
from warpsmith.judge.runner.inside import Runner, failure
from warpsmith.judge.runner.process import RunnerProcess
from warpsmith.judge.session import Findings, Session
from warpsmith.judge.verdict import status_of
from warpsmith.types import Device, Status
from warpsmith.types.protocols import JudgeSettings

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n"


@dataclass(frozen=True)
class Called:
    """One call of the submission: its inputs before and after, its output, and the weights in force."""

    given: list
    left: list
    output: object
    state: dict[str, torch.Tensor]


class _Runner(Runner):
    """Loads `ModelNew` from a text instead of a file."""

    def __init__(self, code: str):
        super().__init__(None, "cpu")
        self.code = code

    def load(self, request: dict) -> dict:
        module = ModuleType("model_new")
        exec(self.code, module.__dict__)
        torch.manual_seed(request["seed"])
        with torch.no_grad():
            init = torch.load(request["init"], weights_only=False)
            self.model = module.ModelNew(*init.args, **init.kwargs).eval()
        self.weights({"state": request["state"]})
        self.forward = self.model
        return {}


class InProcess(RunnerProcess):
    """A runner that answers at once."""

    def __init__(self, code: str, recorded: bool = False):
        self.name, self.device, self._ready = "the candidate", Device.SIM, True
        self.closed = False
        self._runner = _Runner(code)
        self._reply = b""
        self._recorded = recorded
        self.calls: list[Called] = []

    def _send(self, data: bytes, fds: object) -> None:
        request = decode(data)
        op = request["op"]
        recorded = self._recorded and op in ("call", "observe")
        given = copy.deepcopy(self._runner.inputs[0]) if recorded else None
        try:
            reply = (
                self._runner.buffers(request, fds) if op == "buffers" else getattr(self._runner, op)(request)
            )
            message = {"ok": op, **reply}
        except Exception as error:  # noqa: BLE001 - whatever a model raises is its answer
            message = failure(op, error)
        if recorded and self._runner.last:
            seen = given, self._runner.inputs[0], self._runner.last[0], self._runner.model.state_dict()
            self.calls.append(Called(*copy.deepcopy(seen)))
        self._reply = encode({**message, "nonce": request["nonce"]})

    def receive_raw(self, timeout_s: float) -> bytes:
        return self._reply

    def pause(self) -> None:
        return None

    def resume(self) -> None:
        return None


@dataclass(frozen=True)
class Outcome:
    """What a session found, and the status that its verdict would have."""

    status: Status
    detail: str
    findings: Findings
    notes: tuple[str, ...]
    calls: tuple[Called, ...] = ()
    widened: tuple[float, float] = (0.0, 0.0)
    """By how much the paper's gate and the scale-aware gate were widened at most."""

    def check(self, name: str) -> str:
        """The detail of one check."""
        return next(c.detail for c in self.findings.checks if c.check == name)


def own(model: str, inputs: str, init: str = "[]") -> tuple[str, str]:
    """A task of the class body `model`, and the submission that does the same, both in torch."""
    tail = f"\ndef get_inputs():\n    return [{inputs}]\n\ndef get_init_inputs():\n    return {init}\n"
    return HEAD + "class Model(nn.Module):\n" + model + tail, HEAD + "class ModelNew(nn.Module):\n" + model


def forward(expression: str) -> str:
    """The class body of a model of one input, `x`, without weights."""
    return f"    def forward(self, x):\n        return {expression}\n"


def judged(
    root: Path,
    code: str,
    submission: str,
    *,
    recorded: bool = False,
    runner: type[InProcess] = InProcess,
    **settings: object,
) -> Outcome:
    """Admission, correctness and held-out forms of one submission, in the folder `root`.

    `recorded`: keep every call that counts, and make no others. `runner`: what answers.
    """
    folder = JobFolder(root)
    for path in (folder.share, folder.candidate):
        path.mkdir(parents=True, exist_ok=True)
    job = RefereeJob(
        task_hash="0" * 64, task_name="own", submission_hash="0" * 64,
        settings=JudgeSettings(device=Device.SIM, **settings),
    )  # fmt: skip
    session = Session(folder, job, lambda phase, what: None)
    folder.task.unlink(missing_ok=True)
    state = torch.get_rng_state()
    candidate = runner(submission, recorded)
    status, detail = Status.PASSED, ""
    try:
        session.admit(code)
        session.correctness(candidate)
        if not recorded:
            session.last_checks(candidate)
    except WarpsmithError as error:
        status, detail = status_of(error), str(error)
    finally:
        torch.set_rng_state(state)
        if hasattr(session, "bench"):
            session.bench.close()
    notes, widened = tuple(session.findings.notes), (0.0, 0.0)
    if hasattr(session, "bench"):
        verifier = session.bench.verifier
        widened = verifier.rounding, max(verifier.unresolved, verifier.rounding if verifier.noisy else 0.0)
    if status is Status.PASSED:
        notes += session.closing_notes()
    return Outcome(status, detail, session.findings, notes, tuple(candidate.calls), widened)
