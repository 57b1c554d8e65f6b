"""The referee's process: reads a job's folder, writes one verdict into it.

Runners start before this process has loaded torch itself, so that both load at the same time.
"""

import gc
import os
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from warpsmith.errors import WarpsmithError
from warpsmith.judge.correctness.explain import explained
from warpsmith.judge.evidence.observer.build import lay_out
from warpsmith.judge.evidence.observer.parts import KERNELS
from warpsmith.judge.instruments.watched import instrumented
from warpsmith.judge.job import Instrument, JobFolder, RefereeJob, RefereeSetup
from warpsmith.judge.machine import describe_machine, leased_gpu
from warpsmith.judge.room import TorchMemory, room
from warpsmith.judge.runner.process import RunnerProcess, RunnerSpec
from warpsmith.judge.timing.baselines import BaselineStore
from warpsmith.judge.timing.clock import Samples, time_stats, with_kernels
from warpsmith.judge.timing.scoring import Scoring, believed, byte_floor
from warpsmith.judge.verdict import failed
from warpsmith.sandbox import by_name
from warpsmith.store.files import write_atomic
from warpsmith.types import Accuracy, Device, Phase, Status, Verdict
from warpsmith.types.protocols import Menu, SandboxUser

PATIENCE = 0.6
"""Of a judgement's time, for all answers of the candidate: its end without a verdict would be infrastructure's."""


def prepare(root: Path) -> Callable[[], None]:
    """Start what needs no device and no submission; the function that is returned judges the job in `root`.

    Between the two the candidate's process, isolated and empty-handed, loads its libraries, and so does this one.
    """
    # What is shared with runners, who are another user, must be readable to them; `root` itself is closed.
    os.umask(0o022)
    folder = JobFolder(root)
    setup = folder.read_setup()
    stack = ExitStack()
    start = Starter(folder, setup, stack)
    candidate = start.runner("the candidate", folder.candidate)
    observer = threading.Thread(target=_lay_out_observer, args=(setup, folder), daemon=True)
    observer.start()
    import warpsmith.judge.session  # noqa: F401 - torch is loaded here, beside the candidate's process

    # What is loaded by now stays: collecting before a measurement then takes no time.
    gc.freeze()

    def judge() -> None:
        observer.join()
        run(folder, start, candidate, stack)

    return judge


def _lay_out_observer(setup: RefereeSetup, folder: JobFolder) -> None:
    """The observer's libraries for every runner; compiled where this is the machine's first judgement."""
    if setup.observer_dir:
        # one CUPTI a process: compute-sanitizer has it
        without = {KERNELS: "compute-sanitizer watches the candidate"}
        lay_out(
            Path(setup.observer_dir),
            folder.observer,
            without if setup.instrument is Instrument.MEMCHECK else {},
        )


def run(folder: JobFolder, start: "Starter", candidate: RunnerProcess, stack: ExitStack) -> None:
    """Judge the job; every outcome, also a failure, is a verdict in `verdict.json`."""
    referee = Referee(folder, start, folder.read_job())
    with stack:
        try:
            verdict = referee.judge(candidate)
        except WarpsmithError as error:
            verdict = referee.failed(error)
    # Written only now, when no runner is left that could touch it.
    write_atomic(folder.verdict, verdict.model_dump_json())


class Starter:
    """Starts runners; all of them are gone when `stack` is closed."""

    def __init__(self, folder: JobFolder, setup: RefereeSetup, stack: ExitStack):
        self.setup = setup
        self._folder, self._stack = folder, stack
        self._sandbox = by_name(setup.sandbox)

    def runner(self, name: str, readable: Path) -> RunnerProcess:
        """A runner that sees `readable` and `share/`; one for a baseline also keeps torch.compile's caches."""
        trusted = readable == self._folder.baseline
        caches = self.setup.compile_cache_dir
        variables = {"TORCHINDUCTOR_CACHE_DIR": f"{caches}/inductor", "TRITON_CACHE_DIR": f"{caches}/triton"}
        spec = RunnerSpec(
            name=name,
            device=self.setup.device,
            read_only=(*self.setup.own_paths, str(readable), str(self._folder.share)),
            writable=(caches,) if trusted else (),
            environment=tuple(variables.items()) if trusted else (),
            # what one baseline compiles, the next finds
            user=SandboxUser.SHARED if trusted else SandboxUser.OWN,
        )
        if not trusted:
            spec = instrumented(self.setup.instrument, spec, self._folder)
        runner = RunnerProcess(spec, self._sandbox, readable, self.setup.forks)
        self._stack.callback(runner.close)
        return runner


class Referee:
    """One judgement's course."""

    def __init__(self, folder: JobFolder, start: Starter, job: RefereeJob):
        self.folder, self.start, self.job, self.settings = folder, start, job, job.settings
        self.cuda = self.settings.device is Device.CUDA
        self.gpu = leased_gpu() if self.cuda else None
        self.machine = describe_machine(self.settings.device, self.gpu, start.setup.sandbox)
        self.session = None
        self.scoring = Scoring(
            self.settings, job.task_hash, self.machine,
            store=BaselineStore(Path(start.setup.baseline_dir)),
            start=lambda name: start.runner(name, folder.baseline),
            begun=time.monotonic(),
        )  # fmt: skip

    def judge(self, candidate: RunnerProcess) -> Verdict:
        """All phases, thin to read: admit, check, time, baselines."""
        measuring = self.cuda and self.settings.measure
        if measuring:
            self.scoring.begin()
        from warpsmith.judge.session import Session

        self.session = session = Session(self.folder, self.job, self._report)
        with _TasksMemory():
            candidate.give_device()
            candidate.patience_s = PATIENCE * self.settings.timeout_s
            session.admit(self.folder.task.read_text())
            session.await_build()
            with room(TorchMemory(), candidate.close):
                with explained(session, candidate):
                    session.correctness(candidate)
                timed = session.timing(candidate) if measuring else None
                matching = measuring and self.settings.baselines is not Menu.PAPER
                accuracy = session.accuracy(candidate) if matching else None
            if measuring:
                self._score(candidate, timed, accuracy)
            else:
                session.last_checks(candidate)
                candidate.close()
            session.close_phase()
            return self._conclude(timed, accuracy)

    def failed(self, error: WarpsmithError) -> Verdict:
        """The verdict for what ended the judgement, with all that was found before."""
        from warpsmith.judge.session import Findings

        found = Findings()
        if self.session:
            self.session.close_phase()
            found = self.session.findings
        return failed(
            error, found.phase, task_hash=self.job.task_hash, submission_hash=self.job.submission_hash,
            settings=self.settings, error=found.error, paper_gate=found.paper_gate, scale_gate=found.scale_gate,
            checks=tuple(found.checks), notes=tuple(found.notes), machine=self.machine, seconds=found.seconds,
            evidence=found.ran.evidence(),
        )  # fmt: skip

    def _score(self, candidate: RunnerProcess, timed: Samples, accuracy: Accuracy | None) -> None:
        """Baselines are measured when no process of the candidate is left, which could slow them.

        Then, where a ratio is close, in turn with the candidate: in a fresh process of it, if it had to go.
        """
        session, scoring = self.session, self.scoring
        alive = scoring.known(session, accuracy)
        if not alive:
            session.last_checks(candidate)
            candidate.close()
            scoring.measure(session, accuracy)
        if self.settings.interleave and not timed.unstable:
            stats = time_stats(timed, scoring.null_ms())
            close = scoring.close_calls(stats, accuracy, prepares=session.prepares)
            if close and not alive:
                candidate = self.start.runner("the candidate", self.folder.candidate)
                candidate.patience_s = PATIENCE * self.settings.timeout_s
                session.resubmit(candidate)
            for entry in close:
                scoring.again(session, candidate, entry)
        if alive:
            session.last_checks(candidate)
        candidate.close()

    def _conclude(self, timed: Samples | None, accuracy: Accuracy | None) -> Verdict:
        session = self.session
        found = session.findings
        fields, status, detail = {}, Status.PASSED, f"correct on all {found.calls} calls checked"
        if timed is not None:
            from warpsmith.judge.timing.roofline import roofline

            seen = found.ran.evidence()
            candidate = with_kernels(time_stats(timed, self.scoring.null_ms()), seen and seen.device_ms)
            traffic = session.traffic()
            floor = byte_floor(traffic, candidate, self.gpu)
            told = {"floor": floor, "roofline": roofline(traffic, floor, candidate, self.gpu)}
            found.checks.append(self.scoring.baseline_aa())
            fields = self.scoring.ratios(candidate, accuracy, prepares=session.prepares) | told
            if doubted := believed(candidate, timed, floor):
                status, detail = doubted
        return Verdict(
            status=status, device=self.settings.device, rules=self.settings.rules,
            task_hash=self.job.task_hash, submission_hash=self.job.submission_hash,
            phase=Phase.DONE, detail=detail, error=found.error, paper_gate=found.paper_gate,
            scale_gate=found.scale_gate, checks=tuple(found.checks), accuracy=accuracy,
            evidence=found.ran.evidence(),
            notes=(*found.notes, *session.closing_notes(), *self.scoring.problems()), machine=self.machine,
            seconds=dict(found.seconds), **fields,
        )  # fmt: skip

    def _report(self, phase: Phase, what: str) -> None:
        self.folder.progress.write_text(f"{phase.value}\t{what}")


class _TasksMemory:
    """Out of memory in this process means that the task does not fit beside its check."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type | None, error: BaseException | None, trace: object) -> None:
        import torch

        from warpsmith.errors import TaskUnsupportedError

        if isinstance(error, torch.OutOfMemoryError):
            raise TaskUnsupportedError(
                "the task and its check need more memory than this device has",
                hint="judge it on a larger GPU",
            ) from error
