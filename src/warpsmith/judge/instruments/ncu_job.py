"""The job that profiles a submission: it draws weights and inputs, then runs ncu around an isolated process.

Runs on a leased GPU, as a referee does, after the verdict. Neither ncu nor what it watches is believed beyond its
form: the table lies where the submission could write.
"""

import os
import secrets
import sys
from pathlib import Path

import torch

from warpsmith.errors import WarpsmithError
from warpsmith.judge.instruments import ncu_runner, ncu_table
from warpsmith.judge.instruments.ncu_request import ProfileRequest
from warpsmith.judge.job import JobFolder
from warpsmith.judge.reference.model import Reference
from warpsmith.judge.runner import loopback
from warpsmith.judge.runner.forkserver import KEPT_ENVIRONMENT
from warpsmith.judge.runner.process import describe_exit
from warpsmith.sandbox import by_name
from warpsmith.sandbox.process import ProcessEnd, run_tree
from warpsmith.sim.sanitizer import report_texts
from warpsmith.store.files import write_atomic
from warpsmith.types import Device, ProfileReport
from warpsmith.types.protocols import SandboxSpec

NOT_PERMITTED = (
    "this user may not read the GPU's performance counters: load the driver with the module option"
    " NVreg_RestrictProfilingToAdminUsers=0 (https://developer.nvidia.com/ERR_NVGPUCTRPERM)"
)
_TABLE = "ncu"


def run(root: Path) -> None:
    """Profiles the submission in `root`; whatever comes of it is in `report.json`."""
    # what is shared with the watched process, another user, must be readable to it; `root` itself is closed
    os.umask(0o022)
    folder = JobFolder(root)
    request = ProfileRequest.model_validate_json((root / "profile.json").read_text())
    try:
        report = _profiled(folder, request, _draw(folder))
    except WarpsmithError as error:
        report = ProfileReport(problem=str(error))
    write_atomic(root / "report.json", report.model_dump_json())


def _draw(folder: JobFolder) -> int:
    """Constructor arguments, weights and one set of fresh inputs into `share/`; the seed that they are drawn from."""
    seed = secrets.randbits(62)
    reference = Reference.load(folder.task.read_text(), folder.task, "cpu")
    arguments = reference.init_args()
    torch.save(arguments, folder.share / ncu_runner.INIT)
    torch.save(reference.new_model(seed, arguments).state_dict(), folder.share / ncu_runner.STATE)
    torch.save(reference.draw_inputs(seed), folder.share / ncu_runner.INPUTS)
    return seed


def _profiled(folder: JobFolder, request: ProfileRequest, seed: int) -> ProfileReport:
    table = folder.reports / f"{_TABLE}.csv"
    argv = [
        sys.executable, "-I", "-m", loopback.__name__,
        *ncu_table.launcher(request.tool, table),
        sys.executable, "-I", "-m", ncu_runner.__name__,
        str(folder.candidate), str(folder.share), str(seed), request.device.value,
    ]  # fmt: skip
    boundary = SandboxSpec(
        cwd=str(folder.candidate),
        read_only=(
            *request.own_paths, *ncu_table.folders(request.tool), str(folder.candidate), str(folder.share),
        ),
        writable=(str(folder.reports),),
        gpu=request.device is Device.CUDA,
    )  # fmt: skip
    kept = (*KEPT_ENVIRONMENT, "CUDA_VISIBLE_DEVICES")
    environment = {k: os.environ[k] for k in kept if k in os.environ}
    environment |= {"HOME": "/tmp", "PYTHONDONTWRITEBYTECODE": "1", "LC_ALL": "C.UTF-8"}
    command = by_name(request.sandbox).command(argv, boundary)
    end = run_tree(command, timeout_s=request.timeout_s, cwd=folder.candidate, env=environment)
    return _report(end, "\n".join(report_texts(folder.reports / _TABLE)), request.timeout_s)


def _report(end: ProcessEnd, log: str, timeout_s: float) -> ProfileReport:
    if end.timed_out:
        return ProfileReport(
            problem=f"it did not end within {timeout_s:g} s, so {ncu_table.NAME} wrote no table"
        )
    if ncu_table.not_permitted(log + end.output):
        return ProfileReport(problem=NOT_PERMITTED)
    if not end.ok:
        printed = end.tail.strip().splitlines()
        said = [
            ncu_table.remark(log),
            f"the last line printed: {ncu_table.remark(printed[-1]) or printed[-1]}" if printed else "",
        ]
        why = "; ".join(text[:300] for text in said if text)
        return ProfileReport(problem=f"{ncu_table.NAME} {describe_exit(end)}" + (f": {why}" if why else ""))
    try:
        kernels = ncu_table.read_table(log)
    except ncu_table.TableError as error:
        return ProfileReport(problem=f"{ncu_table.NAME}'s table cannot be read: {error}")
    if not kernels:
        return ProfileReport(problem=f"{ncu_table.NAME} saw no kernel")
    return ProfileReport(kernels=kernels)
