"""The commands on the real judge, compiler and policy, on the simulator."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.real import JUDGE, KERNEL, error_line, lay_out, warpsmith

pytest.importorskip("torch")

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def cache(shared_caches: Path) -> Path:
    return shared_caches


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return lay_out(tmp_path)


def test_judge_passes_a_right_kernel(folder: Path, cache: Path) -> None:
    done = warpsmith(folder, cache, *JUDGE)
    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads(done.stdout)
    assert (answer["status"], answer["reward"], answer["device"]) == ("passed", 1, "sim")
    assert answer["speedup"] is None and answer["error"]["rel"] < 1e-6


@pytest.mark.parametrize(
    ("kernel", "status"),
    [
        (KERNEL.replace("2.0f * x[i]", "2.1f * x[i]"), "wrong"),
        (KERNEL.replace("i < n", "i < n / 2"), "wrong"),
        (KERNEL.replace("blockIdx.x *", "blockIdx.q *"), "compile_failed"),
    ],
)
def test_judge_says_what_is_wrong(folder: Path, cache: Path, kernel: str, status: str) -> None:
    (folder / "sub" / "kernels" / "axpy.cu").write_text(kernel)
    done = warpsmith(folder, cache, *JUDGE)
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["status"], answer["reward"]) == (1, status, -1)
    assert answer["detail"]


@pytest.mark.parametrize(
    ("cache_path", "extra", "said"),
    [
        ("{tmp}/fresh", {"PATH": "", "CXX": ""}, "install g++"),
        ("/proc/nowhere", {}, "set WARPSMITH_CACHE"),
    ],
)
def test_a_machine_that_cannot_judge_is_infrastructure(
    folder: Path, cache_path: str, extra: dict[str, str], said: str
) -> None:
    done = warpsmith(folder, cache_path.format(tmp=folder), *JUDGE, **extra)
    assert done.returncode == 3
    assert json.loads(done.stdout)["status"] == "infrastructure"
    assert said in error_line(done.stderr)


@pytest.mark.slow
def test_optimize_an_example_and_use_the_result(folder: Path, cache: Path) -> None:
    example = str(EXAMPLES / "gated_norm.py")
    done = warpsmith(folder, cache, "optimize", example, "--device", "sim", "--out", "result", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads(done.stdout)
    assert (answer["status"], answer["improved"], answer["derived_task"]) == ("passed", None, True)
    report = (folder / "result" / "report.md").read_text()
    assert "## What was rewritten and fused" in report and "derived task" in report
    used = subprocess.run(
        [sys.executable, "use.py"],
        cwd=folder / "result",
        env={**os.environ, "WARPSMITH_CACHE": str(cache), "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert used.returncode == 0, used.stderr
    match = re.fullmatch(r"output 0: relative error (\S+), largest difference \S+\n", used.stdout)
    assert match and float(match[1]) < 1e-5, used.stdout
