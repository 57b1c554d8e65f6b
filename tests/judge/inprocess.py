"""The judge's own session against a runner in this very process: every check, without processes, compiler or sandbox.

Messages are encoded, memory is shared and answers are parsed as ever; only a candidate that ends its process, and
the simulator's kernels, need the real thing.
"""

from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import torch

from warpsmith.errors import WarpsmithError
from warpsmith.judge.channel import decode, encode
from warpsmith.judge.job import JobFolder, RefereeJob
from warpsmith.judge.process import RunnerProcess
from warpsmith.judge.runner import Runner, failure
from warpsmith.judge.session import Findings, Session
from warpsmith.judge.verdict import status_of
from warpsmith.types import Device, Status
from warpsmith.types.protocols import JudgeSettings

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n"


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
            self.model = module.ModelNew(*torch.load(request["init"], weights_only=False)).eval()
        self.weights({"state": request["state"]})
        self.forward = self.model
        return {}


class InProcess(RunnerProcess):
    """A runner that answers at once."""

    def __init__(self, code: str):
        self.name, self.device, self._ready = "the candidate", Device.SIM, True
        self._runner = _Runner(code)
        self._reply = b""

    def _send(self, data: bytes, fds: object) -> None:
        request = decode(data)
        op = request["op"]
        try:
            reply = (
                self._runner.buffers(request, fds) if op == "buffers" else getattr(self._runner, op)(request)
            )
            message = {"ok": op, **reply}
        except Exception as error:  # noqa: BLE001 - whatever a model raises is its answer
            message = failure(op, error)
        self._reply = encode({**message, "nonce": request["nonce"]})

    def receive_raw(self, timeout_s: float) -> bytes:
        return self._reply


@dataclass(frozen=True)
class Outcome:
    """What a session found, and the status that its verdict would have."""

    status: Status
    detail: str
    findings: Findings
    notes: tuple[str, ...]

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


def judged(root: Path, code: str, submission: str, **settings: object) -> Outcome:
    """Admission, correctness and held-out forms of one submission, in the folder `root`."""
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
    try:
        session.admit(code)
        runner = InProcess(submission)
        session.correctness(runner)
        session.held_out(runner)
    except WarpsmithError as error:
        return Outcome(status_of(error), str(error), session.findings, tuple(session.findings.notes))
    finally:
        torch.set_rng_state(state)
        if hasattr(session, "bench"):
            session.bench.close()
    notes = (*session.findings.notes, *session.closing_notes())
    return Outcome(Status.PASSED, "", session.findings, notes)
