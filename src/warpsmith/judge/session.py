"""One judgement inside the referee, phase by phase: admission, correctness, timing, baselines."""

import secrets
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field

import torch

from warpsmith.errors import (
    CandidateCrashedError,
    CandidateTimedOutError,
    CheatingError,
    InfrastructureError,
    SubmissionUnsupportedError,
    TaskRefusedError,
    TaskUnsupportedError,
    WrongResultError,
)
from warpsmith.gpu.probe import probe_of
from warpsmith.judge.admission import fitness
from warpsmith.judge.correctness import accuracy
from warpsmith.judge.correctness.untimed import Checks, Tally
from warpsmith.judge.correctness.verifier import Call, Verifier
from warpsmith.judge.evidence import disarmed
from warpsmith.judge.evidence.gather import Gathered
from warpsmith.judge.job import JobFolder, RefereeJob
from warpsmith.judge.reference import moving, weights
from warpsmith.judge.reference.model import Reference
from warpsmith.judge.runner import values
from warpsmith.judge.runner.process import RunnerProcess
from warpsmith.judge.timing import modes
from warpsmith.judge.timing.bracket import Bench
from warpsmith.judge.timing.clock import Samples, time_stats, unsteady_null
from warpsmith.judge.timing.measure import Timed, Timer
from warpsmith.judge.timing.modes import Entry
from warpsmith.judge.timing.ratio import Interleaved
from warpsmith.judge.timing.roofline import ProductCount, Traffic
from warpsmith.sim import unsupported
from warpsmith.types import Accuracy, BaselineKind, Device, Phase, Rules
from warpsmith.types.arguments import Arguments

BUILD_POLL_S = 0.001
MOVED_NOTE = (
    "weights had changed since the last call: what is made of them belongs into the call, or into prepare()"
)
SIM_LARGE_ELEMENTS = 4 << 20
"""Above this a call that does not end on the simulator says nothing about the submission."""


@dataclass
class Findings(Tally):
    """What is known so far; whatever ends the judgement, this much goes into the verdict."""

    phase: Phase = Phase.ADMISSION
    ran: Gathered = field(default_factory=Gathered)
    """What the observer saw of the candidate's brackets."""
    notes: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)


class Session:
    """State of one judgement. `report` is told each phase as it begins."""

    def __init__(self, folder: JobFolder, job: RefereeJob, report: Callable[[Phase, str], None]):
        self.folder, self.job, self.settings = folder, job, job.settings
        self.cuda = job.settings.device is Device.CUDA
        self.findings = Findings()
        self.prepare_ms: list[float] = []
        self._report = report
        self._since = time.monotonic()

    def admit(self, code: str) -> None:
        """Load the task, refuse it if it cannot be judged, and write what runners need into `share/`."""
        self._enter(Phase.ADMISSION, "checking the task")
        device = "cuda" if self.cuda else "cpu"
        self.reference = Reference.load(code, self.folder.task, device)
        self.reference.require_memory()
        init_args = self.reference.init_args()
        self.seed = secrets.randbits(62)
        self.model = self.reference.new_model(self.seed, init_args)
        found = fitness.admit(self.reference, self.model)
        self.findings.notes += [f"task: {flag}" for flag in found.flags]
        torch.save(init_args, self.folder.share / "init.pt")
        self.states = [weights.copied(self.model.state_dict())]
        if self.states[0]:
            self.states.append(self._other_weights(init_args))
        for i, state in enumerate(self.states):
            torch.save(state, self._state_path(i))
        verifier = Verifier(self.reference, self.model, noise=found.rounding_noise, faulting=found.faulting)
        self._movable = self._can_move(verifier)
        self.bench = Bench(verifier, device, draws=found.draws, kept=found.returns_state)
        self.checks = Checks(self.bench, self.findings, self.settings.call_timeout_s)
        self.timer = Timer(
            self.bench, calls_wanted=self.settings.timed_calls, budget_s=self.settings.time_budget_s,
            probe=probe_of(f"GPU-{torch.cuda.get_device_properties(0).uuid}") if self.cuda else None,
        )  # fmt: skip

    def await_build(self) -> None:
        """Wait until the submission is laid out: it is compiled meanwhile. Who compiles it sets the time limit.

        Raises InfrastructureError, which nobody reads, where there will be none.
        """
        self._enter(Phase.COMPILE, "compiling")
        while not self.folder.built.exists():
            if self.folder.abandoned.exists():
                raise InfrastructureError("there is no submission to judge")
            time.sleep(BUILD_POLL_S)
        self.findings.ran.own = self.folder.own_kernels()

    def correctness(self, runner: RunnerProcess) -> None:
        """Load the submission; the untimed checks: weights changed half-way, and what ran judged soon."""
        try:
            self._correctness(runner)
        except SubmissionUnsupportedError as error:
            if unsupported.may_show_late(self.folder.candidate_sources()):
                raise
            detail = f"says that it is unsupported and uses nothing that is: {error}"
            raise CandidateCrashedError(detail) from error

    def _correctness(self, runner: RunnerProcess) -> None:
        self._enter(Phase.LOAD, "loading the submission")
        runner.await_ready()
        self._load(runner, "submission", str(self.folder.candidate))
        self._prepare(runner)
        self._enter(Phase.CORRECTNESS, "checking results")
        timeout_s = self.settings.call_timeout_s
        checks = max(5, self.settings.checks)
        try:
            self.bench.watch = self.findings.ran
            self.findings.add(self.bench.run(runner, timeout_s, op="observe"))
            self._judge_evidence()
            for i in range(checks):
                if i == checks // 2:
                    self._use_weights(len(self.states) - 1, runner)
                    self._prepare(runner)
                    self.bench.moving = self._moves()
                self.findings.add(self.bench.run(runner, timeout_s))
            self.checks.distributions(runner)
            self._judge_evidence()
        except WrongResultError:
            self.findings.notes += [MOVED_NOTE] if self.bench.moving else []
            raise
        except CandidateTimedOutError as error:
            self._too_large_for_sim(error)
            raise

    def last_checks(self, runner: RunnerProcess) -> None:
        """What the runner may not survive: under the paper's rules its result must need its own launches.

        Then shapes and layouts that the task never uses: told, never counted.
        """
        self.bench.watch, self.bench.moving = None, self._moves()
        if self.settings.rules is Rules.PAPER:
            found = disarmed.outcome(self.bench, runner, self.settings.call_timeout_s)
            self.findings.checks += [found] if found is not None else []
            if found is not None and not found.passed:
                raise CheatingError(found.detail, check=found.check)
        self.checks.held_out(runner)

    def timing(self, runner: RunnerProcess) -> Samples:
        """Timed brackets of the candidate, on fresh inputs and checked."""
        self._enter(Phase.TIMING, "timing the submission")
        samples = self.timer.measure(self._candidate(runner))
        self.findings.notes += self.timer.notes()
        self._judge_evidence()
        return samples

    def accuracy(self, runner: RunnerProcess) -> Accuracy:
        """Errors of the candidate and of PyTorch's modes against float64, and which modes compete."""
        self._enter(Phase.BASELINE, "measuring accuracy")
        seen = self.findings.error.rel if self.findings.error is not None else 0.0
        self.bench.watch = self.findings.ran
        found = accuracy.measure(self.bench, runner, self.settings.call_timeout_s, seen=seen)
        self.bench.watch = None
        self._judge_evidence()
        return found

    @property
    def prepares(self) -> bool:
        """Whether the candidate has a `prepare()`."""
        return bool(self.prepare_ms)

    def baseline(self, runner: RunnerProcess, entry: Entry, timeout_s: float) -> tuple[Samples, float]:
        """The same on the reference model as `entry`, and the null cost in ms, measured in the same clean process.

        Raises WrongResultError where what it computes fails the gates.
        """
        self._enter(Phase.BASELINE, f"timing {entry.name}")
        samples = self.timer.measure(self._baseline(runner, entry, timeout_s), nulls=True)
        null_ms = samples.null.median_ms
        if told := unsteady_null(time_stats(samples, null_ms)):
            self.findings.notes.append(f"{entry.name}: {told}")
        return samples, null_ms

    def first_call(self, runner: RunnerProcess, entry: Entry, timeout_s: float) -> None:
        """Load a baseline and call it once, untimed: what it compiles is in torch.compile's caches then."""
        self._enter(Phase.BASELINE, f"compiling {entry.name}")
        runner.await_ready()
        self._baseline(runner, entry, timeout_s)

    def interleaved(
        self, candidate: RunnerProcess, runner: RunnerProcess, entry: Entry, timeout_s: float
    ) -> Interleaved:
        """Brackets of the candidate, loaded and checked before, and of a fresh baseline process, in turn.

        For a ratio that is `near_threshold`. Raises for either what `timing` and `baseline` raise.
        """
        self._enter(Phase.BASELINE, f"timing the submission and {entry.name} in turn")
        found = self.timer.interleave(self._candidate(candidate), self._baseline(runner, entry, timeout_s))
        self._judge_evidence()
        return found

    def resubmit(self, runner: RunnerProcess) -> None:
        """Load the submission once more, in a fresh process, with the weights that it was timed with."""
        runner.await_ready()
        self._load(runner, "submission", str(self.folder.candidate))
        self._use_weights(len(self.states) - 1, runner)
        runner.ask("prepare", self.settings.load_timeout_s)

    def _candidate(self, runner: RunnerProcess) -> Timed:
        keep, watch = self.findings.add, self.findings.ran
        return Timed(runner, self.settings.call_timeout_s, keep, watch, self._moves())

    def _baseline(self, runner: RunnerProcess, entry: Entry, timeout_s: float) -> Timed:
        """Loads a baseline, which is then treated as the candidate is: verified and observed in every bracket."""
        how = {"mode": entry.mode.name, "run_as": entry.kind.value, "dtypes": self._output_dtypes()}
        self._load(runner, "baseline", str(self.folder.baseline), **how)
        self._use_weights(len(self.states) - 1, runner)
        # Compiled code draws other random numbers from the same seed.
        incomparable = self.bench.draws and entry.kind is not BaselineKind.EAGER
        keep = (lambda bracket: bracket) if incomparable else Tally().add
        timed = Timed(runner, timeout_s, keep, Gathered(), self._movable and entry.kind not in modes.KEEPING)
        self.bench.watch, self.bench.moving = timed.watch, timed.moving
        timed.keep(self.bench.run(runner, timeout_s))
        return timed

    def _output_dtypes(self) -> list[str]:
        output = self.reference.forward(self.model, self.reference.draw_inputs(self.seed), seed=self.seed)
        return [values.dtype_name(t.dtype) for t in values.flatten(output)[1]]

    def closing_notes(self) -> tuple[str, ...]:
        """What is known only at the end."""
        took = " and ".join(f"{ms:.3g} ms" for ms in self.prepare_ms)
        prepared = [f"prepare() took {took}, outside the clock"] if took else []
        return (*self.rounding_note(), *prepared, *(self.findings.ran.notes() if self.cuda else ()))

    def rounding_note(self) -> tuple[str, ...]:
        """What the gates were widened by, if they had to be."""
        verifier, notes = self.bench.verifier, []
        if verifier.rounding:
            gate = "both gates were" if verifier.noisy else "the paper's gate was"
            notes.append(
                f"{gate} widened by up to {verifier.rounding:.3g}, a multiple of the reference's own rounding error"
            )
        if verifier.unresolved:
            notes.append(
                f"the scale-aware gate was widened by up to {verifier.unresolved:.3g}: TF32 resolves no more of it"
            )
        return tuple(notes)

    def traffic(self) -> Traffic:
        """Bytes that a call must at least read and write (inputs and state once, outputs once), and its FLOPs."""
        try:
            return self._traffic(ProductCount())
        except (TaskRefusedError, TaskUnsupportedError):
            # what runs by itself may not run under a dispatch mode
            return self._traffic(None)

    def _traffic(self, products: ProductCount | None) -> Traffic:
        inputs = self.reference.draw_inputs(secrets.randbits(62))
        with products or nullcontext():
            output = self.reference.forward(self.model, inputs, seed=secrets.randbits(62))
        read = self.reference.read_bytes(inputs, self.model.state_dict())
        return Traffic(read, self.reference.written_bytes(output), products and products.flops)

    def _load(self, runner: RunnerProcess, kind: str, folder: str, **how: object) -> None:
        request = how | {
            "kind": kind, "folder": folder, "seed": self.seed,
            "init": str(self.folder.share / "init.pt"), "state": self._state_path(0),
            "observer": str(self.folder.observer),
        }  # fmt: skip
        runner.ask("load", self.settings.load_timeout_s, **request)
        self.bench.verifier.load(self.states[0])

    def _use_weights(self, i: int, runner: RunnerProcess) -> None:
        """Give the reference and a runner the i-th set of weights."""
        self.bench.verifier.load(self.states[i])
        runner.ask("weights", self.settings.load_timeout_s, state=self._state_path(i))

    def _prepare(self, runner: RunnerProcess) -> None:
        """Let a submission fold its new weights, by the referee's clock and apart from every call."""
        begun = time.perf_counter()
        answer = runner.ask("prepare", self.settings.load_timeout_s)
        if answer.get("prepared") is True:
            self.prepare_ms.append(1e3 * (time.perf_counter() - begun))

    def _other_weights(self, init_args: Arguments) -> weights.State:
        """A second set, of another seed, and varied where that alone changes nothing while forward stays finite."""
        other = self.reference.new_model(secrets.randbits(62), init_args)
        drawn = weights.copied(other.state_dict())
        varied = weights.varied(self.states[0], drawn, other, secrets.randbits(62))
        other.load_state_dict(varied)
        call = Call(self.reference.draw_inputs, secrets.randbits(62), secrets.randbits(62))
        return drawn if Verifier(self.reference, other, noise=False).usable(call) else varied

    def _can_move(self, verifier: Verifier) -> bool:
        """Whether the reference still says something when its weights have moved."""
        drawn = moving.drawn(self.model, secrets.randbits(62))
        call = Call(self.reference.draw_inputs, secrets.randbits(62), secrets.randbits(62), moves=drawn)
        usable = bool(drawn) and not verifier.usable(call)
        verifier.load(self.states[0])
        return usable

    def _moves(self) -> bool:
        """Whether the candidate's weights change between brackets: not where it has a `prepare()` to tell of them."""
        return self._movable and not self.prepares

    def _state_path(self, i: int) -> str:
        return str(self.folder.share / f"state{i}.pt")

    def _judge_evidence(self) -> None:
        """The rules on what ran, over every bracket so far."""
        outcomes = self.findings.ran.outcomes()
        told = {outcome.check: outcome for outcome in outcomes}
        kept = [told.pop(check.check, check) for check in self.findings.checks]
        self.findings.checks = [*kept, *told.values()]
        refused = next((outcome for outcome in outcomes if not outcome.passed), None)
        if self.settings.rules is Rules.PAPER and refused is not None:
            raise CheatingError(refused.detail, check=refused.check)

    def _too_large_for_sim(self, error: CandidateTimedOutError) -> None:
        elements = self.bench.elements() + sum(t.numel() for t in self.states[0].values())
        if not self.cuda and elements > SIM_LARGE_ELEMENTS:
            raise TaskUnsupportedError(
                f"{elements:,} elements are too many for the simulator's time limit",
                hint="shrink the task, or judge it on a GPU",
            ) from error

    def _enter(self, phase: Phase, what: str) -> None:
        self.close_phase()
        self.findings.phase = phase
        self._report(phase, what)

    def close_phase(self) -> None:
        """Add the time since the last phase began to that phase's seconds."""
        now = time.monotonic()
        seconds, name = self.findings.seconds, self.findings.phase.value
        seconds[name] = round(seconds.get(name, 0.0) + now - self._since, 3)
        self._since = now
