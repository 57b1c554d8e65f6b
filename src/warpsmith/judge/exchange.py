"""What passes through shared memory: inputs out to a runner, outputs back."""

from dataclasses import dataclass

import torch

from warpsmith.errors import CandidateCrashedError, WrongResultError
from warpsmith.judge import memory, values
from warpsmith.judge.distributions import memory_key
from warpsmith.judge.layout import TensorLayout, pack
from warpsmith.judge.process import RunnerProcess

POISON = (0xFF, 0x7F, 0xA5, 0x5A)
"""Byte patterns laid over output memory between calls: NaN in every float type, then large and small numbers."""


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
        for region in self.regions:
            region.fill_(POISON[turn % len(POISON)])


class InputBuffers:
    """Shared memory for `sets` sets of one task's inputs: a bracket of that many calls reads each set once."""

    def __init__(self, device: str, inputs: list, sets: int, arena_bytes: int):
        self.device = device
        self.sets = sets
        self.spec, tensors = values.flatten(inputs)
        self.layouts, self.set_bytes = _places(tensors)
        self.buffer = memory.new_buffer(device, self.set_bytes * sets)
        self.arena = memory.new_buffer(device, arena_bytes) if device == "cpu" else None

    def fits(self, inputs: list, sets: int) -> bool:
        """True where this many sets like `inputs` (structure, shapes, dtypes) have room."""
        spec, tensors = values.flatten(inputs)
        return sets <= self.sets and spec == self.spec and _places(tensors)[0] == self.layouts

    def views(self, index: int) -> list[torch.Tensor]:
        """The shared tensors of one set."""
        whole = self.buffer.bytes[index * self.set_bytes : (index + 1) * self.set_bytes]
        return [layout.of(whole) for layout in self.layouts]

    def write(self, index: int, inputs: list) -> None:
        """Copy fresh values into one set."""
        for view, tensor in zip(self.views(index), values.flatten(inputs)[1], strict=True):
            view.copy_(tensor)

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
        self.buffer.close()
        if self.arena is not None:
            self.arena.close()


class OutputReader:
    """Reads what a runner says it wrote. Every place is checked against the real allocation first."""

    def __init__(self, buffers: InputBuffers):
        self._buffers = buffers
        self._imports = memory.CudaImports()

    def read(self, answer: dict, calls: int, kept: frozenset[int] = frozenset()) -> Outputs:
        """The outputs of `calls` calls. Raises CandidateCrashedError for a malformed answer.

        `kept`: places, among one call's outputs, of what is not to be poisoned.
        """
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
        device_ms = answer.get("device_ms")
        return Outputs(
            tuple(value), tuple(regions), len(tensors), device_ms if isinstance(device_ms, float) else None
        )

    def close(self) -> None:
        """Unmap everything."""
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


def _places(tensors: list[torch.Tensor]) -> tuple[list[TensorLayout], int]:
    """`pack`, with one place for a tensor that is passed more than once: what is one to the task stays one."""
    own: dict[tuple, int] = {}
    which = [own.setdefault(memory_key(t), len(own)) for t in tensors]
    layouts, size = pack([tensors[which.index(i)] for i in range(len(own))])
    return [layouts[i] for i in which], size
