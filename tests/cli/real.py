"""The real command line as a process, with a small task and its kernel, for tests of whole commands."""

import os
import signal
import subprocess
import sys
from pathlib import Path

TASK = """
import torch
class Model(torch.nn.Module):
    def forward(self, x, y):
        return torch.relu(2.0 * x + y)
def get_inputs():
    return [torch.randn(33, 17), torch.randn(33, 17)]
def get_init_inputs():
    return []
"""
MODEL_NEW = """
import torch
import cuda_extension
class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        cuda_extension.axpy(x, y, out, x.numel())
        return out
"""
KERNEL = """
__global__ void axpy(const float* x, const float* y, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = fmaxf(2.0f * x[i] + y[i], 0.0f);
}
extern "C" void axpy_launcher(const float* x, const float* y, float* out, int n, cudaStream_t stream) {
    axpy<<<(n + 255) / 256, 256, 0, stream>>>(x, y, out, n);
}
"""
JUDGE = ("judge", "task.py", "sub", "--device", "sim", "--json")
OPTIMIZE = ("optimize", "task.py", "--device", "sim", "--out", "result", "--json")
_TIMEOUT_S = 280


def lay_out(folder: Path, *, task: str = TASK, model_new: str = MODEL_NEW, kernel: str = KERNEL) -> Path:
    """`task.py` and a submission in `sub/`; returns `folder`."""
    (folder / "task.py").write_text(task)
    (folder / "sub" / "kernels").mkdir(parents=True, exist_ok=True)
    (folder / "sub" / "model_new.py").write_text(model_new)
    (folder / "sub" / "kernels" / "axpy.cu").write_text(kernel)
    return folder


def warpsmith(
    folder: Path, cache: Path | str, *args: str, **extra: str
) -> "subprocess.CompletedProcess[str]":
    """Runs a command in `folder` to its end."""
    return subprocess.run(
        command(*args),
        cwd=folder,
        env=environment(cache, **extra),
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        stdin=subprocess.DEVNULL,
    )


def start(folder: Path, cache: Path | str, *args: str, **extra: str) -> "subprocess.Popen[str]":
    """Starts a command in `folder` as a terminal's shell would: in a process group of its own, which Ctrl-C ends."""
    return subprocess.Popen(
        command(*args),
        cwd=folder,
        env=environment(cache, **extra),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        stdin=subprocess.DEVNULL,
        process_group=0,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def command(*args: str) -> list[str]:
    """The argument vector of a command."""
    return [sys.executable, "-m", "warpsmith", *args]


def environment(cache: Path | str, **extra: str) -> dict[str, str]:
    """This process's environment with a cache of its own, and no GPU."""
    return {**os.environ, "WARPSMITH_CACHE": str(cache), "CUDA_VISIBLE_DEVICES": "", **extra}


def error_line(errors: str) -> str:
    """The one line on stderr that is not progress (which begins with a bracket)."""
    assert "Traceback" not in errors, errors
    (line,) = [line for line in errors.splitlines() if not line.startswith("[")]
    assert line.startswith("warpsmith: "), errors
    return line
