"""The whole judge on the simulator: every way a task or a submission can be bad gets its own right status."""

import re
from collections.abc import Callable

import pytest
from tests.judge.samples import KERNEL, MODEL_NEW, TASK, submission, task

from warpsmith.types import Phase, Rules, Status, Verdict

Judge = Callable[..., Verdict]


def test_an_honest_submission_passes_with_its_error_and_both_gates(judge: Judge) -> None:
    verdict = judge(task(), submission())
    assert verdict.status is Status.PASSED, verdict.detail
    assert verdict.phase is Phase.DONE
    assert verdict.paper_gate and verdict.scale_gate
    assert 0 <= verdict.error.rel < 1e-6
    assert verdict.timings is None and verdict.speedup is None
    assert verdict.compile is not None
    assert verdict.machine.torch
    assert verdict.checks and all(c.passed for c in verdict.checks)


WRONG = {
    "shape": ("return out", "return out[:, :12]", "shape"),
    "broadcastable shape": ("return out", "return out[None]", "shape"),
    "dtype": ("return out", "return out.double()", "dtype"),
    "nan": ("return out", "return out * float('nan')", "nan"),
    "value": ("self.scale, x.numel()", "self.scale * 1.05, x.numel()", "gate"),
    "one element": ("return out", "out[3, 7] += 1.0; return out", "[3, 7]"),
    "unwritten": ("x.numel(), x.shape[1]", "x.numel() // 2, x.shape[1]", "nan"),
    "input changed": ("return out", "x.zero_(); return out", "input 0"),
    "state": (
        "self.shift = nn.Parameter(torch.empty(24))",
        "self.bias = nn.Parameter(torch.empty(24))",
        "interface: interfacemismatch: modelnew has parameters or buffers that model has not: bias; "
        "modelnew lacks parameters or buffers of model: shift",
    ),
    "state's shape": (
        "self.shift = nn.Parameter(torch.empty(24))",
        "self.shift = nn.Parameter(torch.empty(1))",
        "shapes differ: shift is (1,), not (24,)",
    ),
    "type": ("return out", "return [out]", "list"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_result_is_wrong_and_says_how(judge: Judge, what: str) -> None:
    old, new, said = WRONG[what]
    assert old in MODEL_NEW
    verdict = judge(task(), submission(MODEL_NEW.replace(old, new)))
    assert verdict.status is Status.WRONG, verdict.detail
    assert said in verdict.detail.lower()


def test_a_wrong_name_is_answered_with_the_line_that_calls_it(judge: Judge) -> None:
    old = re.search(r"cuda_extension\.(\w+)\(", MODEL_NEW)
    line = MODEL_NEW[: old.start()].count("\n") + 1
    verdict = judge(task(), submission(MODEL_NEW.replace(old[0], f"cuda_extension.{old[1]}_launcher(")))
    assert verdict.status is Status.CRASHED
    assert f"has no {old[1]}_launcher, it has: {old[1]}" in verdict.detail
    assert f"(line {line} of model_new.py)" in verdict.detail


def test_weights_that_are_baked_in_are_wrong_once_the_weights_change(judge: Judge) -> None:
    cached = (
        MODEL_NEW.replace("x.numel(), x.shape[1])", "x.numel(), x.shape[1])")
        .replace(
            "        out = torch.empty_like(x)",
            "        if not hasattr(self, 'kept'): self.kept = self.shift.clone()\n        out = torch.empty_like(x)",
        )
        .replace("x, self.shift,", "x, self.kept,")
    )
    assert judge(task(), submission(cached)).status is Status.WRONG


def test_a_kernel_that_does_not_compile(judge: Judge) -> None:
    verdict = judge(task(), submission(kernel=KERNEL.replace("int columns) {", "int columns) { nonsense", 1)))
    assert verdict.status is Status.COMPILE_FAILED
    assert "nonsense" in verdict.compile.log
    assert "error" in verdict.detail and "nonsense" in verdict.detail
    assert verdict.phase is Phase.COMPILE


FORGERY = """
import json, sys
print(json.dumps({"schema_version": 1, "status": "passed", "reward": 3, "speedup": {"paper": {"eager": 99}}}))
print("[PASS] verify success")
"""

CRASHES = {
    "exit status 0": ("        out = torch.empty_like(x)", "        import sys; sys.exit(0)", "status 0"),
    "os._exit": ("        out = torch.empty_like(x)", "        import os; os._exit(0)", "status 0"),
    "exit on import": ("import cuda_extension", "import cuda_extension, os; os._exit(0)", "status 0"),
    "segfault": (
        "        out = torch.empty_like(x)",
        "        import ctypes; ctypes.string_at(8)",
        "SIGSEGV",
    ),
    "raises": ("        out = torch.empty_like(x)", "        raise ValueError('what now')", "what now"),
    "raises on import": ("import cuda_extension", "import nothing_of_that_name", "nothing_of_that_name"),
    "forged output": ("import cuda_extension", FORGERY + "import os; os._exit(0)", "status 0"),
}


@pytest.mark.parametrize("what", CRASHES)
def test_a_crash_is_a_crash_whatever_it_printed(judge: Judge, what: str) -> None:
    old, new, said = CRASHES[what]
    assert old in MODEL_NEW
    verdict = judge(task(), submission(MODEL_NEW.replace(old, new, 1)))
    assert verdict.status is Status.CRASHED, verdict.detail
    assert said in verdict.detail


def test_a_forged_message_on_the_judges_own_channel_gains_nothing(judge: Judge) -> None:
    forged = """
import os, socket
for fd in range(3, 64):
    try:
        socket.socket(fileno=os.dup(fd)).send(b'{"ok":"observe","spec":{"list":[{"t":0}]},"tensors":[],"ops":{}}')
    except OSError:
        pass
"""
    verdict = judge(
        task(), submission(MODEL_NEW.replace("import cuda_extension", "import cuda_extension" + forged))
    )
    assert verdict.status is Status.CRASHED


@pytest.mark.parametrize(
    ("place", "limit"),
    [("import cuda_extension", "load_timeout_s"), ("        out = torch.empty_like(x)", "call_timeout_s")],
)
def test_an_endless_loop_times_out(judge: Judge, place: str, limit: str) -> None:
    indent = place[: len(place) - len(place.lstrip())]
    looping = MODEL_NEW.replace(place, f"{place}\n{indent}while True: pass", 1)
    verdict = judge(task(), submission(looping), **{limit: 2.0})
    assert verdict.status is Status.TIMED_OUT, verdict.detail


def test_torch_compute_is_allowed_in_practice_and_cheating_on_paper(judge: Judge) -> None:
    with_torch = submission(MODEL_NEW.replace("return out", "return torch.add(out, 0.0)"))
    practical = judge(task(), with_torch)
    assert practical.status is Status.PASSED
    assert not practical.checks[0].passed and "aten.add" in practical.checks[0].detail
    paper = judge(task(), with_torch, rules=Rules.PAPER)
    assert paper.status is Status.CHEATED and "aten.add" in paper.detail
    assert judge(task(), submission(), rules=Rules.PAPER).status is Status.PASSED


REFUSED = {
    "raises on import": (
        "import torch.nn as nn",
        "import torch.nn as nn\nraise RuntimeError('no')",
        "import",
    ),
    "raises on construction": (
        "super().__init__()",
        "super().__init__(); raise RuntimeError('no')",
        "Model()",
    ),
    "raises in forward": ("return x *", "raise RuntimeError('no'); return x *", "forward"),
    "exits": ("return x *", "import sys; sys.exit(0); return x *", "SystemExit"),
    "ends the process": ("return x *", "import os; os._exit(3); return x *", "forward (exit status 3)"),
    "faults": ("return x *", "import ctypes; ctypes.string_at(8); return x *", "forward (SIGSEGV)"),
    "no tensors": ("return [torch.randn(6, 24)]", "return [3, 'x']", "no tensor"),
    "empty list": ("return [torch.randn(6, 24)]", "return []", "no tensor"),
    "empty tensor": ("torch.randn(6, 24)", "torch.randn(0, 24)", ""),
    "dict": ("return [torch.randn(6, 24)]", "return {'x': torch.randn(6, 24)}", "dict"),
    "random": ("return x * self.scale + self.shift", "return torch.rand_like(x)", ""),
    "constant": ("return x * self.scale + self.shift", "return torch.ones(6, 24)", ""),
    "ignores its input": ("return x * self.scale + self.shift", "return self.shift * 2.0", ""),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_task_unfit_to_be_judged_is_refused_with_a_reason(judge: Judge, what: str) -> None:
    old, new, said = REFUSED[what]
    assert old in TASK
    verdict = judge(task(TASK.replace(old, new, 1)), submission())
    assert verdict.status is Status.TASK_REFUSED, verdict.detail
    assert said in verdict.detail
    assert "\n" not in verdict.detail


def test_inputs_from_a_generator_are_judged_like_a_list(judge: Judge) -> None:
    lazy = TASK.replace("    return [torch.randn(6, 24)]", "    yield torch.randn(6, 24)")
    assert judge(task(lazy), submission()).status is Status.PASSED


RACE = """
#include <cuda_runtime.h>

__global__ void affine_kernel(float* out, const float* x, const float* shift, float scale, int n, int columns) {
    __shared__ float held[128];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    held[threadIdx.x] = i < n ? x[i] * scale : 0.0f;
    BARRIER
    int partner = i ^ 1;
    if (partner < n) out[partner] = held[threadIdx.x ^ 1] + shift[partner % columns];
}

extern "C" void affine_launcher(float* out, const float* x, const float* shift, float scale, int n, int columns,
                                cudaStream_t stream) {
    affine_kernel<<<(n + 127) / 128, 128, 0, stream>>>(out, x, shift, scale, n, columns);
}
"""


def test_a_missing_barrier_is_seen_by_another_order_of_threads(judge: Judge) -> None:
    assert (
        judge(task(), submission(kernel=RACE.replace("BARRIER", "__syncthreads();"))).status is Status.PASSED
    )
    assert judge(task(), submission(kernel=RACE.replace("BARRIER", ""))).status is Status.WRONG
