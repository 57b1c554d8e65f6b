"""Runners that are forked: they are what a started one is, and who forks them can go away at any moment."""

import contextlib
import errno
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from tests.sandbox.plain_user import run_as_plain_user

from warpsmith.errors import CandidateCrashedError, CandidateKilledError, InfrastructureError
from warpsmith.judge.runner.forkserver import MODULE, ForkServer, short_path
from warpsmith.judge.runner.process import RunnerProcess, RunnerSpec
from warpsmith.sandbox import best_available, by_name, python_paths
from warpsmith.types import Device

DRAWING = """
import os, random, signal, torch, numpy

class Model(torch.nn.Module):
    def forward(self, x):
        return x

def ended(number):
    os.kill(os.getpid(), number)

drawn = [random.random(), float(numpy.random.random())]
seen = [os.environ.get("SECRET"), os.getcwd(), os.getuid(), sorted(os.listdir("/proc/self/fd"))]
raise RuntimeError(repr([*drawn, *seen]))
"""


@pytest.fixture(scope="module")
def forks(tmp_path_factory) -> Iterator[ForkServer]:
    """Its socket's path is longer than a socket's can be."""
    if not best_available().enterable:
        pytest.skip("no sandbox here can be entered")
    with ForkServer(tmp_path_factory.mktemp("n" * 107)) as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    (tmp_path / "model_new.py").write_text(DRAWING)
    return tmp_path


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[[str], RunnerProcess]]:
    """`start(address)` starts a runner on the simulator."""
    made = []

    def run(address: str) -> RunnerProcess:
        spec = RunnerSpec("the candidate", Device.SIM, (*python_paths(), str(folder)))
        made.append(RunnerProcess(spec, best_available(), folder, address))
        return made[-1]

    yield run
    for runner in made:
        runner.close()


def guests(runner: RunnerProcess) -> list[psutil.Process]:
    """The runner's Python processes, wherever they were forked."""
    return [process for process in runner._tree._processes() if "python" in process.name()]


def pid_namespace(pid: int) -> int:
    """Its number."""
    return os.stat(f"/proc/{pid}/ns/pid").st_ino


def serving(server: ForkServer) -> psutil.Process:
    """The process that forks."""
    deadline = time.monotonic() + 60
    while not (found := psutil.Process(server.pid).children()):
        assert time.monotonic() < deadline
    return found[0]


def says(runner: RunnerProcess, folder: Path) -> list:
    """What a submission in it saw."""
    with pytest.raises(CandidateCrashedError) as told:
        runner.ask("load", 20.0, folder=str(folder), kind="submission", seed=1, init="", state="")
    text = str(told.value)
    return json.loads(text[text.index("[") : text.rindex("]") + 1].replace("'", '"').replace("None", "null"))


def test_a_submission_sees_in_a_forked_runner_what_it_sees_in_a_started_one(
    start, forks, folder, monkeypatch
):
    monkeypatch.setenv("SECRET", "1")
    (*_, secret, cwd, user, open_fds), (*_, started_cwd, started_user, started_fds) = (
        says(start(address), folder) for address in (forks.address(), "")
    )
    assert secret is None and cwd == started_cwd == str(folder)
    assert len(open_fds) == len(started_fds)
    assert (user == started_user) == (os.geteuid() != 0)


TREATED = """
import resource
lines = [line.split() for line in open("/proc/self/status") if line.startswith("Sig")]
signals = [int(words[1], 16) for words in lines if words[0] in ("SigBlk:", "SigIgn:", "SigCgt:")]
raise RuntimeError(repr([list(resource.getrlimit(number)) for number in range(16)] + signals))
"""


def test_a_forked_runner_is_limited_as_who_asks_for_it(start, forks, folder):
    (folder / "model_new.py").write_text(TREATED)
    forks.address()
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, hard))
    try:
        forked, started = (says(start(address), folder) for address in (forks.address(), ""))
    finally:
        resource.setrlimit(resource.RLIMIT_STACK, (soft, hard))
    assert forked == started and forked[resource.RLIMIT_STACK] == [1 << 20, hard]


NESTED = """
import subprocess
argv = ["unshare", "--user", "--pid", "--fork", "sh", "-c", "echo in; exec sleep 1000"]
inner = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
raise RuntimeError(repr([inner.stdout.readline().strip()]))
"""


def test_what_has_made_a_pid_namespace_of_its_own_is_paused_too(start, forks, folder):
    (folder / "model_new.py").write_text(NESTED)
    runner = start(forks.address())
    if says(runner, folder) != ["in"]:
        pytest.skip("no further namespaces can be made in the sandbox here")
    runner.pause()
    known = {pid_namespace(os.getpid()), pid_namespace(guests(runner)[0].pid)}
    nested = [process for process in runner._tree._processes() if pid_namespace(process.pid) not in known]
    assert [process.status() for process in nested] == [psutil.STATUS_STOPPED]


def test_two_runners_draw_other_numbers(start, forks, folder):
    first, second = (says(start(forks.address()), folder)[:2] for _ in range(2))
    assert not set(first) & set(second)


def test_nothing_of_this_process_is_in_what_runners_are_forked_from(monkeypatch):
    monkeypatch.setenv("SECRET", "of the judge")
    with ForkServer() as server:
        child = serving(server)
        assert b"SECRET" not in Path(f"/proc/{child.pid}/environ").read_bytes()


def test_what_it_loads_asks_cuda_nothing():
    """Once PyTorch has so much as counted GPUs, no fork can use one. A build without CUDA lacks what counts."""
    code = """if True:
        import importlib, os, sys, torch
        asked = []
        torch._C._cuda_getDeviceCount = lambda: asked.append("counted") or 0
        torch._C._cuda_init = lambda: asked.append("started")
        torch.version.cuda, torch.cuda._is_compiled = "13.0", lambda: True
        os.environ["CUDA_HOME"] = "/usr"
        from warpsmith.judge.runner.forking import MODULES
        for module in [*MODULES, *sys.argv[1:]]:
            importlib.import_module(module)
        print(asked)
    """
    for more, asked in (((), "[]"), (("torch.utils.cpp_extension",), "['counted']")):
        done = subprocess.run([sys.executable, "-I", "-c", code, *more], capture_output=True, text=True)
        assert done.stdout.splitlines()[-1:] == [asked], done.stderr


def test_a_paused_runner_stands_still_and_goes_on(start, forks):
    runner = start(forks.address())
    runner.await_ready()
    runner.pause()
    assert guests(runner)
    assert all(process.status() == psutil.STATUS_STOPPED for process in guests(runner))
    runner.resume()
    assert not any(process.status() == psutil.STATUS_STOPPED for process in guests(runner))


@pytest.mark.parametrize(
    ("number", "kind"), [(signal.SIGSEGV, CandidateCrashedError), (signal.SIGKILL, CandidateKilledError)]
)
def test_how_it_ended_is_told(start, forks, number, kind):
    runner = start(forks.address())
    runner.await_ready()
    found = guests(runner)
    (child,) = [process for process in found if process.ppid() in {other.pid for other in found}]
    child.send_signal(number)
    with pytest.raises(kind, match=number.name):
        runner.ask("null", 20.0)


def test_a_closed_runner_is_gone(start, forks):
    runner = start(forks.address())
    runner.await_ready()
    processes = guests(runner)
    runner.close()
    assert len(processes) == 2 and not any(process.is_running() for process in processes)


def test_with_nobody_to_fork_it_a_runner_is_started(start, folder):
    runner = start(str(folder / "nobody"))
    runner.await_ready()
    assert len(guests(runner)) == 1


def test_a_killed_server_ends_its_runners_and_is_started_again(start):
    with ForkServer() as server:
        runner = start(server.address())
        runner.await_ready()
        serving(server).kill()
        deadline = time.monotonic() + 20
        with pytest.raises(CandidateCrashedError):
            while time.monotonic() < deadline:
                runner.ask("null", 20.0)
        after = start(server.address())
        after.await_ready()
        assert len(guests(after)) == 2


def test_a_server_that_ends_before_it_forks_is_nobodys_fault_but_the_machines(start):
    with ForkServer() as server:
        child = serving(server)
        child.suspend()
        runner = start(server.address())
        child.kill()
        with pytest.raises(InfrastructureError):
            runner.await_ready()


@contextlib.contextmanager
def client(server: ForkServer) -> Iterator[socket.socket]:
    """Connected to it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connected:
        with short_path(server.address()) as path:
            connected.connect(path)
        yield connected


def test_who_connects_and_sends_nonsense_harms_nobody(start, forks):
    for said in (b"", b"{}", b"\xff"):
        with client(forks) as asking:
            asking.send(said)
    runner = start(forks.address())
    runner.await_ready()


def test_who_connects_and_says_nothing_keeps_nobody_waiting_and_is_heard_later(start, forks):
    with client(forks) as slow:
        start(forks.address()).await_ready()
        slow.send(b"now")
        assert slow.recv(1) == b""


@pytest.mark.parametrize("said", [b"{}", b"\xff"])
def test_who_sends_other_descriptors_than_sockets_gets_no_second_server(forks, said):
    child = serving(forks)
    with open(os.devnull) as null, client(forks) as asking:
        socket.send_fds(asking, [said], [null.fileno(), null.fileno()])
        assert asking.recv(1) == b""
    deadline = time.monotonic() + 20
    while psutil.Process(forks.pid).children(recursive=True) != [child]:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_it_ends_with_the_process_that_started_it(tmp_path):
    code = f"""if True:
        import os, psutil
        from warpsmith.judge.runner.forkserver import ForkServer
        server = ForkServer()
        while not (children := psutil.Process(server.pid).children()):
            pass
        print(children[0].pid, flush=True)
        os.kill(os.getpid(), {int(signal.SIGKILL)})
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    deadline = time.monotonic() + 20
    while psutil.pid_exists(int(done.stdout)):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become a plain user")
def test_a_plain_user_who_may_make_no_namespace_has_a_server_that_forks_nothing():
    """Its runners could write to the file that they run."""
    if by_name("namespaces").unavailable():
        pytest.skip("namespaces do not work here")
    code = """if True:
        import ctypes, json, os, socket
        from pathlib import Path
        from warpsmith.judge.runner.forkserver import ForkServer, short_path
        if ctypes.CDLL(None).unshare(0x10000000):
            print("null")
            raise SystemExit
        Path("/proc/self/uid_map").write_text("1 1 1")
        Path("/proc/sys/user/max_user_namespaces").write_text("0")
        with ForkServer() as server, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
            with short_path(server.address()) as path:
                client.connect(path)
            ours, theirs = socket.socketpair()
            with theirs:
                socket.send_fds(client, [b"{}"], [theirs.fileno(), theirs.fileno()])
            print(json.dumps([os.geteuid(), ours.recv(1) == b"", server._tree.poll()]))
    """
    end = run_as_plain_user(code)
    said = json.loads(end.output.splitlines()[-1])
    if said is None:
        pytest.skip("a plain user can make no namespace here")
    assert said == [1, True, None]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become a plain user")
@pytest.mark.parametrize(("name", "forked"), [("namespaces", 2), ("bwrap", 0)])
def test_a_plain_users_runner_cannot_change_the_file_that_it_runs(name, forked):
    """Through /proc/self/exe it could, past the sandbox's mounts: the interpreter, or what the next runner finds."""
    if by_name(name).unavailable():
        pytest.skip(f"{name} does not work here")
    code = f"""if True:
        import json, os, sys
        from pathlib import Path
        from warpsmith.judge.runner.forkserver import ForkServer
        from warpsmith.judge.runner.process import RunnerProcess, RunnerSpec
        from warpsmith.sandbox import by_name, python_paths
        from warpsmith.types import Device
        sandbox = by_name({name!r})
        reason, found = sandbox.unavailable(), []
        if reason is None:
            with ForkServer() as server:
                spec = RunnerSpec("it", Device.SIM, python_paths())
                runner = RunnerProcess(spec, sandbox, Path("/tmp/w"), server.address())
                runner.await_ready()
                ways = [
                    lambda exe: open(exe, "r+b").write(b"x"),
                    lambda exe: os.chmod(exe, 0o711),
                    lambda exe: os.utime(exe),
                    lambda exe: os.setxattr(exe, "user.left", b"x"),
                ]
                for process in runner._tree._processes():
                    if process.cmdline()[3:4] == [{MODULE!r}]:
                        found.append([str(process.uids().real)])
                        for way in ways:
                            try:
                                way(f"/proc/{{process.pid}}/exe")
                                found[-1].append("done")
                            except OSError as error:
                                found[-1].append(error.errno)
                runner.close()
        print(json.dumps([reason, found]))
    """
    end = run_as_plain_user(code)
    reason, found = json.loads(end.output.splitlines()[-1])
    if reason is not None:
        pytest.skip(reason)
    # with its parent, which stays in the sandbox
    assert len(found) == forked
    for user, written, *left in found:
        # here the file is another's, which is said before that its mount is read-only
        assert user == "1" and written in (errno.EACCES, errno.EROFS)
        assert left == [errno.EROFS] * 3
