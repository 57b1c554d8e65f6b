"""Every reader of what others wrote, with what it may be given and what it may answer.

`Target.read` raises nothing but what is not allowed: the test and `benchmarks/fuzz.py` call it with example after
example. Tasks' and submissions' own code is no input of these: it runs in processes of its own.
"""

import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from hypothesis import strategies as st
from tests.fuzz.forging import forging_targets
from tests.fuzz.mutations import VALUES, damaged, foreign, texts
from tests.fuzz.services import service_targets

from warpsmith.agent.text_calls import read_calls, without_calls
from warpsmith.agent.text_files import read_files
from warpsmith.agent.tools import ToolContext, call
from warpsmith.compile.collection import _read as read_notes
from warpsmith.compile.log import trimmed, undefined_references
from warpsmith.compile.ptxas import split_report
from warpsmith.errors import (
    CandidateCrashedError,
    CompileFailedError,
    InfrastructureError,
    SubmissionUnreadableError,
    SubmissionUnsupportedError,
    TaskUnreadableError,
    UsageError,
    WrongResultError,
)
from warpsmith.evaluation.check_log import read_checks
from warpsmith.judge.evidence.gather import Gathered
from warpsmith.judge.instruments.memcheck import read_report
from warpsmith.judge.instruments.ncu_table import TableError, not_permitted, read_table, remark
from warpsmith.judge.job import JobFolder
from warpsmith.judge.runner.channel import ProtocolError, decode
from warpsmith.judge.runner.layout import TensorLayout
from warpsmith.judge.runner.process import Request, RunnerProcess
from warpsmith.judge.runner.values import unflatten
from warpsmith.judge.service import _read
from warpsmith.judge.timing.baselines import BaselineIdentity, BaselineStore, measured
from warpsmith.judge.timing.clock import Samples, time_stats
from warpsmith.sandbox import LocalSandbox
from warpsmith.store import Manifest, RunReader, RunStore
from warpsmith.synthesis.bands import read_pass_rates
from warpsmith.tasks import load, load_task
from warpsmith.types import (
    BaselineKind,
    Device,
    ErrorStats,
    Evidence,
    Phase,
    Rules,
    Status,
    Turn,
    Verdict,
)
from warpsmith.workspace.submission import load_submission


@dataclass(frozen=True)
class Target:
    """One reader."""

    name: str
    examples: st.SearchStrategy
    read: Callable[[Any], None]


def allowing(*errors: type[Exception]) -> Callable[[Callable[[Any], object]], Callable[[Any], None]]:
    """A reader that may raise these; each message of one is a single line that a record can hold."""

    def wrapped(read: Callable[[Any], object]) -> Callable[[Any], None]:
        def run(example: Any) -> None:
            try:
                read(example)
            except errors as error:
                assert "\n" not in str(error), f"more than one line: {error!r}"
                str(error).encode()

        return run

    return wrapped


VERDICT = Verdict(
    status=Status.PASSED, device=Device.SIM, rules=Rules.PRACTICAL, task_hash="t" * 64, submission_hash="s" * 64,
    phase=Phase.DONE, detail="correct on all 12 calls checked", seconds={"load": 0.1},
    error=ErrorStats(rel=1e-7, max_abs=1e-6), paper_gate=True, scale_gate=True,
)  # fmt: skip
ANSWERS = [
    {"nonce": "n", "ok": "call", "tensors": [], "spec": {"list": []}, "device_ms": 0.5},
    {"nonce": "n", "failed": "call", "kind": "interface", "text": "no\nsuch thing", "place": " (line 3)"},
    {"nonce": "n", "failed": "call", "kind": "unsupported", "text": "inline PTX"},
]
SEEN = {
    "ok": "evidence",
    "nonce": "n",
    "problems": {"kernels": "", "operators": ""},
    "blind": ["operators"],
    "ops": {"aten.add": 2},
    "names": {"1": "_Z1kPf", "2": "cublas_gemm"},
    "kernels": [["K", 1, 3, 900, 0], ["S", 2, 1, 100, 1]],
    "lost": 0,
}
SPEC = {
    "list": [
        {"t": 0},
        {"tuple": [{"t": 1}, {"none": 1}, {"float": "0x1.8p+1"}]},
        {"dict": [["a", {"dtype": "float32"}]]},
    ]
}
LAYOUT = {"dtype": "float32", "shape": [2, 3], "stride": [3, 1], "offset": 512}
PTXAS = (
    "ptxas info    : Compiling entry function '_Z1kPf' for 'sm_90'\n"
    "ptxas info    : Function properties for _Z1kPf\n"
    "    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n"
    "ptxas info    : Used 32 registers, 384 bytes cmem[0]\n"
)
LOG = 'kernels/a.cu(3): error: identifier "x" is undefined\n/usr/bin/ld: a.o: undefined reference to `f(int)\'\n'
NCU = (
    '"ID","Kernel Name","gpu__time_duration.sum","launch__registers_per_thread"\n"","","ns","register/thread"\n'
    '"0","k(float*)","1,234.5","32"\n'
)
MEMCHECK = (
    "========= Invalid __global__ write of size 4 bytes\n=========     at k(float*)+0x40 in k.cu:3\n"
    "=========     by thread (1,0,0) in block (0,0,0)\n=========     Address 0x7f is out of bounds\n"
)
REPLY = (
    'I write it.\n```cuda file=kernels/a.cu\nint x;\n```\n<tool_call>\n{"name": "Read", "arguments": {"file_path": '
    '"a"}}\n</tool_call>'
)
KERNELBENCH = {
    "level": 1,
    "problem_id": 3,
    "name": "3_relu",
    "code": "class Model: ...\ndef get_inputs(): ...",
}


class Bare(RunnerProcess):
    """A runner's reader of answers, without a process."""

    def __init__(self):
        self.name, self.device = "the candidate", Device.SIM


def folder_reader(read: Callable[[Path, Any], object]) -> Callable[[Any], object]:
    """A reader that gets a fresh folder beside its example."""

    def run(example: Any) -> None:
        with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
            read(Path(name), example)

    return run


def _decode(data: bytes) -> None:
    json.dumps(decode(data), ensure_ascii=False).encode()


def _parse(data: bytes) -> None:
    answer = Bare().parse(data, Request("call", "n", b""))
    assert answer["ok"] == "call" and answer["nonce"] == "n"


def _seen(messages: list[bytes]) -> None:
    gathered = Gathered(own=frozenset({"k(float*)"}))
    for data in messages:
        try:
            message = decode(data)
        except ProtocolError:
            continue
        gathered.add(2, message)
    gathered.outcomes(), gathered.notes()
    found = gathered.evidence()
    assert found is None or Evidence.model_validate_json(found.model_dump_json()) == found


def _verdict(folder: Path, data: bytes) -> None:
    job = JobFolder(folder)
    job.verdict.write_bytes(data)
    found = _read(job)
    assert found is None or Verdict.model_validate_json(found.model_dump_json()) == found


def _baseline(folder: Path, data: bytes) -> None:
    wanted = BaselineIdentity(
        task_hash="t", mode="tf32", kind=BaselineKind.EAGER, gpu_uuid="GPU-1", driver="580", torch="2"
    )
    store = BaselineStore(folder)
    store.put(measured(wanted, time_stats(Samples(1, (1.0, 1.2)), 0.1)))
    (file,) = folder.iterdir()
    file.write_bytes(data)
    found = store.get(wanted)
    assert found is None or found.identity == wanted


def _run_folder(folder: Path, example: tuple[bytes, str]) -> None:
    data, name = example
    run = folder / "run"
    with RunStore(run) as store:
        store.open(Manifest(command="optimize", task_hash="t", task_name="t", policy="p", device=Device.SIM))
        store.append_turn("e", Turn(index=0, note="n", submission_hash="s", verdict_hash="v", seconds=0.1))
    files = [run / "manifest.json", *sorted((run / "segments").glob("*"))]
    (files[0] if name == "manifest" else files[-1]).write_bytes(data)
    read = RunReader(run)
    for ask in (read.turns, read.verdicts, read.episodes, read.failures, read.sessions):
        ask()


def _rows(folder: Path, data: bytes) -> None:
    path = folder / "rows.jsonl"
    path.write_bytes(data)
    read_checks(path)


def _kernelbench(folder: Path, data: bytes) -> None:
    path = folder / "k.jsonl"
    path.write_bytes(data)
    load(f"kernelbench:{path}#1/3")


def _parquet(folder: Path, data: bytes) -> None:
    path = folder / "k.parquet"
    path.write_bytes(data)
    load(f"kernelbench:{path}#1/3")


def _task_file(folder: Path, data: bytes) -> None:
    path = folder / "task.py"
    path.write_bytes(data)
    load_task(path)


def _submission(folder: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        (folder / name).write_bytes(data)
    load_submission(folder)


def _tool(folder: Path, example: tuple[str, Any]) -> None:
    name, arguments = example
    (folder / "a").write_text("text\n")
    with ToolContext(folder, LocalSandbox()) as context:
        call(name, arguments, context, ["Read", "Glob", "Grep", "TodoWrite"])


def _pass_rates(folder: Path, data: bytes) -> None:
    (folder / "rates.jsonl").write_bytes(data)
    read_pass_rates(folder / "rates.jsonl")


def parquet_seed() -> bytes:
    """A KernelBench file as pyarrow writes it; empty without pyarrow."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        return b"PAR1"
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "k.parquet")
        pyarrow.parquet.write_table(pyarrow.table({k: [v] for k, v in KERNELBENCH.items()}), path)
        return path.read_bytes()


def targets() -> list[Target]:
    """All of them."""
    lines = [{"kind": "turn", "episode_id": "e", "turn": {"index": 0}}, {"kind": "verdict"}]
    rows = foreign(lines).map(lambda data: data + b"\n")
    nothing = allowing()
    infrastructure = allowing(InfrastructureError, UsageError)
    task = allowing(TaskUnreadableError, UsageError, InfrastructureError)
    layouts = VALUES | foreign([LAYOUT]).map(_loaded)
    return [
        Target("a message's bytes", foreign(ANSWERS), allowing(ProtocolError)(_decode)),
        Target(
            "an answer to a request",
            foreign(ANSWERS),
            allowing(CandidateCrashedError, WrongResultError, SubmissionUnsupportedError)(_parse),
        ),
        Target(
            "a value's form",
            VALUES | foreign([SPEC]).map(_loaded),
            allowing(ValueError)(lambda spec: unflatten(spec, [torch.zeros(2), torch.zeros(3)])),
        ),
        Target(
            "a tensor's place",
            layouts,
            allowing(ValueError)(
                lambda v: TensorLayout.from_json(v).of(torch.zeros(4096, dtype=torch.uint8))
            ),
        ),
        Target("what ran, by its own word", st.lists(foreign([SEEN]), max_size=3), nothing(_seen)),
        *(Target(*parts) for parts in (*forging_targets(), *service_targets())),
        Target(
            "a verdict's record", foreign([json.loads(VERDICT.model_dump_json())]),
            nothing(folder_reader(_verdict)),
        ),
        Target("a kept baseline", foreign([{"identity": {}, "stats": None}]), nothing(folder_reader(_baseline))),
        Target(
            "a run's folder",
            st.tuples(rows, st.sampled_from(["manifest", "segment"])),
            infrastructure(folder_reader(_run_folder)),
        ),
        Target("a log of rows", rows, infrastructure(folder_reader(_rows))),
        Target(
            "what a submission builds, by its own word",
            st.lists(foreign([{"started": True}, {"refused": "no"}, {"request": {}}]), max_size=3).map(b"\n".join),
            allowing(CompileFailedError)(read_notes),
        ),
        Target(
            "a compiler's output",
            texts([LOG, PTXAS]),
            nothing(lambda t: (trimmed(t, (Path("/tmp"),)), undefined_references(t), split_report(t))),
        ),
        Target(
            "ncu's table", texts([NCU]),
            allowing(TableError)(lambda t: (read_table(t), remark(t), not_permitted(t))),
        ),
        Target("compute-sanitizer's report", texts([MEMCHECK]), nothing(lambda t: read_report(t, ["k.cu"]))),
        Target(
            "a model's reply",
            texts([REPLY]),
            nothing(lambda t: (read_calls(t, 0, files=True), without_calls(t), read_files(t))),
        ),
        Target(
            "a tool's arguments",
            st.tuples(
                st.sampled_from(["Read", "Glob", "Grep", "TodoWrite", "no"]),
                VALUES | texts(['{"file_path": "a", "limit": 3}', '{"pattern": "(a|b)*"}']),
            ),
            nothing(folder_reader(_tool)),
        ),
        Target(
            "pass rates", foreign([{"task_hash": "a", "pass_rate": 0.5}]), infrastructure(folder_reader(_pass_rates))
        ),
        Target("KernelBench's rows", foreign([KERNELBENCH]), task(folder_reader(_kernelbench))),
        Target("KernelBench's parquet", damaged([parquet_seed()]), task(folder_reader(_parquet))),
        Target(
            "a task's file", damaged([KERNELBENCH["code"].encode()]) | st.binary(max_size=99),
            task(folder_reader(_task_file)),
        ),
        Target(
            "a submission's files",
            st.dictionaries(
                st.sampled_from(["model_new.py", "a.cu", "b.bin", ".hidden.py"]), damaged([b"x = 1\n"]), max_size=3
            ),
            allowing(SubmissionUnreadableError)(folder_reader(_submission)),
        ),
    ]  # fmt: skip


def _loaded(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return data.decode(errors="replace")


def cleared() -> None:
    """Removes what readers that were interrupted left."""
    for left in Path(tempfile.gettempdir()).glob("fuzz-*"):
        shutil.rmtree(left, ignore_errors=True)
