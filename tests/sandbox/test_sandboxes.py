"""What a program in a sandbox can and cannot do; the same for every kind that isolates."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest
from tests.sandbox.entered import Entered
from tests.sandbox.plain_user import run_as_plain_user

from warpsmith.errors import InfrastructureError, UsageError
from warpsmith.sandbox import SANDBOXES, LocalSandbox, best_available, by_name, python_paths
from warpsmith.sandbox.process import Tree, run_tree
from warpsmith.types.protocols import SandboxSpec, SandboxUser
from warpsmith.types.users import OWN_UIDS

MADE = [kind() for kind in SANDBOXES if kind is not LocalSandbox]
ENTERED = [Entered(made) for made in MADE if made.enterable]


@pytest.fixture(
    params=MADE + ENTERED, ids=lambda made: f"{made.name}{'-entered' if isinstance(made, Entered) else ''}"
)
def sandbox(request):
    """Each that isolates, with programs that it starts and, where that can be, with such as enter it."""
    made = request.param
    if reason := made.unavailable():
        pytest.skip(reason)
    return made


@pytest.fixture
def job():
    """A private folder such as the judge makes: mode 700, with a readable file and a folder to write to."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "input.txt").write_text("input")
        (folder / "out").mkdir()
        yield folder


def spec_for(job: Path, **more) -> SandboxSpec:
    fields = {"cwd": str(job), "read_only": (str(job), *python_paths()), "writable": (str(job / "out"),)}
    return SandboxSpec(**(fields | more))


def run(sandbox, argv, spec, **more):
    return run_tree(sandbox.command(argv, spec), timeout_s=60, **more)


def sh(sandbox, script, spec) -> str:
    return run(sandbox, ["sh", "-c", script], spec).output


@pytest.mark.parametrize("user", SandboxUser)
def test_another_user_with_no_privileges(sandbox, job, user):
    script = "id -u; id -g; id -G; grep -E '^(Cap|NoNewPrivs)' /proc/self/status"
    out = sh(sandbox, script, spec_for(job, user=user)).split()
    own = user is SandboxUser.OWN and os.geteuid() == 0
    assert int(out[0]) in (OWN_UIDS if own else {65534})
    assert out[1] == "65534" and set(out[2:-12]) == {"65534"}
    assert out[-12:] == [
        *(word for name in ("Inh", "Prm", "Eff", "Bnd", "Amb") for word in (f"Cap{name}:", "0" * 16)),
        "NoNewPrivs:",
        "1",
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="a plain user has a user namespace each")
def test_users_of_their_own_are_not_each_others(sandbox, job):
    """Each owns what it writes, and neither counts as the other, whatever it may write and whatever it is called."""
    script = "echo x >out/$1; env | grep -c SANDBOX_UID; id -u; read wait"
    argv = ["sh", "-c", script, "sh"]
    read_fd, write_fd = os.pipe()
    both, said = [], []
    try:
        for name in ("a", "b"):
            command = sandbox.command([*argv, name], spec_for(job))
            both.append(subprocess.Popen(command, stdin=read_fd, stdout=subprocess.PIPE, text=True))
            # the first goes on running; the folder is the latest one's
            said.append([int(both[-1].stdout.readline()) for _ in range(2)])
    finally:
        os.close(write_fd)
        for process in both:
            process.communicate(timeout=60)
        os.close(read_fd)
    assert [hidden for hidden, _ in said] == [0, 0]
    first, second = (uid for _, uid in said)
    assert first != second and {first, second} < set(OWN_UIDS)
    assert (job / "out/b").stat().st_uid == second
    sh(sandbox, "echo x >out/c", spec_for(job, user=SandboxUser.SHARED))
    assert (job / "out/c").stat().st_uid == 65534


def test_the_job_folder_is_read_only_but_for_the_writable_path(sandbox, job):
    script = "pwd; cat input.txt; echo x >input.txt; echo x >new; mkdir d; echo made >out/new; cat out/new"
    out = sh(sandbox, script, spec_for(job))
    assert out.startswith(f"{job}\ninput") and out.endswith("made\n")
    assert out.count("Read-only file system") + out.count("Permission denied") == 3
    assert (job / "out/new").read_text() == "made\n"
    assert sorted(p.name for p in job.iterdir()) == ["input.txt", "out"]


def test_nothing_else_can_be_written(sandbox, job):
    code = """if True:
        import os, json
        wrote = []
        for folder, names, _ in os.walk('/'):
            if folder == '/proc': names.clear()
            try:
                path = os.path.join(folder, 'probe')
                open(path, 'w').close(); os.unlink(path); wrote.append(folder)
            except OSError: pass
        print(json.dumps(sorted(wrote)))
    """
    spec = spec_for(job, read_only=(str(job), *python_paths()))
    wrote = json.loads(run(sandbox, [sys.executable, "-I", "-S", "-c", code], spec).output)
    assert wrote == sorted(["/dev/shm", "/tmp", str(job / "out")])


def test_what_lies_outside_the_view_cannot_be_seen(sandbox, job, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("expected output")
    secret.chmod(0o644)
    homes = [path for path in ("/home", "/var", "/mnt", "/srv", "/run") if os.path.isdir(path)]
    # where the interpreter itself lies, that much must be seen
    homes = [path for path in homes if not any(own.startswith(f"{path}/") for own in python_paths())]
    out = sh(sandbox, f"cat {secret} /proc/1/root{secret}; ls -d {' '.join(homes)}; ls /tmp", spec_for(job))
    assert "expected" not in out
    assert out.count("No such file or directory") == len(homes) + 1 + out.count("/proc/1/root") - out.count(
        "denied"
    )


def test_host_processes_are_neither_seen_nor_reached(sandbox, job):
    out = sh(
        sandbox,
        f"ls -d /proc/[0-9]* | wc -l; kill -0 {os.getppid() + 10**6}; ls -d /proc/{os.getpid()}",
        spec_for(job),
    )
    assert int(out.split()[0]) < 10
    assert f"/proc/{os.getpid()}': No such file" in out or os.getpid() < 100


def test_no_network_and_own_host_namespaces(sandbox, job):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = f"""if True:
            import os, socket
            for address in (('127.0.0.1', {port}), ('1.1.1.1', 53)):
                try: socket.create_connection(address, timeout=2); print('connected')
                except OSError as error: print(type(error).__name__)
            print(*(os.readlink('/proc/self/ns/' + n) for n in ('mnt', 'pid', 'net', 'ipc', 'uts')))
        """
        out = run(sandbox, [sys.executable, "-I", "-S", "-c", code], spec_for(job)).output
    assert "connected" not in out
    ours = {os.readlink(f"/proc/self/ns/{name}") for name in ("mnt", "pid", "net", "ipc", "uts")}
    theirs = out.splitlines()[-1].split()
    assert len(theirs) == 5 and not ours & set(theirs)


def test_tmp_is_private_and_of_the_given_size(sandbox, job):
    mark = Path(tempfile.mkdtemp())
    try:
        spec = spec_for(job, tmp_bytes=4 << 20)
        out = sh(
            sandbox,
            f"ls -d {mark}; for d in /tmp /dev/shm; do x=$d/{mark.name}-x; head -c 8m /dev/zero >$x; wc -c <$x; done",
            spec,
        )
        assert f"{mark}': No such file" in out
        assert [int(line) for line in out.splitlines() if line.isdigit()] == [4 << 20] * 2
        assert not Path(f"{mark}-x").exists() and not Path(f"/dev/shm/{mark.name}-x").exists()
    finally:
        mark.rmdir()


def test_limits_on_file_size_time_and_address_space(sandbox, job):
    spec = spec_for(job, max_file_bytes=1000, cpu_seconds=1)
    assert run(sandbox, ["sh", "-c", "exec head -c 5000 /dev/zero >out/x"], spec).signal == 25
    assert (job / "out/x").stat().st_size == 1000
    end = run(sandbox, ["sh", "-c", "while :; do :; done"], spec)
    assert end.signal in (9, 24) and not end.timed_out
    assert sh(sandbox, "ulimit -v; ulimit -c", spec).split() == ["unlimited", "0"]


@pytest.mark.parametrize("kind", SANDBOXES, ids=lambda kind: kind.name)
def test_where_memory_runs_out_what_runs_here_goes_first(kind, job):
    made = kind()
    if reason := made.unavailable():
        pytest.skip(reason)
    assert sh(made, "cat /proc/self/oom_score_adj", spec_for(job)).strip() == "1000"


def test_a_fork_bomb_is_bounded_and_gone(sandbox, job):
    code = """if True:
        import os, time
        made = 0
        try:
            for made in range(1000):
                if os.fork() == 0: time.sleep(600); os._exit(0)
        except BlockingIOError: pass
        print('made', made)
    """
    end = run(sandbox, [sys.executable, "-I", "-S", "-c", code], spec_for(job, max_processes=64))
    assert end.ok and 30 < int(end.output.split()[1]) < 64
    # ids of other users' processes are told apart by their command line
    assert not [
        p for p in psutil.process_iter(["cmdline"]) if "'made', made" in " ".join(p.info["cmdline"] or ())
    ]


@pytest.mark.parametrize("how", ["kill_tree", "wrapper alone"])
def test_a_daemon_in_a_session_of_its_own_dies_with_the_wrapper(sandbox, job, how):
    token = f"warpsmith-daemon-{os.getpid()}"
    code = f"""if True:
        import os, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                open('out/ready', 'w').close()
                os.execv('/bin/sh', ['{token}', '-c', 'sleep 600; true'])
            os._exit(0)
        time.sleep(600)
    """

    def daemons():
        return [p.pid for p in psutil.process_iter(["cmdline"]) if token == (p.info["cmdline"] or [""])[0]]

    argv = sandbox.command([sys.executable, "-I", "-S", "-c", code], spec_for(job))
    deadline = time.monotonic() + 20
    if how == "kill_tree":
        with Tree(argv):
            while not daemons():
                assert time.monotonic() < deadline
        assert not daemons()
        return
    wrapper = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
    while not daemons():
        assert time.monotonic() < deadline and wrapper.poll() is None
    wrapper.kill()
    wrapper.wait()
    while daemons():
        assert time.monotonic() < deadline


def test_passed_sockets_carry_memory_in_and_results_out(sandbox, job):
    memory = os.memfd_create("inputs")
    os.write(memory, b"inputs")
    ours, theirs = socket.socketpair()
    code = f"""if True:
        import os, socket
        s = socket.socket(fileno={theirs.fileno()})
        data, fds, *_ = socket.recv_fds(s, 10, 1)
        s.send(os.pread(fds[0], 100, 0).upper())
    """
    with (
        ours,
        Tree(
            sandbox.command([sys.executable, "-I", "-S", "-c", code], spec_for(job)),
            pass_fds=(theirs.fileno(),),
        ) as tree,
    ):
        theirs.close()
        socket.send_fds(ours, [b"x"], [memory])
        ours.settimeout(20)
        assert ours.recv(100) == b"INPUTS"
        assert tree.wait(20).ok
    os.close(memory)


@pytest.mark.parametrize(("script", "code"), [("exit 7", 7), ("kill -SEGV $$", 139), ("kill -ABRT $$", 134)])
def test_exit_codes_come_back(sandbox, job, script, code):
    end = run(sandbox, ["sh", "-c", script], spec_for(job))
    assert end.exit_code == code
    assert end.signal == (None if code < 128 else code - 128)


def test_odd_names_of_paths_and_arguments_survive(sandbox, job):
    folder = job / "a 'b' \"c\" $d\\e;f"
    folder.mkdir()
    spec = spec_for(job, cwd=str(folder), writable=(str(folder),))
    out = run(
        sandbox, ["sh", "-c", 'pwd; printf "%s|" "$@"; echo ok >made', "sh", "", "$x 'y'", "--"], spec
    ).output
    assert out == f"{folder}\n|$x 'y'|--|"
    assert (folder / "made").read_text() == "ok\n"


def test_this_python_and_torch_work_inside(sandbox, job):
    pytest.importorskip("torch")
    code = "import torch, warpsmith.types; print(float(torch.ones(3).sum()))"
    end = run(
        sandbox,
        [sys.executable, "-I", "-c", code],
        spec_for(job),
        env={"PATH": os.environ["PATH"], "HOME": "/tmp"},
    )
    assert end.output.splitlines()[-1] == "3.0"


@pytest.mark.parametrize("parent", ["/root", "/tmp"])
def test_a_package_under_a_closed_or_hidden_folder_is_seen(sandbox, job, parent):
    if not os.access(parent, os.W_OK):
        pytest.skip(f"{parent} cannot be written to")
    folder = Path(tempfile.mkdtemp(dir=parent))
    try:
        source = folder / "clone/src"
        source.mkdir(parents=True)
        (source / "module.py").write_text("print('imported')")
        spec = spec_for(job, read_only=(str(source), *python_paths()))
        code = f"import sys; sys.path.insert(0, {str(source)!r}); import module"
        assert run(sandbox, [sys.executable, "-I", "-c", code], spec).output == "imported\n"
    finally:
        shutil.rmtree(folder)


def test_with_a_gpu_asked_for_it_still_starts(sandbox, job):
    out = sh(sandbox, "ls /dev; ls -d /sys/bus/pci /sys/devices", spec_for(job, gpu=True))
    assert {path.name for path in Path("/dev").glob("nvidia*")} <= set(out.split())


def test_starting_is_cheap(sandbox, job):
    times = []
    for _ in range(5):
        start = time.perf_counter()
        subprocess.run(sandbox.command(["true"], spec_for(job)), check=True)
        times.append(time.perf_counter() - start)
    # 40 to 70 ms on a machine that does nothing else; a container takes longer
    assert min(times) < (60 if sandbox.name == "docker" else 2)


def test_wrong_paths_are_one_line(sandbox, job):
    with pytest.raises(InfrastructureError, match="cannot show /no/such in the sandbox: it does not exist"):
        sandbox.command(["true"], spec_for(job, read_only=("/no/such",)))
    with pytest.raises(UsageError, match="the sandbox never shows /"):
        sandbox.command(["true"], spec_for(job, writable=("/",)))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become a plain user")
@pytest.mark.parametrize("name", [kind.name for kind in SANDBOXES if kind is not LocalSandbox])
def test_a_plain_user_gets_a_sandbox_or_a_reason(name):
    """As user 1 with a Python that it can read; user namespaces may be forbidden, then the reason is a line."""
    code = """if True:
        import json, subprocess, sys
        from warpsmith.sandbox import by_name
        from warpsmith.types.protocols import SandboxSpec
        sandbox = by_name(sys.argv[1])
        reason = sandbox.unavailable()
        out = ''
        if reason is None:
            spec = SandboxSpec(cwd='/tmp/w', writable=('/tmp/w',), max_processes=32)
            script = 'id -u; grep CapBnd /proc/self/status; echo x >/tmp/w/made && echo made; ls /home'
            out = subprocess.run(sandbox.command(['sh', '-c', script], spec), capture_output=True, text=True).stdout
        print(json.dumps([reason, out]))
    """
    if by_name("namespaces").unavailable():
        pytest.skip("needs mount namespaces")
    end = run_as_plain_user(code, name)
    reason, out = json.loads(end.output)
    if reason is not None:
        assert "\n" not in reason
        pytest.skip(reason)
    assert out == "65534\nCapBnd:\t0000000000000000\nmade\n"


def test_the_table():
    assert [kind.name for kind in SANDBOXES] == ["namespaces", "bwrap", "docker", "none"]
    assert by_name("none").name == "none"
    assert best_available().unavailable() is None
    with pytest.raises(UsageError, match="unknown sandbox 'jail'") as caught:
        by_name("jail")
    assert caught.value.hint == "choose one of namespaces, bwrap, docker, none"


def test_no_isolation_runs_in_the_folder_with_limits(job):
    spec = SandboxSpec(cwd=str(job / "out"), max_file_bytes=1000)
    end = run(
        LocalSandbox(), ["sh", "-c", 'pwd; echo "$1"; exec head -c 5000 /dev/zero >x', "sh", "a b"], spec
    )
    assert end.output == f"{job / 'out'}\na b\n" and end.signal == 25
    assert (job / "out/x").stat().st_size == 1000


def test_a_tool_that_is_not_installed_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert by_name("namespaces").unavailable() == "unshare is not installed"
    assert by_name("bwrap").unavailable() == "bwrap is not installed"
    assert best_available().name == "none"
    with pytest.raises(InfrastructureError) as caught:
        best_available("bwrap")
    assert str(caught.value) == (
        "nothing here isolates a submission as bwrap does: unshare is not installed; bwrap is not installed"
    )
    with pytest.raises(UsageError, match="unknown sandbox 'chroot'"):
        best_available("chroot")
