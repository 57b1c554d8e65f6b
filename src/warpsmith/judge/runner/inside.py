"""The process that runs a model: a candidate's `ModelNew`, or a baseline's `Model`.

Started as `python -I -m warpsmith.judge.runner.inside FD`. It holds no reference and no expected output when it runs
a candidate, and has no way to answer but one message a request. What it says is never believed: the referee reads
the outputs' memory itself and times by its own clock.
"""

import gc
import importlib.util
import os
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import torch

from warpsmith.compile import binding, extensions
from warpsmith.judge import mathematics
from warpsmith.judge.evidence.observer.client import Observer
from warpsmith.judge.reference.moving import MovingWeights
from warpsmith.judge.reference.recorder import OperatorCounts
from warpsmith.judge.reference.seeding import seed_all
from warpsmith.judge.runner import keyrings, memory, values
from warpsmith.judge.runner.channel import Channel, ChannelClosed
from warpsmith.judge.runner.layout import TensorLayout, layout_of, pack
from warpsmith.judge.timing import modes
from warpsmith.sim import fill, page
from warpsmith.types import BaselineKind

FOREVER_S = 24 * 3600.0
TEXT_LIMIT = 2000
WARM_LAUNCHES = 8


def _other_parameters(model: torch.nn.Module, state: dict[str, torch.Tensor]) -> str:
    """In what a model's parameters and buffers differ from those that it is given, in a line; "" for nothing."""
    own = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    given = {name: tuple(value.shape) for name, value in state.items()}
    other = [f"{n} is {own[n]}, not {given[n]}" for n in own.keys() & given.keys() if own[n] != given[n]]
    found = (
        ("ModelNew has parameters or buffers that Model has not: ", own.keys() - given.keys()),
        ("ModelNew lacks parameters or buffers of Model: ", given.keys() - own.keys()),
        ("shapes differ: ", other),
    )
    return "; ".join(said + ", ".join(sorted(names)[:8]) for said, names in found if names)


class InterfaceMismatch(Exception):
    """The module lacks `ModelNew`, or its state does not take the reference's."""


class Exporter:
    """Turns outputs into messages. On cuda by IPC handle; on the host by a copy into the referee's buffer."""

    def __init__(self, device: str):
        self.device = device
        self.arena: torch.Tensor | None = None
        self.inputs: list[torch.Tensor] = []
        self._handles: dict[int, str] = {}

    def export(self, tensors: list[torch.Tensor]) -> list[dict]:
        """One entry a tensor: its layout and where it lies."""
        # Not kept between replies: an allocation freed and made anew at one address has another handle.
        self._handles.clear()
        if self.device == "cuda":
            return [self._on_cuda(t) for t in tensors]
        return self._on_host(tensors)

    def marks(self, tensors: list[torch.Tensor]) -> list[tuple] | None:
        """What tells these tensors' places apart from any others, at a small part of the cost of `export`.

        None where only `export` can tell: on the host, and for what is no plain tensor of the GPU.
        """
        if self.device != "cuda" or any(not t.is_cuda or t.layout is not torch.strided for t in tensors):
            return None
        places = [t.data_ptr() for t in tensors]
        ids = memory.buffer_ids([place for place in places if place])
        return [*zip(places, ((t.dtype, t.shape, t.stride()) for t in tensors), strict=True), ids]

    def _on_cuda(self, tensor: torch.Tensor) -> dict:
        if not tensor.is_cuda or tensor.layout is not torch.strided:
            return {"elsewhere": str(tensor.device), "layout": layout_of(tensor, 0).to_json()}
        address = tensor.data_ptr()
        if tensor.numel() == 0:
            return {"empty": 1, "layout": layout_of(tensor, 0).to_json()}
        for buffer in self.inputs:
            start = buffer.data_ptr()
            if start <= address < start + buffer.numel():
                return {"input": 1, "layout": layout_of(tensor, address - start).to_json()}
        base, _ = memory.address_range(address)
        if base not in self._handles:
            self._handles[base] = memory.ipc_handle(base)
        return {"cuda": self._handles[base], "layout": layout_of(tensor, address - base).to_json()}

    def _on_host(self, tensors: list[torch.Tensor]) -> list[dict]:
        places, nbytes = pack(tensors)
        fits = self.arena is not None and nbytes <= self.arena.numel()
        entries = []
        for tensor, place in zip(tensors, places, strict=True):
            if fits:
                place.of(self.arena).copy_(tensor)
            entries.append({"host" if fits else "too_large": 1, "layout": place.to_json()})
        return entries


class Runner:
    """Answers requests one at a time, in the order load, buffers, then calls."""

    def __init__(self, channel: Channel, device: str):
        self.channel = channel
        self.device = device
        self.exporter = Exporter(device)
        self.model: torch.nn.Module | None = None
        self.forward = None
        self.moving: MovingWeights | None = None
        self.inputs: list = []
        self.last: list = []
        self._told: dict | None = None
        self._marks: tuple | None = None
        self._room: memory.CudaBuffer | None = None
        self.observer = Observer(device)
        self._recorded: dict[str, int] | None = None
        # Bound before the submission is imported, so that replacing torch's attributes changes nothing here.
        self._seed_all = seed_all
        self._synchronize = torch.cuda.synchronize if device == "cuda" else lambda: None
        self._events: list[torch.cuda.Event] = []

    def take_device(self, request: dict, fds: list[int]) -> dict:
        """Start CUDA on the GPU that was leased; nothing in this process has touched CUDA before.

        On the simulator, put the judge's settings where libraries look for them.
        """
        for fd in fds[:1]:
            page.enter(fd)
        if self.device == "cuda":
            if request["visible"] is not None:
                os.environ["CUDA_VISIBLE_DEVICES"] = request["visible"]
            torch.cuda.init()
            torch.zeros(1, device="cuda")
            self._events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        return {}

    def load(self, request: dict) -> dict:
        """Import the module, construct the model with the reference's arguments, give it the reference's state."""
        if "observer" in request:
            self._observe(Path(request["observer"]))
        folder, kind = Path(request["folder"]), request["kind"]
        if kind == "submission":
            extensions.install(folder)
        module = import_file(folder / ("model_new.py" if kind == "submission" else "task.py"), folder)
        cls = getattr(module, "ModelNew" if kind == "submission" else "Model", None)
        if cls is None:
            raise InterfaceMismatch("model_new.py defines no ModelNew")
        init = torch.load(request["init"], weights_only=False)
        # The reference's own seed: tensors that no state dict carries are drawn alike.
        seed_all(request["seed"])
        with torch.no_grad():
            self.model = cls(*init.args, **init.kwargs).eval().to(self.device)
        self.weights({"state": request["state"]})
        self.forward = self.model if kind == "submission" else self._as_baseline(request)
        return {}

    def _as_baseline(self, request: dict) -> Callable:
        entry = modes.Entry(modes.mode_named(request["mode"]), BaselineKind(request["run_as"]))
        return modes.enter(entry, self.model, request["dtypes"], self.device)

    def _observe(self, folder: Path) -> None:
        """Start the observer, before any of the submission's code."""
        self.observer.start(folder)
        if self.device == "cuda":
            self.observer.check_sight(lambda: (torch.zeros(1, device="cuda"), self._synchronize()))

    def weights(self, request: dict) -> dict:
        """Load another state dict, strictly."""
        state = torch.load(request["state"], weights_only=True, map_location=self.device)
        try:
            self.model.load_state_dict(state)
        except RuntimeError as error:
            raise InterfaceMismatch(_other_parameters(self.model, state) or str(error)) from error
        self.moving = MovingWeights(self.model)
        return {}

    def move(self, request: dict) -> dict:
        """Other weights from the next call on, of which the model is told nothing."""
        try:
            self.moving.use(request["moves"])
        except KeyError as error:
            raise InterfaceMismatch(
                f"ModelNew has no parameter {error}: fold weights in prepare()"
            ) from error
        self._synchronize()
        return {}

    def prepare(self, request: dict) -> dict:
        """Let the model fold or repack the weights it has just been given, where it has a way to."""
        prepare = getattr(self.model, "prepare", None)
        if callable(prepare):
            with torch.no_grad():
                prepare()
            self._synchronize()
        return {"prepared": callable(prepare)}

    def room(self, request: dict) -> dict:
        """On a GPU, memory for inputs, in place of what was there before; the referee maps it."""
        self.inputs, self.last, self.exporter.inputs = [], [], []
        if self._room is not None:
            self._room.close()
            self._room = None
        try:
            self._room = memory.CudaBuffer(request["nbytes"])
        except memory.CudaDriverError:
            torch.cuda.empty_cache()
            self._room = memory.CudaBuffer(request["nbytes"])
        return {"cuda": self._room.handle}

    def buffers(self, request: dict, fds: list[int]) -> dict:
        """Take the shared input buffer (and, on the host, the output arena) into use."""
        self._told = self._marks = None
        if self.device == "cuda":
            whole = self._room.bytes
            self.exporter.inputs = [whole]
        else:
            whole = memory.map_host(fds[0], request["inputs"]["host"])
            self.exporter.arena = memory.map_host(fds[1], request["outputs"]["host"])
        layouts, size = [TensorLayout.from_json(entry) for entry in request["layouts"]], request["set_bytes"]
        parts = [whole[i * size : (i + 1) * size] for i in range(request["sets"])]
        self.inputs = [values.unflatten(request["spec"], [at.of(part) for at in layouts]) for part in parts]
        return {}

    def arm(self, request: dict) -> dict:
        """Drop the last outputs, seed what forward may draw, and bring this process's context onto the GPU."""
        self.last = []
        self._seed_all(request["seed"])
        if self.device == "cuda":
            # While the referee compared, this process waited: its way to the GPU is walked until it is warm again.
            for _ in range(WARM_LAUNCHES):
                torch.zeros(1, device="cuda")
            self._synchronize()
        self.observer.arm()
        return {}

    def call(self, request: dict) -> dict:
        """`calls` forwards, each on its own inputs. The referee's clock runs from its request to this reply."""
        forward = self.forward
        with torch.no_grad():
            if self._events:
                self._events[0].record()
            self.last = [forward(*inputs) for inputs in self.inputs[: request["calls"]]]
            if self._events:
                self._events[1].record()
        self._synchronize()
        return {}

    def null(self, request: dict) -> dict:
        """All that `call` does but the forwards: what the bracket itself costs."""
        with torch.no_grad():
            for event in self._events:
                event.record()
        self._synchronize()
        return {}

    def observe(self, request: dict) -> dict:
        """A call whose torch operators are known: like any other, unless only a dispatch mode can record them."""
        if self.observer.counts_operators:
            return self.call(request)
        with OperatorCounts() as recorder:
            reply = self.call(request)
        self._recorded = recorder.seen
        return reply

    def zeroed(self, request: dict) -> dict:
        """On the simulator, a call in which what torch allocates holds zeros, as the library's memory does then."""
        with fill.zeros():
            return self.call(request)

    def describe(self, request: dict) -> dict:
        """Where the last call's outputs lie."""
        self.observer.hold()
        spec, tensors = values.flatten(self.last)
        # Most brackets leave their outputs where the last one did: that takes a short look and a short message.
        marks = (spec, self.exporter.marks(tensors))
        if marks[1] is not None and marks == self._marks:
            reply = {"same": 1}
        else:
            told = {"spec": spec, "tensors": self.exporter.export(tensors)}
            reply = {"same": 1} if told == self._told else dict(told)
            self._told, self._marks = told, marks
        if self._events:
            reply["device_ms"] = self._events[0].elapsed_time(self._events[1])
        return reply

    def evidence(self, request: dict) -> dict:
        """What ran in the bracket that was described last."""
        message = self.observer.read()
        if self._recorded is not None:
            message["ops"], self._recorded = self._recorded, None
        return message

    def serve(self) -> None:
        """Answer until the referee says exit or is gone."""
        handlers = {
            "load": self.load,
            "weights": self.weights,
            "prepare": self.prepare,
            "room": self.room,
            "move": self.move,
            "arm": self.arm,
            "call": self.call,
            "null": self.null,
            "observe": self.observe,
            "zeroed": self.zeroed,
            "describe": self.describe,
            "evidence": self.evidence,
        }
        with_descriptors = {"device": self.take_device, "buffers": self.buffers}
        while True:
            request, fds = self.channel.receive(FOREVER_S)
            op = request["op"]
            if op == "exit":
                return
            try:
                given = with_descriptors.get(op)
                reply = given(request, fds) if given else handlers[op](request)
                self.channel.send({"ok": op, "nonce": request["nonce"], **reply})
            except Exception as error:  # noqa: BLE001 - whatever a model raises is its answer
                self.channel.send({"nonce": request["nonce"], **failure(op, error)})
            if op in ("load", "weights", "prepare"):
                gc.collect()
                gc.disable()


def import_file(path: Path, folder: Path) -> object:
    """Import `path` under its stem, with `folder` first on the path so that `cuda_extension` is found."""
    sys.path.insert(0, str(folder))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def failure(op: str, error: Exception) -> dict:
    """What went wrong, as a message: a kind, and text for a person."""
    from warpsmith.errors import SubmissionUnsupportedError

    kinds = {
        InterfaceMismatch: "interface",
        values.UnsupportedValue: "output",
        SubmissionUnsupportedError: "unsupported",
        torch.OutOfMemoryError: "memory",
    }
    kind = next((k for cls, k in kinds.items() if isinstance(error, cls)), "exception")
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not _is_ours(f.filename)]
    place = f" (line {frames[-1].lineno} of {Path(frames[-1].filename).name})" if frames else ""
    text = f"{type(error).__name__}: {error}"[:TEXT_LIMIT]
    return {"failed": op, "kind": kind, "text": text, "place": place}


def _is_ours(filename: str) -> bool:
    """Whether a frame is the judge's, Python's import, or of the bindings: nothing that an author can change."""
    inner = filename.startswith("<frozen ")
    return inner or "warpsmith/judge" in filename or Path(filename).name == binding.MODULE


def main(kind: type[Runner] = Runner) -> int:
    """Serve the descriptor named on the command line."""
    fd, device = int(sys.argv[1]), sys.argv[2]
    keyrings.forget()
    channel = Channel(socket.socket(fileno=fd), spin=device == "cuda")
    torch.set_num_threads(max(1, min(4, os.cpu_count() or 1)))
    mathematics.settle()
    if device != "cuda":
        from warpsmith.sim import preamble

        preamble.install()
    # What is loaded by now stays: collecting after each load then takes no time.
    gc.freeze()
    runner = kind(channel, "cuda" if device == "cuda" else "cpu")
    channel.send({"ok": "ready", "nonce": ""})
    try:
        runner.serve()
    except ChannelClosed:
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
