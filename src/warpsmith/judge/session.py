"""One judgement inside the referee, phase by phase: admission, correctness, timing, baselines."""

import gc
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from warpsmith.errors import CandidateTimedOutError, CheatingError, TaskUnsupportedError
from warpsmith.judge import admission, operators, weights
from warpsmith.judge.bracket import Bench, Bracket
from warpsmith.judge.clock import Samples, brackets_wanted
from warpsmith.judge.correctness import Checks, Tally
from warpsmith.judge.job import JobFolder, RefereeJob
from warpsmith.judge.process import RunnerProcess
from warpsmith.judge.reference import Reference
from warpsmith.judge.verifier import Call, Verifier
from warpsmith.types import Device, Phase, Rules

WARMUP_BRACKETS = 2
COMPILE_TIMEOUT_S = 600.0
SIM_LARGE_ELEMENTS = 4 << 20
"""Above this a call that does not end on the simulator says nothing about the submission."""


@dataclass
class Findings(Tally):
    """What is known so far; whatever ends the judgement, this much goes into the verdict."""

    phase: Phase = Phase.ADMISSION
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
        found = admission.admit(self.reference, self.model)
        self.findings.notes += [f"task: {flag}" for flag in found.flags]
        torch.save(init_args, self.folder.share / "init.pt")
        self.states = [weights.copied(self.model.state_dict())]
        if self.states[0]:
            self.states.append(self._other_weights(init_args))
        for i, state in enumerate(self.states):
            torch.save(state, self._state_path(i))
        verifier = Verifier(self.reference, self.model, noise=found.rounding_noise, faulting=found.faulting)
        self.bench = Bench(verifier, device, draws=found.draws, kept=found.returns_state)
        self.checks = Checks(self.bench, self.findings, self.settings.call_timeout_s)

    def correctness(self, runner: RunnerProcess) -> None:
        """Load the submission; the untimed checks: operators observed once, weights changed half-way."""
        self._enter(Phase.LOAD, "loading the submission")
        runner.await_ready()
        self._load(runner, "submission", str(self.folder.candidate))
        self._prepare(runner)
        self._enter(Phase.CORRECTNESS, "checking results")
        timeout_s = self.settings.call_timeout_s
        checks = max(5, self.settings.checks)
        try:
            self._judge_operators(self.findings.add(self.bench.run(runner, timeout_s, op="observe")))
            for i in range(checks):
                if i == checks // 2:
                    self._use_weights(len(self.states) - 1, runner)
                    self._prepare(runner)
                self.findings.add(self.bench.run(runner, timeout_s))
            self.checks.distributions(runner)
        except CandidateTimedOutError as error:
            self._too_large_for_sim(error)
            raise

    def held_out(self, runner: RunnerProcess) -> None:
        """Shapes and layouts that the task never uses: told, never counted. The runner may not survive it."""
        self.checks.held_out(runner)

    def timing(self, runner: RunnerProcess) -> Samples:
        """Timed brackets of the candidate, on fresh inputs and checked."""
        self._enter(Phase.TIMING, "timing the submission")
        return self._measure(runner, self.settings.call_timeout_s, verify=True)

    def baseline(self, runner: RunnerProcess, mode: str) -> tuple[Samples, float]:
        """The same on the reference model in `mode`, and the null cost in ms, measured in the same clean process."""
        self._enter(Phase.BASELINE, f"timing {mode}")
        self._load(runner, mode, str(self.folder.baseline))
        self._use_weights(len(self.states) - 1, runner)
        self.bench.run(runner, COMPILE_TIMEOUT_S, verify=False)
        samples = self._measure(runner, COMPILE_TIMEOUT_S, verify=False)
        return samples, self.bench.null_ms(runner)

    def closing_notes(self) -> tuple[str, ...]:
        """What is known only at the end."""
        took = " and ".join(f"{ms:.3g} ms" for ms in self.prepare_ms)
        return (*self.rounding_note(), *([f"prepare() took {took}, outside the clock"] if took else []))

    def rounding_note(self) -> tuple[str, ...]:
        """What the gates were widened by, if they had to be."""
        verifier, notes = self.bench.verifier, []
        if verifier.rounding:
            gate = "both gates were" if verifier.noise else "the paper's gate was"
            notes.append(
                f"{gate} widened by up to {verifier.rounding:.3g}, a multiple of the reference's own rounding error"
            )
        if verifier.unresolved:
            notes.append(
                f"the scale-aware gate was widened by up to {verifier.unresolved:.3g}: TF32 resolves no more of it"
            )
        return tuple(notes)

    def traffic(self) -> tuple[int, int]:
        """Bytes that a call must at least read and write: inputs and state once, outputs once."""
        inputs = self.reference.draw_inputs(secrets.randbits(62))
        output = self.reference.forward(self.model, inputs, seed=secrets.randbits(62))
        read = self.reference.read_bytes(inputs, self.model.state_dict())
        return read, self.reference.written_bytes(output)

    def _measure(self, runner: RunnerProcess, timeout_s: float, *, verify: bool) -> Samples:
        keep = self.findings.add if verify else (lambda bracket: bracket)
        calls = self.bench.choose_calls(runner, timeout_s, verify=False)
        gc.collect()
        gc.disable()
        begun = time.monotonic()
        for _ in range(WARMUP_BRACKETS):
            keep(self.bench.run(runner, timeout_s, calls=calls, verify=verify))
        each_s = (time.monotonic() - begun) / WARMUP_BRACKETS
        wanted = brackets_wanted(self.settings.timed_calls, calls, each_s, self.settings.time_budget_s)
        done = [keep(self.bench.run(runner, timeout_s, calls=calls, verify=verify)) for _ in range(wanted)]
        gc.enable()
        device_ms = tuple(b.device_ms for b in done if b.device_ms is not None)
        return Samples(calls, tuple(b.raw_ms for b in done), device_ms)

    def _load(self, runner: RunnerProcess, kind: str, folder: str) -> None:
        request = {
            "kind": kind, "folder": folder, "seed": self.seed,
            "init": str(self.folder.share / "init.pt"), "state": self._state_path(0),
        }  # fmt: skip
        runner.ask("load", self.settings.load_timeout_s, **request)
        self.model.load_state_dict(self.states[0])

    def _use_weights(self, i: int, runner: RunnerProcess) -> None:
        """Give the reference and a runner the i-th set of weights."""
        self.model.load_state_dict(self.states[i])
        runner.ask("weights", self.settings.load_timeout_s, state=self._state_path(i))

    def _prepare(self, runner: RunnerProcess) -> None:
        """Let a submission fold its new weights, by the referee's clock and apart from every call."""
        begun = time.perf_counter()
        answer = runner.ask("prepare", self.settings.load_timeout_s)
        if answer.get("prepared") is True:
            self.prepare_ms.append(1e3 * (time.perf_counter() - begun))

    def _other_weights(self, init_args: list) -> weights.State:
        """A second set, of another seed, and varied where that alone changes nothing while forward stays finite."""
        other = self.reference.new_model(secrets.randbits(62), init_args)
        drawn = weights.copied(other.state_dict())
        varied = weights.varied(self.states[0], drawn, other, secrets.randbits(62))
        other.load_state_dict(varied)
        call = Call(self.reference.draw_inputs, secrets.randbits(62), secrets.randbits(62))
        return drawn if Verifier(self.reference, other, noise=False).usable(call) else varied

    def _state_path(self, i: int) -> str:
        return str(self.folder.share / f"state{i}.pt")

    def _judge_operators(self, bracket: Bracket) -> None:
        outcome = operators.outcome(bracket.answer.get("ops"))
        self.findings.checks.append(outcome)
        if self.settings.rules is Rules.PAPER and not outcome.passed:
            raise CheatingError(outcome.detail, check=outcome.check)

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
