"""The compiler of this machine, with its cache."""

import json
import os
import shutil
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from warpsmith.compile.backends import Backend, backend_for
from warpsmith.compile.binding import MODULE, write_binding
from warpsmith.compile.cache import Cache, Entry
from warpsmith.compile.collection import collect
from warpsmith.compile.extensions import FOLDER, INDEX
from warpsmith.compile.isolation import default_sandbox, lay_out, take
from warpsmith.compile.launchers import SUFFIX, Launcher
from warpsmith.compile.log import trimmed, undefined_references
from warpsmith.compile.plan import Plan, Unit, Whole, plan_whole, raw_key
from warpsmith.compile.process import MAX_FILE_BYTES, BuildTimedOutError, Processes
from warpsmith.compile.ptxas import split_report
from warpsmith.compile.requests import ExtensionRequest
from warpsmith.compile.toolchain import EXPORTED_SYMBOLS
from warpsmith.errors import CompileFailedError, SubmissionUnsupportedError
from warpsmith.store.paths import cache_root
from warpsmith.types import CompileResult, CompileStatus, Submission, Target, Task
from warpsmith.types.protocols import Sandbox

_OBJECT = "unit.o"
_OBJECTS, _BUILDS = "objects", "builds"
_PYTHON = ("Py", "_Py")
"""The interpreter, not a library, has these."""


class LocalCompiler:
    """Builds submissions here. Equal builds come from `cache_dir`, shared safely between processes.

    `jobs`: translation units compiled at once, by default min(CPUs, 8). `timeout_s`: for one whole build.
    `sandbox`: where compilers read a submission's sources, and where its code is asked which extensions it builds;
    by default the best that works here.
    """

    def __init__(
        self,
        cache_dir: Path | None = None,
        jobs: int | None = None,
        timeout_s: float = 300,
        sandbox: Sandbox | None = None,
    ):
        self._cache = Cache(Path(cache_dir).absolute() if cache_dir is not None else cache_root() / "compile")
        self._jobs = jobs or min(len(os.sched_getaffinity(0)), 8)
        self._timeout_s = timeout_s
        self._sandbox = sandbox

    def build(self, submission: Submission, target: Target, task: Task | None = None) -> CompileResult:
        """Builds `submission` for `target`; the submission's own faults become the result's status and log.

        `task` tells the arguments of the constructor, where that is what calls `load_inline`.

        `build_dir` holds `cuda_extension`, where the submission has sources for it, and what its calls of
        `load_inline` and `load` will be given (`warpsmith.compile.extensions`).

        Raises InfrastructureError with a hint (no compiler, no CUDA headers, disk full, cache not writable,
        architecture unknown to the toolkit) and UsageError for a target that makes no sense.
        """
        started = time.monotonic()
        backend = backend_for(target)
        key = raw_key(submission, target.device, target.arch)
        try:
            requests = collect(submission, target, self._cache, self._isolation, task)
            whole = plan_whole(
                submission, backend, requests, lambda arch: _variant(target, arch), target.arch
            )
            key = whole.key
            found = self._cache.lookup(_BUILDS, key)
            entry = found or self._build(whole, backend)
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

    @property
    def _isolation(self) -> Sandbox:
        return self._sandbox or default_sandbox()

    def _build(self, whole: Whole, backend: Backend) -> Entry:
        with self._cache.workspace() as folder:
            parts = self._parts(whole.plans, backend, folder)
            if whole.extension is not None and whole.key == whole.extension.key:
                return parts[whole.key]
            files = folder / "files"
            files.mkdir()
            if whole.extension is not None:
                shutil.copytree(parts[whole.extension.key].files, files, dirs_exist_ok=True)
            if whole.calls is not None:
                _lay_out_calls(whole.calls, parts, files)
            log = "\n".join(text for part in parts.values() if (text := part.manifest.log))
            kernels = tuple(kernel for part in parts.values() for kernel in part.manifest.kernels)
            return self._cache.publish(_BUILDS, whole.key, files, trimmed(log), kernels)

    def _parts(self, plans: tuple[Plan, ...], backend: Backend, folder: Path) -> dict[str, Entry]:
        """Plan key → its library."""
        parts = {plan.key: entry for plan in plans if (entry := self._cache.lookup(_BUILDS, plan.key))}
        missing = [plan for plan in plans if plan.key not in parts]
        processes = Processes(self._timeout_s, self._isolation)
        units = {unit.key: unit for plan in missing for unit in plan.units}
        objects = self._objects(units, processes, folder)
        for number, plan in enumerate(missing):
            place = folder / f"link{number}"
            files = place / "files"
            files.mkdir(parents=True)
            entries = [objects[unit.key] for unit in plan.units]
            self._link(plan, entries, processes, files)
            if plan.launchers is not None:
                bound = self._bound(plan.launchers, plan.output, processes, files)
                (files / MODULE).write_text(write_binding(bound, plan.device))
            log = trimmed("\n".join(entry.manifest.log for entry in entries), (folder,))
            kernels = tuple(kernel for entry in entries for kernel in entry.manifest.kernels)
            parts[plan.key] = self._cache.publish(_BUILDS, plan.key, files, log, backend.readable(kernels))
        return parts

    def _objects(self, units: Mapping[str, Unit], processes: Processes, folder: Path) -> dict[str, Entry]:
        """Unit key → its object. Raises CompileFailedError with all units' errors."""
        with ThreadPoolExecutor(self._jobs) as pool:
            futures = {
                key: pool.submit(self._object, unit, processes, folder / str(number))
                for number, (key, unit) in enumerate(units.items())
            }
            try:
                results = {key: future.result() for key, future in futures.items()}
            except BaseException:
                # Ctrl-C too: nothing may run on
                processes.give_up()
                raise
        if failed := [output for output in results.values() if isinstance(output, str)]:
            raise CompileFailedError("the sources do not compile", log=trimmed("\n".join(failed), (folder,)))
        return {key: entry for key, entry in results.items() if isinstance(entry, Entry)}

    def _object(self, unit: Unit, processes: Processes, folder: Path) -> Entry | str:
        """The object of one unit, or what the compiler said against it."""
        if (entry := self._cache.lookup(_OBJECTS, unit.key)) is not None:
            return entry
        sources, made, out, written = (folder / name for name in ("sources", "object", "out", "written"))
        made.mkdir(parents=True)
        out.mkdir()
        lay_out(unit.tree, sources)
        cwd, prefix = sources, ""
        if unit.written is not None:
            # `#line` names are looked up from here
            lay_out(unit.written, written)
            cwd, prefix = written, "../sources/"
        argv = [*unit.argv, prefix + unit.path, "-o", f"../{out.name}/{_OBJECT}"]
        ran = processes.compile(argv, cwd, sources, out)
        kernels, output = split_report(ran.output)
        output = output.replace("../sources/", "").replace(f"{sources}/", "")
        if ran.exit_code or not take(out / _OBJECT, made / _OBJECT, MAX_FILE_BYTES):
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


def _variant(target: Target, arch: str) -> Backend:
    return backend_for(target.model_copy(update={"arch": arch}))


def _lay_out_calls(
    calls: tuple[tuple[ExtensionRequest, Plan], ...], parts: Mapping[str, Entry], files: Path
) -> None:
    """The libraries, and the index by which a call finds its own."""
    index = {}
    for request, plan in calls:
        folder = f"{FOLDER}/{plan.key[:16]}"
        index[request.content_hash] = f"{folder}/{plan.output}"
        if not (files / folder).exists():
            (files / folder).mkdir(parents=True)
            shutil.copyfile(parts[plan.key].files / plan.output, files / folder / plan.output)
    (files / FOLDER).mkdir(exist_ok=True)
    (files / INDEX).write_text(json.dumps(index, sort_keys=True))
