"""What a runner loads before it can be given anything: every judgement starts one, and every baseline another."""

import subprocess
import sys

LEFT_OUT = (
    "pydantic",
    "psutil",
    "filelock",
    "warpsmith.sandbox",
    "warpsmith.compile.local",
    "warpsmith.types.verdict",
)


def test_a_runner_loads_torch_and_little_else() -> None:
    told = f"import sys, warpsmith.judge.runner.inside; print([m for m in {LEFT_OUT!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-I", "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
