"""The referee's process: reads a job's folder, writes one verdict into it.

Runners start before this process has loaded torch itself, so that both load at the same time.
"""

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from warpsmith.errors import (
    CandidateTimedOutError,
    SubmissionError,
    WarpsmithError,
)
from warpsmith.gpu.devices import GpuInfo, bandwidth_gb_s
from warpsmith.judge.baselines import MODES, BaselineStore, identity, measured
from warpsmith.judge.clock import Samples, time_stats
from warpsmith.judge.job import JobFolder, RefereeJob, RefereeSetup
from warpsmith.judge.machine import describe_machine, leased_gpu
from warpsmith.judge.process import RunnerProcess, RunnerSpec
from warpsmith.judge.verdict import failed
from warpsmith.sandbox import by_name
from warpsmith.store.files import write_atomic
from warpsmith.types import (
    ByteFloor,
    Device,
    PaperSpeedup,
    Phase,
    Speedup,
    Status,
    TimeStats,
    Timings,
    Verdict,
)

IMPLAUSIBLE = 0.9
"""A time below this share of what the output's bytes alone take cannot be right."""


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
    import warpsmith.judge.session  # noqa: F401 - torch is loaded here, beside the candidate's process

    return lambda: run(folder, start, candidate, stack)


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
        )
        runner = RunnerProcess(spec, self._sandbox, readable)
        self._stack.callback(runner.close)
        return runner


class Referee:
    """One judgement's course."""

    def __init__(self, folder: JobFolder, start: Starter, job: RefereeJob):
        self.folder, self.start, self.job, self.settings = folder, start, job, job.settings
        self.cuda = self.settings.device is Device.CUDA
        self.gpu = leased_gpu() if self.cuda else None
        self.machine = describe_machine(self.settings.device, self.gpu, start.setup.sandbox)
        self.baselines = BaselineStore(Path(start.setup.baseline_dir))
        self.session = None
        self.known: dict[str, TimeStats | None] = {}
        self.problems: list[str] = []

    def judge(self, candidate: RunnerProcess) -> Verdict:
        """All phases, thin to read: admit, check, time, baselines."""
        missing = self._missing_baselines()
        runners = {mode: self.start.runner(f"the {mode} baseline", self.folder.baseline) for mode in missing}
        from warpsmith.judge.session import Session

        self.session = session = Session(self.folder, self.job, self._report)
        with _TasksMemory():
            session.admit(self.folder.task.read_text())
            session.correctness(candidate)
            timed = session.timing(candidate) if self.cuda and self.settings.measure else None
            session.held_out(candidate)
            candidate.close()
            for mode, runner in runners.items():
                self._measure_baseline(mode, runner)
            session.close_phase()
            return self._conclude(timed)

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
        )  # fmt: skip

    def _missing_baselines(self) -> list[str]:
        if not (self.cuda and self.settings.measure):
            return []
        for mode in MODES:
            found = self.baselines.get(identity(self.job.task_hash, mode, self.machine))
            if found is not None:
                self._know(mode, found.stats, found.problem)
        return [mode for mode in MODES if mode not in self.known]

    def _measure_baseline(self, mode: str, runner: RunnerProcess) -> None:
        wanted = identity(self.job.task_hash, mode, self.machine)
        try:
            samples, null_ms = self.session.baseline(runner, mode)
            found = measured(wanted, time_stats(samples, null_ms))
        except SubmissionError as error:
            timed_out = isinstance(error, CandidateTimedOutError)
            found = measured(wanted, None, f"{'timed out' if timed_out else 'failed'}: {error}")
        finally:
            runner.close()
        self.baselines.put(found)
        self._know(mode, found.stats, found.problem)

    def _know(self, mode: str, stats: TimeStats | None, problem: str) -> None:
        self.known[mode] = stats
        if stats is None:
            self.problems.append(f"baseline {mode} {problem}")

    def _conclude(self, timed: Samples | None) -> Verdict:
        found = self.session.findings
        fields = {}
        status, detail = Status.PASSED, f"correct on all {found.calls} calls checked"
        if timed is not None:
            null_ms = next((s.null_ms for s in self.known.values() if s is not None), 0.0)
            candidate = time_stats(timed, null_ms)
            fields = self._times(candidate)
            floor = fields["floor"]
            if floor is not None and candidate.median_ms < IMPLAUSIBLE * _written_ms(floor, self.gpu):
                status = Status.UNSTABLE
                detail = f"{candidate.median_ms:.4g} ms is less than writing the output takes: not believed"
        return Verdict(
            status=status, device=self.settings.device, rules=self.settings.rules,
            task_hash=self.job.task_hash, submission_hash=self.job.submission_hash,
            phase=Phase.DONE, detail=detail, error=found.error, paper_gate=found.paper_gate,
            scale_gate=found.scale_gate, checks=tuple(found.checks),
            notes=(*found.notes, *self.session.closing_notes(), *self.problems), machine=self.machine,
            seconds=dict(found.seconds), **fields,
        )  # fmt: skip

    def _times(self, candidate: TimeStats) -> dict:
        eager, compiled = self.known.get("eager"), self.known.get("compile")
        paper = PaperSpeedup(
            eager=eager.median_ms / candidate.median_ms if eager else None,
            compile=compiled.median_ms / candidate.median_ms if compiled else None,
        )
        bandwidth = bandwidth_gb_s(self.gpu.name)
        floor = None
        if bandwidth is not None:
            read, written = self.session.traffic()
            floor_ms = (read + written) / bandwidth / 1e6
            floor = ByteFloor(
                read_bytes=read, written_bytes=written, bandwidth_gb_s=bandwidth,
                floor_ms=floor_ms, share=floor_ms / candidate.median_ms,
            )  # fmt: skip
        return {
            "timings": Timings(candidate=candidate, eager=eager, compile=compiled),
            "speedup": Speedup(paper=paper),
            "floor": floor,
        }

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


def _written_ms(floor: ByteFloor, gpu: GpuInfo | None) -> float:
    """Least time in ms to write the output; what the L2 cache can still hold is left out."""
    import torch

    cached = torch.cuda.get_device_properties(0).L2_cache_size
    return max(0, floor.written_bytes - cached) / floor.bandwidth_gb_s / 1e6
