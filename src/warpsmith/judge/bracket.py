"""The judge's clock around calls of a runner, and the check of what those calls wrote.

A bracket is a few calls back to back, each on inputs of its own that were never used before: one call where a call
is long, many where it is short, so that the bracket's own cost, about 0.1 ms on a GPU, stays small beside it.

Order: inputs written → last outputs poisoned → L2 flushed → device idle → clock starts → calls → answer → the
GPU idle as this process sees it → clock stops → outputs named by the runner, read here and compared.
"""

import secrets
import statistics
import time
from dataclasses import dataclass

import torch

from warpsmith.judge import gates
from warpsmith.judge.clock import calls_per_bracket, late_ms
from warpsmith.judge.exchange import InputBuffers, OutputReader
from warpsmith.judge.process import Request, RunnerProcess
from warpsmith.judge.verifier import Call, Draw, Verifier

NULL_BRACKETS = 20
PROBED_CALLS = 8
VERIFIED_CALLS = 8
"""Calls compared in a bracket of more: a secret choice, made after the bracket has ended."""
MEMORY_SHARE = 0.1
"""Of the device's memory, for one bracket's inputs and for its outputs each."""
ANSWER_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Bracket:
    """What one bracket showed; `found` holds a comparison for each verified call."""

    raw_ms: float
    calls: int
    device_ms: float | None
    found: tuple[gates.Comparison, ...]
    answer: dict


class Bench:
    """Brackets of runners on one reference.

    `draws`: forward draws random numbers. Both sides can repeat them only from a seed set just before the call, so
    a bracket holds one call. `kept`: outputs, by their place, that are the model's own state and stay unpoisoned.
    """

    def __init__(
        self, verifier: Verifier, device: str, *, draws: bool = False, kept: frozenset[int] = frozenset()
    ):
        self.verifier, self.device = verifier, device
        self.reference, self.model = verifier.reference, verifier.model
        self._draws, self._kept = draws, kept
        self.cuda = device == "cuda"
        self._buffers: InputBuffers | None = None
        self._readers: dict[str, OutputReader] = {}
        self._turn = 0
        self._flush: torch.Tensor | None = None
        self._probe = torch.zeros(1, device=device)

    def run(
        self,
        runner: RunnerProcess,
        timeout_s: float,
        *,
        op: str = "call",
        calls: int = 1,
        verify: bool = True,
        call: Call | None = None,
    ) -> Bracket:
        """One bracket, of `call` where that is given.

        Raises the errors of RunnerProcess, and WrongResultError where an input was changed.
        """
        wanted = [call or self.fresh() for _ in range(calls)]
        for i, one in enumerate(wanted):
            inputs = one.inputs()
            if i == 0:
                self._share(runner, inputs, calls)
            self._buffers.write(i, inputs)
            del inputs
        raw_ms = self._clocked(
            runner, runner.request(op, calls=calls), timeout_s, seed=wanted[0].forward_seed
        )
        start = time.perf_counter_ns()
        answer = runner.ask("describe", timeout_s)
        describing_ms = (time.perf_counter_ns() - start) / 1e6
        outputs = self._readers[runner.name].read(answer, calls, self._kept)
        raw_ms += late_ms(describing_ms, outputs.tensors)
        found = [
            self.verifier.verify(wanted[i], outputs.calls[i], self._buffers.views(i))
            for i in (_secret_choice(calls) if verify else ())
        ]
        outputs.poison(self._turn)
        self._turn += 1
        return Bracket(raw_ms, calls, outputs.device_ms, tuple(found), answer)

    def fresh(self, draw: Draw | None = None, *, paper: bool = True) -> Call:
        """A call on inputs never used before, drawn as the task draws them or by `draw`."""
        return Call(draw or self.reference.draw_inputs, secrets.randbits(62), secrets.randbits(62), paper)

    def null_ms(self, runner: RunnerProcess) -> float:
        """Median cost in ms of the bracket alone. Only asked of a process that runs no candidate, after a `run`."""
        return statistics.median(
            self._clocked(runner, runner.request("null"), ANSWER_TIMEOUT_S) for _ in range(NULL_BRACKETS)
        )

    def choose_calls(self, runner: RunnerProcess, timeout_s: float, *, verify: bool) -> int:
        """How many calls a bracket needs, from one bracket of one call and one of a few."""
        first = self.run(runner, timeout_s, verify=verify)
        most = self._most_calls()
        probed = min(PROBED_CALLS, most)
        if not self.cuda or self._draws or probed < 2 or calls_per_bracket(first.raw_ms) == 1:
            return 1
        self.run(runner, timeout_s, calls=probed, verify=verify)
        several = self.run(runner, timeout_s, calls=probed, verify=verify)
        return min(most, calls_per_bracket((several.raw_ms - first.raw_ms) / (probed - 1)))

    def elements(self) -> int:
        """Elements of one set of inputs."""
        return sum(view.numel() for view in self._buffers.views(0)) if self._buffers else 0

    # ---- steps ------------------------------------------------------------------------------------------------

    def _share(self, runner: RunnerProcess, inputs: list, sets: int) -> None:
        if self._buffers is None or not self._buffers.fits(inputs, sets):
            self.close()
            arena = 0 if self.cuda else self.reference.output_bytes(self.model, inputs)
            self._buffers = InputBuffers(self.device, inputs, sets, arena)
        if runner.name not in self._readers:
            self._buffers.attach(runner, ANSWER_TIMEOUT_S)
            self._readers[runner.name] = OutputReader(self._buffers)

    def _clocked(self, runner: RunnerProcess, request: Request, timeout_s: float, *, seed: int = 0) -> float:
        """Milliseconds from sending `request`, everything settled, until it is answered and the GPU is idle.

        The runner's generators are seeded with `seed` before the clock starts, as the reference's will be.
        """
        self._flush_l2()
        runner.ask("arm", timeout_s, seed=seed)
        start = time.perf_counter_ns()
        runner.post(request)
        data = runner.receive_raw(timeout_s)
        if self.cuda:
            # Ends after work that the runner's context still had in flight: an answer sent early gains nothing.
            self._probe.zero_()
            torch.cuda.synchronize()
        raw_ms = (time.perf_counter_ns() - start) / 1e6
        runner.parse(data, request)
        return raw_ms

    def _flush_l2(self) -> None:
        if not self.cuda:
            return
        if self._flush is None:
            size = 2 * torch.cuda.get_device_properties(0).L2_cache_size
            self._flush = torch.zeros(max(size, 128 << 20) // 4, dtype=torch.int32, device="cuda")
        # Read, not written: dirty lines would be written back inside the timed region.
        self._flush.amax()
        torch.cuda.synchronize()

    def _most_calls(self) -> int:
        per_call = max(self._buffers.set_bytes, self.reference.output_bytes(self.model, self._draw()))
        return (
            max(1, int(MEMORY_SHARE * torch.cuda.get_device_properties(0).total_memory / per_call))
            if self.cuda
            else 1
        )

    def _draw(self) -> list:
        return self.reference.draw_inputs(secrets.randbits(62))

    def close(self) -> None:
        """Unmap what runners exported and free the shared inputs."""
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()
        if self._buffers is not None:
            self._buffers.close()
            self._buffers = None


def _secret_choice(calls: int) -> list[int]:
    if calls <= VERIFIED_CALLS:
        return list(range(calls))
    return sorted(secrets.SystemRandom().sample(range(calls), VERIFIED_CALLS))
