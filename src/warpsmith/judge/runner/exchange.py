"""What passes through shared memory: inputs out to a runner, outputs back."""

import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from warpsmith.errors import CandidateCrashedError, WrongResultError
from warpsmith.judge.correctness.distributions import memory_key
from warpsmith.judge.runner import memory, values
from warpsmith.judge.runner.layout import ALIGN, TensorLayout, pack
from warpsmith.judge.runner.process import RunnerProcess

POISON = (0xFF, 0x7F, 0xA5, 0x5A)
"""Byte patterns laid over output memory between calls: NaN in every float type, then large and small numbers."""

MOST_GAPS = 8
"""Inputs lie at most this many times `ALIGN` bytes apart."""

FEW = 4
"""Tensors up to which each is filled by itself, in one pass over its memory."""


@dataclass(frozen=True)
class Outputs:
    """A bracket's outputs, one value a call, as they lie in memory that the referee reads; regions to poison."""

    calls: tuple[object, ...]
    regions: tuple[torch.Tensor, ...]
    tensors: int
    """How many there are, all calls together."""
    device_ms: float | None
    """The whole bracket by the runner's own events: informative, never trusted alone."""

    def poison(self, turn: int) -> None:
        """Overwrite the outputs, so that what is not written anew cannot be right."""
        pattern = POISON[turn % len(POISON)]
        if len(self.regions) <= FEW:
            for region in self.regions:
                region.fill_(pattern)
            return
        # There is no fill of many tensors at once.
        regions = list({(r.data_ptr(), r.numel()): r for r in self.regions}.values())
        torch._foreach_zero_(regions)
        torch._foreach_add_(regions, pattern)


class RunnerRoom:
    """Memory on the GPU that the runner has allocated and this process has mapped, as a uint8 tensor `bytes` [n].

    It is the runner's own because what it reads through a mapping is slower where it does not lie in a row: on an
    H200 a transposing copy of 8192² floats took 0.57 ms instead of 0.47 ms, and 7 ms on inputs not read before.
    """

    def __init__(self, runner: RunnerProcess, nbytes: int, timeout_s: float):
        answer = runner.ask("room", timeout_s, nbytes=nbytes)
        self._imports = memory.CudaImports()
        try:
            whole = self._imports.open(str(answer["cuda"]))
            if whole.numel() < nbytes:
                raise ValueError("too little memory for the inputs")
        except (ValueError, KeyError, memory.CudaDriverError) as error:
            self._imports.close()
            raise CandidateCrashedError(f"the candidate's answer is malformed: {error}") from None
        self.bytes = whole[:nbytes]

    def describe(self) -> tuple[dict, list[int]]:
        """Nothing: the runner knows its own memory."""
        return {}, []

    def close(self) -> None:
        """Unmap."""
        del self.bytes
        self._imports.close()


class InputBuffers:
    """Shared memory for `sets` sets of one task's inputs: a bracket of that many calls reads each set once.

    `allocate` makes the memory, given bytes; by default a buffer of this process.
    """

    def __init__(
        self, device: str, inputs: list, sets: int, arena_bytes: int, allocate: Callable | None = None
    ):
        self.device = device
        self.sets = sets
        self.spec, tensors = values.flatten(inputs)
        # Where the next input lies is secret, and between them is poison: who reads past one's end finds nothing.
        self._gap = ALIGN * (1 + secrets.randbelow(MOST_GAPS))
        self.layouts, self.set_bytes = _places(tensors, self._gap)
        nbytes = max(1, self.set_bytes * sets)
        self.buffer = allocate(nbytes) if allocate else memory.new_buffer(device, nbytes)
        self.buffer.bytes.fill_(POISON[0])
        self.arena = memory.new_buffer(device, arena_bytes) if device == "cpu" else None
        parts = [self.buffer.bytes[i * self.set_bytes : (i + 1) * self.set_bytes] for i in range(sets)]
        self._views = [[layout.of(part) for layout in self.layouts] for part in parts]

    def fits(self, inputs: list, sets: int) -> bool:
        """True where this many sets like `inputs` (structure, shapes, dtypes) have room."""
        spec, tensors = values.flatten(inputs)
        return sets <= self.sets and spec == self.spec and _places(tensors, self._gap)[0] == self.layouts

    def views(self, index: int) -> list[torch.Tensor]:
        """The shared tensors of one set."""
        return self._views[index]

    def write(self, first: int, drawn: list[list]) -> None:
        """Copy fresh values into the sets from `first` on, all of them in one go."""
        to = [view for i in range(len(drawn)) for view in self.views(first + i)]
        tensors = [t for inputs in drawn for t in values.flatten(inputs)[1]]
        if len(to) != len(tensors):
            raise ValueError("the inputs' structure changed from one draw to the next")
        torch._foreach_copy_(to, tensors)

    def attach(self, runner: RunnerProcess, timeout_s: float) -> None:
        """Give a runner these buffers."""
        inputs, fds = self.buffer.describe()
        request = {"inputs": inputs, "spec": self.spec, "sets": self.sets}
        request |= {"set_bytes": self.set_bytes, "layouts": [layout.to_json() for layout in self.layouts]}
        if self.arena is not None:
            request["outputs"], more = self.arena.describe()
            fds = fds + more
        runner.ask("buffers", timeout_s, fds, **request)

    def close(self) -> None:
        """Free the memory."""
        self._views.clear()
        self.buffer.close()
        if self.arena is not None:
            self.arena.close()


class OutputReader:
    """Reads what a runner says it wrote. Every place is checked against the real allocation first."""

    def __init__(self, buffers: InputBuffers):
        self._buffers = buffers
        self._imports = memory.CudaImports()
        self._last: Outputs | None = None

    def read(self, answer: dict, calls: int, kept: frozenset[int] = frozenset()) -> Outputs:
        """The outputs of `calls` calls. Raises CandidateCrashedError for a malformed answer.

        `kept`: places, among one call's outputs, of what is not to be poisoned; the same in every call of this.
        """
        device_ms = answer.get("device_ms")
        device_ms = device_ms if isinstance(device_ms, float) and 0 <= device_ms < math.inf else None
        if "same" in answer:
            if self._last is None or len(self._last.calls) != calls:
                raise CandidateCrashedError(
                    "the candidate's answer is malformed: there is no last one like it"
                )
            return replace(self._last, device_ms=device_ms)
        self._last = self._described(answer, calls, kept, device_ms)
        return self._last

    def _described(self, answer: dict, calls: int, kept: frozenset[int], device_ms: float | None) -> Outputs:
        tensors, regions = [], []
        try:
            entries = answer["tensors"]
            each = max(1, len(entries) // calls)
            for i, entry in enumerate(entries):
                tensor, region = self._one(entry)
                tensors.append(tensor)
                regions += [region] if region is not None and i % each not in kept else []
            value = values.unflatten(answer["spec"], tensors)
            if not isinstance(value, list) or len(value) != calls:
                raise ValueError("not one output a call")
        except (ValueError, TypeError, KeyError, memory.CudaDriverError) as error:
            raise CandidateCrashedError(f"the candidate's answer is malformed: {error}") from None
        return Outputs(tuple(value), tuple(regions), len(tensors), device_ms)

    def close(self) -> None:
        """Unmap everything."""
        self._last = None
        self._imports.close()

    def _one(self, entry: dict) -> tuple[torch.Tensor, torch.Tensor | None]:
        layout = TensorLayout.from_json(entry["layout"])
        if "elsewhere" in entry:
            raise WrongResultError(
                f"an output lies on {str(entry['elsewhere'])[:40]}, not on the task's device"
            )
        if "too_large" in entry:
            # Its form is all that can be compared, and cannot be the expected one: no memory is needed.
            return torch.zeros((), dtype=layout.of_dtype()).expand(layout.shape), None
        if "empty" in entry:
            return layout.of(self._buffers.buffer.bytes), None
        if "input" in entry:
            return layout.of(self._buffers.buffer.bytes), None
        if "host" in entry and self._buffers.arena is not None:
            whole = self._buffers.arena.bytes
        elif "cuda" in entry and self._buffers.device == "cuda":
            whole = self._imports.open(str(entry["cuda"]))
        else:
            raise ValueError("an output lies nowhere")
        return layout.of(whole), whole[layout.offset : layout.offset + layout.extent_bytes()]


def set_bytes(inputs: list) -> int:
    """Bytes that one set of inputs takes in shared memory at most."""
    return _places(values.flatten(inputs)[1], ALIGN * MOST_GAPS)[1]


def _places(tensors: list[torch.Tensor], gap: int) -> tuple[list[TensorLayout], int]:
    """`pack` with `gap` bytes before, between and behind, and one place for a tensor that is passed more than once.

    What is one to the task stays one.
    """
    own: dict[tuple, int] = {}
    which = [own.setdefault(memory_key(t), len(own)) for t in tensors]
    packed, size = pack([tensors[which.index(i)] for i in range(len(own))])
    layouts = [replace(layout, offset=layout.offset + (i + 1) * gap) for i, layout in enumerate(packed)]
    return [layouts[i] for i in which], size + (len(packed) + 1) * gap
