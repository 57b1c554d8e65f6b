"""`python -m warpsmith.synthesis.graph_worker TASKS.json FD CPU_SECONDS RUN`: one JSON line a task on FD.

Each task runs in a fork of this process, which has torch imported: what it breaks, ends or hangs is its own.
"""

import contextlib
import json
import math
import os
import resource
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any

MAX_BYTES = 16 << 30
"""Address space of one task's process."""
RUN_ELEMENTS, RUN_FLOPS = 1 << 22, 1 << 32
WAITING = 10
"""A task may take this many times its processor time, so that how busy a machine is decides no fingerprint."""


def main(argv: list[str]) -> int:
    """Works through the tasks in order."""
    import torch

    from warpsmith.synthesis import graph

    torch.set_num_threads(1)
    graph.warm_up()
    tasks = json.loads(Path(argv[0]).read_text())
    descriptor, timeout_s, run = int(argv[1]), float(argv[2]), argv[3] == "1"
    for place, code in enumerate(tasks):
        fields = _in_fork(code, descriptor, timeout_s, run)
        os.write(descriptor, json.dumps([place, fields]).encode() + b"\n")
    return 0


def _in_fork(code: str, descriptor: int, timeout_s: float, run: bool) -> dict[str, Any]:
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ours)
        os.close(descriptor)
        _child(code, theirs, timeout_s, run)
    os.close(theirs)
    text = _read(ours, WAITING * timeout_s)
    os.close(ours)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if text is None or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU):
        return _failed("timed_out", f"took longer than {timeout_s:g} s of the processor", run)
    try:
        return json.loads(text)
    except ValueError:
        return _failed("crashed", "its code ended the process", run)


def _failed(trace: str, detail: str, run: bool) -> dict[str, Any]:
    return {"kind": None, "trace": trace, "detail": detail, "run": trace if run else None}


def _read(descriptor: int, timeout_s: float) -> bytes | None:
    """All of a pipe; None where the time is up before its end."""
    text = b""
    deadline = time.monotonic() + timeout_s
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([descriptor], [], [], left)[0]:
            return None
        block = os.read(descriptor, 1 << 16)
        if not block:
            return text
        text += block


def _child(code: str, descriptor: int, cpu_s: float, run: bool) -> None:
    """Traces the task, and runs it, writes the answer and ends the process; never returns."""
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(quiet, stream)
    resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    seconds = max(1, math.ceil(cpu_s))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    try:
        answer = json.dumps(_structure(code, run)).encode()
        while answer:
            answer = answer[os.write(descriptor, answer) :]
    finally:
        os._exit(0)


def _structure(code: str, run: bool) -> dict[str, Any]:
    from warpsmith.synthesis.canonical import canonical, digest
    from warpsmith.synthesis.graph import trace

    ran, said = _ran(code) if run else (None, "")
    try:
        traced = trace(code)
        graph = canonical(traced, code)
        fingerprint = f"graph-{digest(graph)}"
    except BaseException as error:  # noqa: BLE001  whatever a task's own code raises is its answer
        return {"kind": None, "trace": "raised", "detail": said or _one_line(error), "run": ran}
    called = list(traced.called)
    return {
        "kind": "graph",
        "fingerprint": fingerprint,
        "called": called,
        "nodes": len(graph.nodes),
        "trace": "ok",
        "run": ran,
        "detail": said,
    }


def _ran(code: str) -> tuple[str, str]:
    """Whether the task runs on the CPU, at smaller sizes that fit as the filter's do, and what it raised."""
    from warpsmith.synthesis.graph import run
    from warpsmith.synthesis.smaller import smaller

    try:
        text, full = smaller(code, max_elements=RUN_ELEMENTS, max_flops=RUN_FLOPS)
        if text is not None:
            run(text)
            return "ok", ""
    except BaseException as error:  # noqa: BLE001  whatever a task's own code raises is its answer
        return "raised", _one_line(error)
    return "raised", full.error or "it has no smaller sizes at which the CPU could run it"


def _one_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
