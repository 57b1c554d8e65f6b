"""The compiler of this machine, with its cache."""

import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from warpsmith.compile.backends import Backend, backend_for
from warpsmith.compile.binding import MODULE, write_binding
from warpsmith.compile.cache import Cache, Entry
from warpsmith.compile.launchers import SUFFIX, Launcher
from warpsmith.compile.log import trimmed, undefined_references
from warpsmith.compile.plan import Plan, Unit, plan_build, raw_key
from warpsmith.compile.process import BuildTimedOutError, Processes
from warpsmith.compile.ptxas import split_report
from warpsmith.compile.toolchain import EXPORTED_SYMBOLS
from warpsmith.errors import CompileFailedError, SubmissionUnsupportedError
from warpsmith.store.paths import cache_root
from warpsmith.types import CompileResult, CompileStatus, Submission, Target, sha256_hex

_OBJECT = "unit.o"
_OBJECTS, _BUILDS = "objects", "builds"
_PYTHON = ("Py", "_Py")
"""The interpreter, not a library, has these."""
_NOTHING = sha256_hex("nothing to build")


class LocalCompiler:
    """Builds submissions here. Equal builds come from `cache_dir`, shared safely between processes.

    `jobs`: translation units compiled at once, by default min(CPUs, 8). `timeout_s`: for one whole build.
    """

    def __init__(self, cache_dir: Path | None = None, jobs: int | None = None, timeout_s: float = 300):
        self._cache = Cache(Path(cache_dir).absolute() if cache_dir is not None else cache_root() / "compile")
        self._jobs = jobs or min(len(os.sched_getaffinity(0)), 8)
        self._timeout_s = timeout_s

    def build(self, submission: Submission, target: Target) -> CompileResult:
        """Builds `submission` for `target`; the submission's own faults become the result's status and log.

        Raises InfrastructureError with a hint (no compiler, no CUDA headers, disk full, cache not writable,
        architecture unknown to the toolkit) and UsageError for a target that makes no sense.
        """
        started = time.monotonic()
        backend = backend_for(target)
        key = raw_key(submission, target.device, target.arch)
        try:
            plan = plan_build(submission, backend)
            key = plan.key if plan else _NOTHING
            found = self._cache.lookup(_BUILDS, key)
            entry = found or (self._build(plan, backend) if plan else self._empty())
        except CompileFailedError as error:
            status, log = CompileStatus.FAILED, error.log or str(error)
        except SubmissionUnsupportedError as error:
            status, log = CompileStatus.UNSUPPORTED, str(error)
        except BuildTimedOutError:
            status, log = CompileStatus.TIMED_OUT, f"the build took longer than {self._timeout_s:g} s"
        else:
            return CompileResult(
                status=CompileStatus.OK,
                key=key,
                build_dir=str(entry.files),
                log=entry.manifest.log,
                seconds=time.monotonic() - started,
                cached=found is not None,
                kernels=entry.manifest.kernels,
            )
        return CompileResult(status=status, key=key, log=log, seconds=time.monotonic() - started)

    def _build(self, plan: Plan, backend: Backend) -> Entry:
        processes = Processes(self._timeout_s)
        with self._cache.workspace() as folder:
            objects = self._objects(plan, processes, folder)
            files = folder / "files"
            files.mkdir()
            self._link(plan, objects, processes, files)
            if plan.launchers is not None:
                bound = self._bound(plan.launchers, plan.output, processes, files)
                (files / MODULE).write_text(write_binding(bound, plan.device))
            log = trimmed("\n".join(entry.manifest.log for entry in objects), (folder,))
            kernels = tuple(kernel for entry in objects for kernel in entry.manifest.kernels)
            return self._cache.publish(_BUILDS, plan.key, files, log, backend.readable(kernels))

    def _empty(self) -> Entry:
        with self._cache.workspace() as folder:
            files = folder / "files"
            files.mkdir()
            return self._cache.publish(_BUILDS, _NOTHING, files)

    def _objects(self, plan: Plan, processes: Processes, folder: Path) -> list[Entry]:
        """Every unit's object, in order. Raises CompileFailedError with all units' errors."""
        with ThreadPoolExecutor(self._jobs) as pool:
            futures = [
                pool.submit(self._object, unit, processes, folder / str(number))
                for number, unit in enumerate(plan.units)
            ]
            try:
                results = [future.result() for future in futures]
            except BaseException:
                # Ctrl-C too: nothing may run on
                processes.give_up()
                raise
        if failed := [output for output in results if isinstance(output, str)]:
            raise CompileFailedError("the sources do not compile", log=trimmed("\n".join(failed), (folder,)))
        return [entry for entry in results if isinstance(entry, Entry)]

    def _object(self, unit: Unit, processes: Processes, folder: Path) -> Entry | str:
        """The object of one unit, or what the compiler said against it."""
        if (entry := self._cache.lookup(_OBJECTS, unit.key)) is not None:
            return entry
        sources, made, written = folder / "sources", folder / "object", folder / "written"
        made.mkdir(parents=True)
        _lay_out(unit.tree, sources)
        cwd, prefix = sources, ""
        if unit.written is not None:
            # `#line` names are looked up from here
            _lay_out(unit.written, written)
            cwd, prefix = written, "../sources/"
        ran = processes.run([*unit.argv, prefix + unit.path, "-o", f"../object/{_OBJECT}"], cwd)
        kernels, output = split_report(ran.output)
        output = output.replace("../sources/", "").replace(f"{sources}/", "")
        if ran.exit_code or not (made / _OBJECT).is_file():
            self._cache.check_space()
            return output or f"{unit.path}: error: the compiler ended with status {ran.exit_code}"
        return self._cache.publish(_OBJECTS, unit.key, made, output, kernels)

    def _link(self, plan: Plan, objects: list[Entry], processes: Processes, files: Path) -> None:
        names = []
        for unit, entry in zip(plan.units, objects, strict=True):
            # the linker's messages name what it is given
            name = unit.path.replace("/", "_") + ".o"
            (files.parent / name).symlink_to(entry.files / _OBJECT)
            names.append(name)
        output = f"{files.name}/{plan.output}"
        ran = processes.run([*plan.link, "-o", output, *names, *plan.libraries], files.parent)
        if ran.exit_code or not (files / plan.output).is_file():
            self._cache.check_space()
            log = trimmed(ran.output, (files.parent,)) or f"the linker ended with status {ran.exit_code}"
            raise CompileFailedError("the objects do not link", log=log)
        missing = [name for name in undefined_references(ran.output) if not name.startswith(_PYTHON)]
        if missing:
            raise CompileFailedError(
                f"undefined: {', '.join(missing[:10])}; define it, or match the declaration "
                '(`extern "C"` on both sides, the same parameters)'
            )

    def _bound(
        self, launchers: tuple[Launcher, ...], library: str, processes: Processes, files: Path
    ) -> tuple[Launcher, ...]:
        """The launchers that the library really has: one under `#if 0` is parsed, but not there."""
        ran = processes.run([*EXPORTED_SYMBOLS, library], files)
        exported = {line.split()[-1] for line in ran.output.splitlines() if " T " in line}
        unknown = sorted(s for s in exported if s.endswith(SUFFIX)) if not ran.exit_code else []
        unknown = [s for s in unknown if s not in {launcher.symbol for launcher in launchers}]
        if unknown:
            raise CompileFailedError(
                f'cannot read the signature of {unknown[0]}; write `extern "C" void {unknown[0]}(…)` out, '
                "without macros"
            )
        bound = tuple(launcher for launcher in launchers if launcher.symbol in exported)
        if not bound:
            raise CompileFailedError(
                f'no `extern "C" void NAME{SUFFIX}(…, cudaStream_t stream)` in any .cu file'
            )
        return bound


def _lay_out(files: Mapping[str, str], folder: Path) -> None:
    folder.mkdir()
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, newline="")
