"""A machine without nvcc, or without CUDA headers: made from this one by covering them, which needs root."""

import json
import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest
from tests.cli.real import JUDGE, command, environment, error_line, lay_out

BUILD = """
from warpsmith.cli.errors import report_error
from warpsmith.compile import LocalCompiler
from warpsmith.types import Device, Submission, Target
submission = Submission(files={"model_new.py": "", "k.cu": 'extern "C" void f_launcher(float* x, cudaStream_t s) {}'})
try:
    LocalCompiler().build(submission, Target(device=Device.CUDA, arch="sm_90"))
except Exception as error:
    raise SystemExit(report_error(error))
"""


def without(
    folder: Path, covered: list[Path], argv: list[str], **env: str
) -> "subprocess.CompletedProcess[str]":
    """Runs a command while the folders `covered` are empty for it."""
    covers = "".join(f"mount -t tmpfs tmpfs {path} && " for path in covered)
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", f'{covers}touch covered; exec "$@"', "sh", *argv],
        cwd=folder,
        env={**environment(folder / "cache"), "CUDA_HOME": "", "CUDA_PATH": "", **env},
        capture_output=True,
        text=True,
        timeout=280,
        stdin=subprocess.DEVNULL,
    )
    if not (folder / "covered").exists():
        pytest.skip(f"may not mount: {done.stderr.strip()}")
    return done


def toolkits() -> list[Path]:
    """The folders of CUDA toolkits, links followed."""
    return sorted({path.resolve() for path in Path("/usr/local").glob("cuda*") if path.is_dir()})


@pytest.fixture(autouse=True)
def able() -> None:
    """Skips where there is no `unshare`, or the system itself carries CUDA."""
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare of util-linux")
    if Path("/usr/bin/nvcc").exists() or Path("/usr/include/cuda_runtime_api.h").exists():
        pytest.skip("the system's own packages carry CUDA here")


def test_a_gpu_build_without_nvcc(tmp_path: Path) -> None:
    python = command()[0]
    path = os.pathsep.join(("/usr/bin", "/bin"))
    done = without(tmp_path, toolkits(), [python, "-c", BUILD], PATH=path)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "no nvcc found in $CUDA_HOME, /usr/local/cuda or PATH; install the CUDA" in error_line(done.stderr)


def test_a_judgement_on_the_simulator_without_cuda_headers(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    lay_out(tmp_path)
    sites = {Path(sysconfig.get_path(name)) / "nvidia" for name in ("purelib", "platlib")}
    # torch's own libraries stay: headers alone are covered
    headers = [path for site in sites for path in (*site.glob("cu[0-9]*/include"), *site.glob("*/include"))]
    done = without(tmp_path, [*toolkits(), *headers], command(*JUDGE))
    assert done.returncode == 3, done.stdout + done.stderr
    assert json.loads(done.stdout)["status"] == "infrastructure"
    line = error_line(done.stderr)
    assert "no CUDA headers" in line and "set CUDA_HOME, or: pip install nvidia-cuda-runtime" in line
