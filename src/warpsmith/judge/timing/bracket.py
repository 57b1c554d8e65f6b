"""The judge's clock around calls of a runner, and the check of what those calls wrote.

A bracket is a few calls back to back, each on inputs of its own that were never used before: one call where a call
is long, many where it is short, so that the bracket's own cost, about 0.1 ms on a GPU, stays small beside it.

Order: inputs written → weights moved → last outputs poisoned → L2 flushed → device idle → clock starts → calls →
answer → the GPU idle as this process sees it → clock stops → outputs named by the runner, read here and compared.
"""

import secrets
import time
from dataclasses import dataclass, replace

import torch

from warpsmith.judge.correctness import gates
from warpsmith.judge.correctness.verifier import Call, Draw, Verifier
from warpsmith.judge.evidence.gather import Gathered
from warpsmith.judge.reference import moving
from warpsmith.judge.runner.exchange import InputBuffers, OutputReader, RunnerRoom, set_bytes
from warpsmith.judge.runner.process import Request, RunnerProcess
from warpsmith.judge.timing.clock import MAX_CALLS, calls_per_bracket, early_ms, late_ms, moving_ms
from warpsmith.sim import order

PROBED_CALLS = 8
VERIFIED_CALLS = 8
"""Calls compared in a bracket of more: a secret choice, made after the bracket has ended."""
SLOW_S = 0.05
SPARING = 3
"""Where comparing a bracket takes longer than this, one timed bracket in three is compared: a submission that moves
its median by skipping half of its calls passes ten comparisons once in a thousand times."""
MEMORY_SHARE = 0.1
"""Of the device's memory, for one bracket's inputs and for its outputs each."""
ROOM_BYTES = 1 << 30
"""Of the GPU's memory for inputs from the start, so that short calls' brackets can grow in place."""
ANSWER_TIMEOUT_S = 120.0
GROUP_BYTES = 64 << 20
"""Inputs that are drawn before they are copied to where the runner reads them, all at once."""


@dataclass(frozen=True)
class _Lane:
    """What passes to one runner and back."""

    buffers: InputBuffers
    reader: OutputReader

    def close(self) -> None:
        self.reader.close()
        self.buffers.close()


@dataclass(frozen=True)
class Bracket:
    """What one bracket showed; `found` holds a comparison for each verified call."""

    raw_ms: float
    calls: int
    device_ms: float | None
    found: tuple[gates.Comparison, ...]
    answer: dict
    describing_ms: float
    """What naming the outputs took."""
    order: int = order.FORWARD
    """On the simulator, the order of its kernels' threads."""


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
        self.draws, self._kept = draws, kept
        self.cuda = device == "cuda"
        self.watch: Gathered | None = None
        """Given what the observer saw of every bracket."""
        self.moving = False
        """Whether fresh calls are on moved weights: not where what is made of weights may be kept."""
        self._moved: dict[RunnerProcess, tuple[moving.Move, ...]] = {}
        self._lanes: dict[RunnerProcess, _Lane] = {}
        self._set_bytes = self._elements = 0
        self.verify_s = 0.0
        """What the last comparison took."""
        self._turn = 0
        self._call_bytes: int | None = None
        self._flush: torch.Tensor | None = None
        self._probe = torch.zeros(1, device=device)

    def run(
        self,
        runner: RunnerProcess,
        timeout_s: float,
        *,
        op: str = "call",
        calls: int = 1,
        call: Call | None = None,
        sparing: bool = False,
        disarmed: bool = False,
    ) -> Bracket:
        """One bracket, of `call` where that is given. All of them look the same to the runner, and are verified.

        With `sparing`, where the last comparison took long, a secret third of them is. With `disarmed`, for a runner
        with a page, nothing that it launches runs. Raises the errors of RunnerProcess, and WrongResultError where an
        input was changed.
        """
        wanted = self._wanted(calls, call)
        lane = self._lay(runner, wanted)
        # Another for each call: a kernel that lacks a barrier gives other results in it.
        threads = order.ORDERS[self._turn % len(order.ORDERS)]
        if runner.page is not None:
            runner.page.set(order=threads, zeroed=op == "zeroed", disarmed=disarmed)
        raw_ms = self._clocked(runner, runner.request(op, calls=calls), timeout_s, wanted[0])
        start = time.perf_counter_ns()
        answer = runner.ask("describe", timeout_s)
        describing_ms = (time.perf_counter_ns() - start) / 1e6
        outputs = lane.reader.read(answer, calls, self._kept)
        raw_ms += late_ms(describing_ms, outputs.tensors)
        # Gathered there while outputs are compared here.
        asked = runner.request("evidence") if self.watch is not None else None
        if asked is not None:
            runner.post(asked)
        # Chosen only now: who knew the choice would compute nothing else.
        spared = sparing and self.verify_s > SLOW_S and secrets.randbelow(SPARING) > 0
        since = time.perf_counter()
        try:
            found = [
                self.verifier.verify(wanted[i], outputs.calls[i], lane.buffers.views(i))
                for i in (() if spared else _secret_choice(calls))
            ]
        finally:
            if asked is not None:
                self.watch.add(calls, runner.parse(runner.receive_raw(timeout_s), asked))
        self.verify_s = self.verify_s if spared else time.perf_counter() - since
        outputs.poison(self._turn)
        self._turn += 1
        return Bracket(raw_ms, calls, outputs.device_ms, tuple(found), answer, describing_ms, threads)

    def fresh(self, draw: Draw | None = None, *, paper: bool = True) -> Call:
        """A call on inputs never used before, drawn as the task draws them or by `draw`."""
        moves = moving.drawn(self.model, secrets.randbits(62)) if self.moving else ()
        drawn = draw or self.reference.draw_inputs
        return Call(drawn, secrets.randbits(62), secrets.randbits(62), paper, moves)

    def null(self, runner: RunnerProcess, timeout_s: float, calls: int) -> float:
        """Milliseconds of a bracket without its calls, prepared as one of `calls` calls is, and after the same pause.

        To be called between two `run`s, of a process that runs no candidate: what another says is not believed.
        """
        wanted = self._wanted(calls)
        self._lay(runner, wanted)
        raw_ms = self._clocked(runner, runner.request("null"), timeout_s, wanted[0])
        runner.ask("describe", timeout_s)
        if self.watch is not None:
            runner.ask("evidence", timeout_s)
        return raw_ms

    def choose_calls(self, runner: RunnerProcess, timeout_s: float) -> tuple[int, list[Bracket]]:
        """How many calls a bracket needs, from one bracket of one call and two of a few; and these brackets."""
        first = self.run(runner, timeout_s)
        probed = min(PROBED_CALLS, self._most_calls())
        if not self.cuda or self.draws or probed < 2 or calls_per_bracket(first.raw_ms) == 1:
            return 1, [first]
        several = [self.run(runner, timeout_s, calls=probed) for _ in range(2)]
        calls = calls_per_bracket((several[1].raw_ms - first.raw_ms) / (probed - 1))
        return min(self._most_calls(), calls), [first, *several]

    def elements(self) -> int:
        """Elements of one set of inputs."""
        return self._elements

    # ---- steps ------------------------------------------------------------------------------------------------

    def _wanted(self, calls: int, call: Call | None = None) -> list[Call]:
        """The calls of one bracket, all on the weights of the first."""
        first = call or self.fresh()
        seeds = [(secrets.randbits(62), secrets.randbits(62)) for _ in range(calls - 1)]
        return [first, *(replace(first, input_seed=i, forward_seed=f) for i, f in seeds)]

    def _lay(self, runner: RunnerProcess, wanted: list[Call]) -> _Lane:
        """Draw the inputs of every call and write them where the runner reads them."""
        drawn = [wanted[0].inputs()]
        lane = self._lane(runner, drawn[0], len(wanted))
        for i in range(1, len(wanted) + 1):
            if i == len(wanted) or len(drawn) * lane.buffers.set_bytes >= GROUP_BYTES:
                lane.buffers.write(i - len(drawn), drawn)
                drawn.clear()
            if i < len(wanted):
                drawn.append(wanted[i].inputs())
        return lane

    def _lane(self, runner: RunnerProcess, inputs: list, sets: int) -> _Lane:
        lane = self._lanes.get(runner)
        if lane is None or not lane.buffers.fits(inputs, sets):
            for old in [known for known in self._lanes if known is runner or known.closed]:
                self._lanes.pop(old).close()
            lane = self._lanes[runner] = self._new_lane(runner, inputs, sets)
            self._set_bytes = lane.buffers.set_bytes
            self._elements = sum(view.numel() for view in lane.buffers.views(0))
        return lane

    def _new_lane(self, runner: RunnerProcess, inputs: list, sets: int) -> _Lane:
        if self.cuda:
            # Growing costs 65 ms a time: closing what another process has mapped waits for the GPU.
            sets = max(sets, min(MAX_CALLS, ROOM_BYTES // set_bytes(inputs)))
            buffers = InputBuffers(
                self.device, inputs, sets, 0, lambda n: RunnerRoom(runner, n, ANSWER_TIMEOUT_S)
            )
        else:
            arena = sets * self.reference.output_bytes(self.model, inputs)
            buffers = InputBuffers(self.device, inputs, sets, arena)
        buffers.attach(runner, ANSWER_TIMEOUT_S)
        return _Lane(buffers, OutputReader(buffers))

    def _clocked(self, runner: RunnerProcess, request: Request, timeout_s: float, call: Call) -> float:
        """Milliseconds from sending `request`, everything settled, until it is answered and the GPU is idle.

        The runner's weights are moved and its generators seeded before the clock starts, as the reference's will be.
        """
        moved_ms = self._move(runner, call, timeout_s)
        self._flush_l2()
        since = time.perf_counter_ns()
        runner.ask("arm", timeout_s, seed=call.forward_seed)
        start = time.perf_counter_ns()
        runner.post(request)
        data = runner.receive_raw(timeout_s)
        if self.cuda:
            # Ends after work that the runner's context still had in flight: an answer sent early gains nothing.
            self._probe.zero_()
            torch.cuda.synchronize()
        raw_ms = (time.perf_counter_ns() - start) / 1e6
        runner.parse(data, request)
        return raw_ms + early_ms((start - since) / 1e6) + moving_ms(moved_ms)

    def _move(self, runner: RunnerProcess, call: Call, timeout_s: float) -> float:
        """What moving the runner's weights took, in ms."""
        since = time.perf_counter_ns()
        if call.moves != self._moved.get(runner, ()):
            runner.ask("move", timeout_s, moves=call.moves)
            self._moved[runner] = call.moves
        return (time.perf_counter_ns() - since) / 1e6

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
        """Calls whose inputs, and whose outputs, take no more than their share of the device's memory."""
        if not self.cuda:
            return 1
        if self._call_bytes is None:
            inputs = self.reference.draw_inputs(secrets.randbits(62))
            self._call_bytes = max(self._set_bytes, self.reference.output_bytes(self.model, inputs))
        memory = torch.cuda.get_device_properties(0).total_memory
        return max(1, int(MEMORY_SHARE * memory / self._call_bytes))

    def close(self) -> None:
        """Unmap what runners exported and free the shared inputs."""
        while self._lanes:
            self._lanes.popitem()[1].close()


def _secret_choice(calls: int) -> list[int]:
    if calls <= VERIFIED_CALLS:
        return list(range(calls))
    return sorted(secrets.SystemRandom().sample(range(calls), VERIFIED_CALLS))
