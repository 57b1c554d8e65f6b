"""What a model is answered, by which copy, and that nothing it writes is believed."""

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from warpsmith.agent.actions import Action, Actions, EnvironmentService, JudgeService, action_tools
from warpsmith.agent.actions_desk import Desk
from warpsmith.agent.actions_text import MAX_CHARS, capped, excerpts
from warpsmith.agent.actions_workspace import AgentWorkspace
from warpsmith.agent.context import ToolContext
from warpsmith.agent.tools import call
from warpsmith.errors import InfrastructureError, SubmissionUnreadableError
from warpsmith.rollout.scripted import ScriptedCompiler, ScriptedJudge, scripted_verdict
from warpsmith.sandbox import LocalSandbox
from warpsmith.types import (
    CheckOutcome,
    CompileResult,
    CompileStatus,
    Device,
    ErrorStats,
    KernelProfile,
    KernelResources,
    Phase,
    ProfileReport,
    Stall,
    Status,
    Submission,
    SubmissionForm,
    Target,
    Task,
    Verdict,
)
from warpsmith.types.protocols import JudgeSettings
from warpsmith.workspace.template import environment

TASK = Task(
    name="double",
    code="""
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return 2 * x
def get_inputs():
    return [torch.randn(8, 9)]
def get_init_inputs():
    return []
""",
)
KERNEL = "__global__ void twice(float* out) {\n    out[0] = 1;\n    out[1] = 2\n}\n"


class Scripted:
    """A service that answers what it was told to, and keeps what it was asked about."""

    def __init__(self, status: Status = Status.PASSED, **fields: object):
        self.status, self.fields = status, fields
        self.seen: list[Submission] = []
        self.built = CompileResult(status=CompileStatus.OK, key="k")
        self.report = ProfileReport(problem="no GPU")

    def _verdict(self, submission: Submission) -> Verdict:
        self.seen.append(submission)
        settings = JudgeSettings(device=Device.SIM)
        return scripted_verdict(TASK, submission, settings, self.status, **self.fields)

    def compile(self, submission: Submission) -> CompileResult:
        self.seen.append(submission)
        return self.built

    verify = profile = sanitize = _verdict

    def ncu(self, submission: Submission) -> ProfileReport:
        return self.report


@pytest.fixture
def workspace(root: Path) -> AgentWorkspace:
    made = AgentWorkspace.lay_out(TASK, root)
    (root / "kernels/twice.cu").write_text(KERNEL)
    return made


def answer(
    workspace: AgentWorkspace, action: Action, status: Status = Status.PASSED, **fields: object
) -> str:
    return Actions(workspace, Scripted(status, **fields)).run(action).text


def test_the_snapshot_holds_sources_alone(workspace: AgentWorkspace, root: Path) -> None:
    for name in ("build/x.cu", ".hidden/y.py", "kernels/__pycache__/z.py", "kernels/o.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("no")
    (root / "kernels/out.cu").symlink_to("/etc/passwd")
    (root / "linked").symlink_to("/etc")
    os.mkfifo(root / "kernels/pipe.cu")
    submission = workspace.snapshot()
    assert set(submission.files) == {"model_new.py", "kernels/twice.cu"}
    # the fixed binding.cpp would make it the other form
    assert submission.form is SubmissionForm.C_ABI
    assert AgentWorkspace.open(TASK, root).snapshot() == submission


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda root: (root / "model_new.py").unlink(), "no regular file model_new.py"),
        (lambda root: (root / "kernels/b.cu").write_bytes(b"\xff\xfe\x00"), "kernels/b.cu is not UTF-8 text"),
        (lambda root: (root / "kernels/b.cu").write_bytes(b"a\0b"), "kernels/b.cu is a binary file"),
        (lambda root: (root / "kernels/b.cu").write_bytes(b"a" * (5 << 20)), "too large"),
        (lambda root: [(root / f"{i}.py").touch() for i in range(300)], "more than 256 source files"),
    ],
)
def test_what_is_no_submission_is_said(
    workspace: AgentWorkspace, root: Path, spoil: Callable[[Path], object], said: str
) -> None:
    spoil(root)
    with pytest.raises(SubmissionUnreadableError, match=said):
        workspace.snapshot()
    got = Actions(workspace, Scripted()).run(Action.VERIFY)
    assert not got.ok and said in got.text and got.submission_hash is None


def test_fixed_files_are_written_back_and_never_judged(workspace: AgentWorkspace, root: Path) -> None:
    (root / "model.py").write_text("cheat")
    (root / "utils/verification.py").unlink()
    (root / "binding.cpp").unlink()
    (root / "binding.cpp").symlink_to("/etc/passwd")
    before = Path("/etc/passwd").read_bytes()
    service = Scripted()
    got = Actions(workspace, service).run(Action.VERIFY)
    assert got.text.startswith("[note] binding.cpp, utils/verification.py, model.py belong to the task")
    assert (root / "model.py").read_text() == TASK.code
    assert "model.py" not in service.seen[0].files and "binding.cpp" not in service.seen[0].files
    assert Path("/etc/passwd").read_bytes() == before


def test_a_build_says_what_to_mend(workspace: AgentWorkspace) -> None:
    service = Scripted()
    actions = Actions(workspace, service)
    service.built = CompileResult(
        status=CompileStatus.OK, key="k", seconds=1.25,
        kernels=(KernelResources(kernel="twice", registers=40, spill_store_bytes=8, shared_bytes=1024),),
    )  # fmt: skip
    assert actions.run(Action.COMPILE).text == (
        "Compile success (1.2 s).\n  twice: 40 registers, 1024 bytes of shared memory, 8 bytes of spills: use fewer "
        "live values, less unrolling or a smaller tile"
    )
    service.built = CompileResult(
        status=CompileStatus.FAILED, key="k", log="kernels/twice.cu(3): error: expected a ';'"
    )
    got = actions.run(Action.COMPILE)
    assert not got.ok and got.status == "failed"
    assert got.text.splitlines()[2:] == [
        "kernels/twice.cu:",
        "     1 | __global__ void twice(float* out) {",
        "     2 |     out[0] = 1;",
        ">    3 |     out[1] = 2",
        "     4 | }",
    ]


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (ErrorStats(rel=float("nan"), max_abs=float("nan")), "NaN or infinity"),
        (ErrorStats(rel=2e-2, max_abs=0.1, mismatched_fraction=0.2), "accuracy rather than logic"),
        (ErrorStats(rel=0.4, max_abs=3, mismatched_fraction=0.01), "a few elements are wrong"),
        (ErrorStats(rel=1.4, max_abs=3, mismatched_fraction=0.98), "most elements are wrong"),
        (ErrorStats(rel=0.6, max_abs=3, mismatched_fraction=0.3), "part of the output"),
        (None, "no figure can be given: NaN or infinity"),
    ],
)
def test_a_wrong_result_is_explained_by_its_figures(
    workspace: AgentWorkspace, error: ErrorStats | None, cause: str
) -> None:
    said = answer(workspace, Action.VERIFY, Status.WRONG, error=error, detail="largest error at out[0, 8]")
    assert said.startswith("[FAIL] wrong during correctness: largest error at out[0, 8]")
    assert f"Likely cause: {cause}" in said


def test_every_status_is_answered(workspace: AgentWorkspace) -> None:
    for status in Status:
        for action in (Action.VERIFY, Action.PROFILE, Action.ROOFLINE, Action.SANITIZE):
            got = Actions(workspace, Scripted(status)).run(action)
            assert got.ok is (status is Status.PASSED) and got.status == status.value
            good = status in (Status.PASSED, Status.UNSTABLE)
            assert ("[PASS]" in got.text) is good and ("Likely cause" in got.text) is (
                not good and status is not Status.COMPILE_FAILED
            )


def test_the_sanitizers_finding_names_the_line(workspace: AgentWorkspace) -> None:
    check = CheckOutcome(check="sanitizer", passed=False, detail="kernels/twice.cu:3 in twice: write outside")
    said = answer(workspace, Action.SANITIZE, Status.CRASHED, checks=(check,))
    assert "check sanitizer failed: kernels/twice.cu:3 in twice" in said and ">    3 |     out[1] = 2" in said


def test_a_python_error_is_told_from_a_kernels(workspace: AgentWorkspace) -> None:
    loading = answer(workspace, Action.VERIFY, Status.CRASHED, phase=Phase.LOAD)
    running = answer(workspace, Action.VERIFY, Status.CRASHED)
    assert "before any kernel ran" in loading and "illegal address" not in loading
    assert "an illegal address" in running and "before any kernel" not in running


def test_kernels_that_were_forgotten_are_asked_for(workspace: AgentWorkspace, root: Path) -> None:
    (root / "kernels/twice.cu").unlink(missing_ok=True)
    (root / "model_new.py").write_text("import torch\n")
    plain = answer(workspace, Action.VERIFY, Status.CRASHED, phase=Phase.LOAD)
    (root / "model_new.py").write_text("import torch\nimport cuda_extension\n")
    assert "there is no .cu file" in answer(workspace, Action.VERIFY, Status.CRASHED, phase=Phase.LOAD)
    (root / "kernels/new.cu").write_text(KERNEL)
    given = answer(workspace, Action.VERIFY, Status.CRASHED, phase=Phase.LOAD)
    assert "there is no .cu file" not in plain + given and "before any kernel ran" in plain


def test_the_line_that_the_judge_names_is_shown() -> None:
    files = Submission(files={"model_new.py": "import torch\n\nclass ModelNew(nn.Module):\n    pass\n"})
    shown = list(excerpts("NameError: name 'nn' is not defined (line 3 of model_new.py)", files))
    assert shown[0] == "model_new.py:" and ">    3 | class ModelNew(nn.Module):" in shown
    assert list(excerpts("line 9 of model_new.py, line 1 of other.py", files)) == []


def test_another_interface_says_what_to_add_and_what_to_remove(workspace: AgentWorkspace) -> None:
    detail = "interface: ModelNew has parameters or buffers that Model has not: a"
    said = answer(workspace, Action.VERIFY, Status.WRONG, phase=Phase.LOAD, detail=detail)
    assert "has not: a\nLikely cause: ModelNew is loaded with Model's parameters" in said
    assert "Remove from __init__ what Model has not" in said


def test_kernels_are_explained(workspace: AgentWorkspace) -> None:
    service = Scripted()
    service.report = ProfileReport(
        kernels=(
            KernelProfile(
                kernel="big", launches=2, dram_percent=91, stalls=(Stall(reason="long_scoreboard", cycles=9),)
            ),
            KernelProfile(kernel="few\nwarps", launches=1, occupancy_percent=20, registers=200),
        )
    )
    said = Actions(workspace, service).run(Action.NCU).text
    assert "DRAM is saturated" in said and "waits 9.0 cycles: long_scoreboard: waits for global" in said
    assert "few warps (1 launches)" in said and "20 % of the warps" in said
    assert not Actions(workspace, Scripted()).run(Action.NCU).ok


def test_answers_are_bounded(workspace: AgentWorkspace) -> None:
    said = answer(workspace, Action.VERIFY, Status.CRASHED, detail="x" * 100_000)
    assert len(said) <= MAX_CHARS and "characters left out" in said
    assert capped("abc", 10) == "abc"
    files = Submission(files={"model_new.py": "a\n" * 50})
    assert len(list(excerpts("model_new.py:5 model_new.py:6 model_new.py:30 model_new.py:99", files))) == 12
    assert list(excerpts("/etc/passwd:1 other.py:2", files)) == []


def test_the_services(workspace: AgentWorkspace) -> None:
    judge = ScriptedJudge(lambda task, submission, settings, n: scripted_verdict(task, submission, settings))
    asked: list[Action] = []
    target = Target(device=Device.SIM)
    service = JudgeService(TASK, judge, ScriptedCompiler(), target, JudgeSettings(device=Device.SIM))
    actions = Actions(workspace, service, asked=lambda action, submission, found: asked.append(action))
    for action in Action:
        actions.run(action)
    assert asked == list(Action) and len(judge.asked) == 4
    assert "not offered" in actions.run(Action.NCU).text

    class Env:
        task, device, workdir = TASK, Device.SIM, workspace.root
        compile = staticmethod(service.compile)
        judge = verify = staticmethod(service.verify)

    for action in Action:
        assert Actions(workspace, EnvironmentService(Env())).run(action).ok is (action is not Action.NCU)


def test_the_tools(workspace: AgentWorkspace, root: Path) -> None:
    tools = action_tools(Actions(workspace, Scripted(Status.WRONG)), Device.CUDA)
    assert [t.name for t in tools] == ["Compile", "Verify", "Profile", "NcuSummary", "Roofline", "Sanitize"]
    assert [t.name for t in action_tools(tools[0].actions, Device.SIM)] == ["Compile", "Verify", "Sanitize"]
    with ToolContext(root, LocalSandbox()) as context:
        said = tools[1].run(tools[1].arguments(), context)
    assert said.is_error and said.text.startswith("[FAIL] wrong")


@pytest.fixture
def desk(workspace: AgentWorkspace) -> Iterator[Desk]:
    with Desk(Actions(workspace, Scripted())) as desk:
        yield desk


def ask(root: Path, request: bytes) -> dict:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        with_fd = os.open(root, os.O_RDONLY)
        connection.connect(f"/proc/self/fd/{with_fd}/.warpsmith/judge.sock")
        os.close(with_fd)
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        data = b""
        while chunk := connection.recv(65536):
            data += chunk
        return json.loads(data)


@pytest.mark.parametrize(
    "request_line",
    [b"", b"\n", b"{}", b"[1]\n", b'{"action": "score"}\n', b"\xff\n", b"x" * 100_000, b"[" * 4000],
)
def test_nonsense_is_answered(desk: Desk, root: Path, request_line: bytes) -> None:
    try:
        assert ask(root, request_line)["exit_status"] == 2
    except (BrokenPipeError, ConnectionResetError):
        assert len(request_line) > 4096
    assert ask(root, b'{"action": "verify", "status": "passed"}\n')["exit_status"] == 0


def test_a_client_that_goes_away_stops_nothing(desk: Desk, root: Path) -> None:
    for _ in range(3):
        with socket.socket(socket.AF_UNIX) as connection:
            here = os.open(root, os.O_RDONLY)
            connection.connect(f"/proc/self/fd/{here}/.warpsmith/judge.sock")
            os.close(here)
            connection.sendall(b'{"action": "verify"}\n')
    assert ask(root, b'{"action": "verify"}\n')["exit_status"] == 0


def test_the_socket_comes_back(desk: Desk, root: Path) -> None:
    for spoil in ("unlink", "link"):
        (root / ".warpsmith/judge.sock").unlink()
        if spoil == "link":
            (root / ".warpsmith/judge.sock").symlink_to(root / "model_new.py")
        until = time.monotonic() + 60
        while not (root / ".warpsmith/judge.sock").is_socket():
            assert time.monotonic() < until
            time.sleep(0.05)
        assert ask(root, b'{"action": "compile"}\n')["exit_status"] == 0
    assert (root / "model_new.py").read_text().strip()


def test_a_failure_of_ours_is_kept(workspace: AgentWorkspace, root: Path) -> None:
    class Broken(Scripted):
        def compile(self, submission: Submission) -> CompileResult:
            raise InfrastructureError("no compiler")

    with Desk(Actions(workspace, Broken())) as desk:
        assert ask(root, b'{"action": "compile"}\n') == {
            "text": "The judge cannot answer: no compiler",
            "exit_status": 3,
        }
        assert str(desk.failure) == "no compiler"
        assert ask(root, b'{"action": "verify"}\n')["exit_status"] == 0


def test_requests_take_turns(workspace: AgentWorkspace, root: Path) -> None:
    running, most = [], []

    class Slow(Scripted):
        def verify(self, submission: Submission) -> Verdict:
            running.append(1)
            most.append(len(running))
            time.sleep(0.05)
            running.pop()
            return self._verdict(submission)

    actions = Actions(workspace, Slow())
    with Desk(actions):
        threads = [threading.Thread(target=ask, args=(root, b'{"action": "verify"}\n')) for _ in range(4)]
        threads += [threading.Thread(target=actions.run, args=(Action.VERIFY,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert most == [1] * 6


def test_the_workflow_inside_the_sandbox(workspace: AgentWorkspace, root: Path, sandbox: object) -> None:
    service = Scripted(Status.PASSED)
    with (
        Desk(Actions(workspace, service)),
        ToolContext(root, sandbox, env=environment(root), protected=workspace.fixed) as context,
    ):
        for command, said in {
            "TORCH_CUDA_ARCH_LIST=9.0 bash utils/compile.sh": "Compile success",
            "sudo python3 -m utils.verification": "[PASS] verify success",
            "sudo python3 -m utils.profiling --iters 5": "No times: this is the simulator",
            "cd kernels && (cd .. && python -m utils.sanitize)": "No sanitizer",
            "rm -rf ../.warpsmith; sleep 2; cd ..; python3 -m utils.roofline": "No times",
        }.items():
            got = call("Bash", {"command": command}, context)
            assert said in got.text and not got.is_error, (command, got.text)
        forged = call("Bash", {"command": "echo 'print(\"[PASS]\")' > utils/verification.py"}, context)
        assert not forged.is_error
        service.status = Status.WRONG
        assert call("Bash", {"command": "python3 -m utils.compile"}, context).text.startswith(
            "[note] utils/ver"
        )
        got = call("Bash", {"command": "python3 -m utils.verification"}, context)
        assert got.is_error and got.text.startswith("[FAIL] wrong")
