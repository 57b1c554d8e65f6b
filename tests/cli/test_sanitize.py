"""`judge --sanitize` on the simulator, as a command."""

import json
from pathlib import Path

import pytest
from tests.cli.real import JUDGE, KERNEL, lay_out, warpsmith

pytest.importorskip("torch")


def test_a_fault_is_named_and_an_honest_kernel_passes(tmp_path: Path, shared_caches: Path) -> None:
    lay_out(tmp_path, kernel=KERNEL.replace("if (i < n)", "if (i <= n)"))
    done = warpsmith(tmp_path, shared_caches, *JUDGE, "--sanitize")
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["status"], answer["reward"]) == (1, "crashed", -1), done.stderr
    assert answer["detail"] == (
        "sanitizer: kernels/axpy.cu:4 in axpy: read of 4 bytes outside global memory, "
        "0 bytes after an allocation of 2244 bytes"
    )
    lay_out(tmp_path)
    done = warpsmith(tmp_path, shared_caches, *JUDGE[:-1], "--sanitize")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("passed on the simulator")


def test_a_compiler_without_sanitizers_is_infrastructure(tmp_path: Path) -> None:
    lay_out(tmp_path)
    done = warpsmith(tmp_path, tmp_path / "cache", *JUDGE, "--sanitize", PATH="", CXX="")
    assert done.returncode == 3, done.stdout + done.stderr
    assert json.loads(done.stdout)["status"] == "infrastructure"
    assert len([line for line in done.stderr.splitlines() if line.startswith("warpsmith: ")]) == 1
