"""A model's commands try to leave their sandbox, through the shell that the model is given."""

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from warpsmith.agent.context import ToolContext
from warpsmith.agent.tools import call
from warpsmith.sandbox import SANDBOXES, LocalSandbox
from warpsmith.sandbox.process import run_tree
from warpsmith.types.protocols import Sandbox, SandboxSpec

SECRET = "the-expected-output"
KEY = "WARPSMITH_TEST_API_KEY"


@pytest.fixture(
    params=[kind for kind in SANDBOXES if kind is not LocalSandbox],
    ids=lambda kind: kind.name,
    scope="module",
)
def isolating(request: pytest.FixtureRequest) -> Sandbox:
    made = request.param()
    if reason := made.unavailable():
        pytest.skip(reason)
    return made


class Cell:
    """A workspace with what must stay out of reach beside it, and a shell in it."""

    def __init__(self, base: Path, context: ToolContext):
        self.base, self.root, self._context = base, base / "workspace", context

    def sh(self, command: str) -> str:
        return call("Bash", {"command": command, "timeout": 60_000}, self._context).text


@pytest.fixture(scope="module")
def cell(isolating: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cell]:
    base = tmp_path_factory.mktemp("cell")
    for name in ("workspace", "other_workspace", "store", "judge"):
        (base / name).mkdir()
    for path in (
        base / "other_workspace/model_new.py",
        base / "store/verdicts.jsonl",
        base / "judge/expected.pt",
    ):
        path.write_text(SECRET)
        path.chmod(0o666)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(KEY, SECRET)
        with ToolContext(base / "workspace", isolating) as context:
            yield Cell(base, context)


def test_the_store_the_judge_and_other_workspaces(cell: Cell) -> None:
    for name in ("other_workspace/model_new.py", "store/verdicts.jsonl", "judge/expected.pt"):
        for path in (
            f"../{name}",
            f"{cell.base}/{name}",
            f"/proc/1/root{cell.base}/{name}",
            f"/proc/1/cwd/../{name}",
        ):
            said = cell.sh(f"cat {path}; echo changed >{path}")
            assert SECRET not in said and "[exit code" in said
        assert (cell.base / name).read_text() == SECRET
    assert SECRET not in cell.sh(f"grep -rsh {SECRET} /dev/shm /tmp /run /var /home /root /etc; true")


def test_links_and_swapped_folders(cell: Cell) -> None:
    said = cell.sh(
        f"ln -sfn {cell.base}/store out; cat out/verdicts.jsonl; echo x >out/new; "
        f"ln {cell.base}/store/verdicts.jsonl hard; "
        "for i in $(seq 300); do ln -sfn /etc swap; ls swap/shadow; rm swap; mkdir swap; rmdir swap; done"
    )
    assert SECRET not in said and sorted(p.name for p in (cell.base / "store").iterdir()) == [
        "verdicts.jsonl"
    ]
    # the file tools run outside the sandbox, on what the commands left
    for path in ("out/verdicts.jsonl", f"{cell.base}/store/verdicts.jsonl", "../store/verdicts.jsonl"):
        answer = call("Read", {"file_path": path}, cell._context)
        assert answer.is_error and SECRET not in answer.text


def test_a_link_swapped_while_the_tools_write(cell: Cell) -> None:
    victim = cell.base / "judge/expected.pt"
    started = call(
        "Bash",
        {
            "command": f"while :; do ln -sfn {cell.base}/judge d; rm -f d; mkdir -p d; rm -rf d; done",
            "run_in_background": True,
        },
        cell._context,
    )
    name = started.text.split(" as ")[1].split(":")[0]
    until = time.monotonic() + 3
    while time.monotonic() < until:
        call("Write", {"file_path": "d/expected.pt", "content": "forged"}, cell._context)
        assert SECRET not in call("Read", {"file_path": "d/expected.pt"}, cell._context).text
    call("KillBash", {"shell_id": name}, cell._context)
    assert victim.read_text() == SECRET


def test_the_environment_and_our_processes(cell: Cell) -> None:
    said = cell.sh("env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; ls /proc | grep -c '^[0-9]'")
    assert KEY not in said and SECRET not in said
    assert int(said.splitlines()[-1]) < 15
    said = cell.sh(f"kill -9 {os.getpid()}; kill -9 -1; ls -d /proc/{os.getpid()}/fd")
    assert os.getpid() < 100 or "No such process" in said or "killed" in said


def test_no_network(cell: Cell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        said = cell.sh(
            f'for to in 127.0.0.1/{port} 1.1.1.1/53 169.254.169.254/80; do timeout 5 bash -c "exec 3<>/dev/tcp/$to" '
            "&& echo connected; done; cat /proc/net/dev | tail -n +3"
        )
    assert "connected" not in said
    assert [
        line.split(":")[0].strip() for line in said.splitlines() if ":" in line and "bash" not in line
    ] in (["lo"], [])


def test_sockets_of_other_agents(cell: Cell) -> None:
    with socket.socket(socket.AF_UNIX) as theirs, socket.socket(socket.AF_UNIX) as abstract:
        theirs.bind(f"{os.path.relpath(cell.base)}/other_workspace/judge.sock")
        os.chmod(cell.base / "other_workspace/judge.sock", 0o777)
        abstract.bind(f"\0warpsmith-test-{os.getpid()}")
        theirs.listen()
        abstract.listen()
        said = cell.sh(
            f"""python3 - <<'END'
import socket
for address in ("{cell.base}/other_workspace/judge.sock", "../other_workspace/judge.sock",
                "\\0warpsmith-test-{os.getpid()}", "/var/run/docker.sock", "/run/docker.sock"):
    try:
        socket.socket(socket.AF_UNIX).connect(address)
        print("connected")
    except OSError as error:
        print("refused")
END"""
        )
    assert said.split() == ["refused"] * 5


def test_homes_and_system_files(cell: Cell) -> None:
    home = os.path.expanduser("~")
    said = cell.sh(
        f"ls -A {home}; ls -A /root /home; cat /etc/shadow; cat ~/.ssh/* ~/.netrc; "
        "echo x >/etc/passwd; echo x >/usr/x"
    )
    assert "root:$" not in said and "root:*" not in said and "root:!" not in said
    assert said.count("No such file") + said.count("denied") + said.count("Read-only") >= 6
    assert not Path("/usr/x").exists()


def test_kernel_files(cell: Cell) -> None:
    said = cell.sh(
        "echo 1 >/proc/sys/kernel/core_pattern && echo wrote; echo b >/proc/sysrq-trigger && echo wrote; "
        "echo x >/sys/kernel/uevent_helper && echo wrote; mkdir /sys/fs/cgroup/x && echo wrote; "
        "cat /proc/kcore >/dev/null && echo wrote; head -c 1 /sys/class/net/eth0/address && echo wrote; "
        "echo 0 >/proc/sys/kernel/yama/ptrace_scope && echo wrote; true"
    )
    assert "wrote" not in said


def test_devices_mounts_and_privileges(cell: Cell) -> None:
    said = cell.sh(
        "ls /dev; mknod disk b 8 0 && echo did; mount -t tmpfs none /tmp && echo did; chroot / true && echo did; "
        "unshare -m true && echo did; nsenter -t 1 -m true && echo did; dmesg >/dev/null && echo did; "
        "chown root model && echo did; true"
    )
    assert "did" not in said.split()
    names = {name for name in said.split() if "/" not in name}
    assert not names & {"sda", "vda", "kvm", "mem", "kmsg", "fuse", "nvidia0", "nvidiactl", "mapper"}


def test_setuid_gains_nothing(cell: Cell) -> None:
    said = cell.sh(
        "cp /bin/sh mine; chmod 6755 mine; ./mine -pc 'id -u'; for p in su sudo mount; do $p -c true; done; id -u"
    )
    assert "0" not in said.split() and said.split().count("65534") >= 2
    # outside, where the copy lies, it belongs to the same powerless user
    assert (cell.root / "mine").stat().st_uid != 0
    assert "NoNewPrivs:\t1" in cell.sh("grep NoNewPrivs /proc/self/status")


def test_ptrace_reaches_nothing_of_ours(cell: Cell) -> None:
    said = cell.sh(
        f"""python3 - <<'END'
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
for pid in ({os.getpid()}, {os.getppid()}):
    print("attached" if libc.ptrace(16, pid, 0, 0) == 0 else "refused")
END
head -c 1 /proc/1/mem && echo attached; true"""
    )
    assert "attached" not in said and said.split().count("refused") == 2


def test_inherited_descriptors(cell: Cell) -> None:
    with (cell.base / "judge/expected.pt").open() as held:
        os.set_inheritable(held.fileno(), True)
        said = cell.sh("for fd in /proc/$$/fd/*; do readlink $fd; done")
    assert SECRET not in said and "expected.pt" not in said


def test_what_is_left_running_ends_with_the_episode(isolating: Sandbox, tmp_path: Path) -> None:
    root = tmp_path / "w"
    root.mkdir()
    with ToolContext(root, isolating) as context:
        call(
            "Bash",
            {"command": "setsid sh -c 'while :; do date +%s%N >beat; sleep 0.05; done' >/dev/null 2>&1 &"},
            context,
        )
        until = time.monotonic() + 60
        while not (root / "beat").exists():
            assert time.monotonic() < until
            time.sleep(0.05)
    last = (root / "beat").read_text()
    time.sleep(0.5)
    assert (root / "beat").read_text() == last


def test_starting_is_cheap(isolating: Sandbox, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    command = isolating.command(["true"], SandboxSpec(cwd=str(tmp_path), writable=(str(tmp_path),)))
    times = []
    for _ in range(8):
        begun = time.monotonic()
        assert run_tree(command, timeout_s=60).ok
        times.append(time.monotonic() - begun)
    print(f"{isolating.name}: {min(times) * 1000:.0f} ms at best")
    # the machine may be busy: what is held is the order of magnitude
    assert min(times) < (60.0 if isolating.name == "docker" else 1.0)
