"""Process trees: how they end, what is captured, and that nothing outlives them."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from warpsmith.errors import InfrastructureError
from warpsmith.sandbox.process import Tree, run_tree

DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open(sys.argv[1], 'w').write(str(os.getpid()))
        time.sleep(600)
    os._exit(0)
while not (os.path.exists(sys.argv[1]) and open(sys.argv[1]).read()):
    time.sleep(0.01)
"""


def wait_for(path: Path) -> int:
    """The process id that a child writes to `path`."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if path.exists() and path.read_text():
            return int(path.read_text())
        time.sleep(0.01)
    raise AssertionError(f"{path} was never written")


def gone(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while psutil.pid_exists(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


@pytest.mark.parametrize(
    ("script", "exit_code", "number"),
    [
        ("exit 0", 0, None),
        ("exit 3", 3, None),
        ("kill -SEGV $$", None, 11),
        ("sh -c 'kill -9 $$'; exit $?", 137, 9),
    ],
)
def test_how_it_ended(script, exit_code, number):
    end = run_tree(["sh", "-c", f"echo out; echo err >&2; {script}"], timeout_s=20)
    assert (end.exit_code, end.signal, end.timed_out) == (exit_code, number, False)
    assert end.output.startswith("out\nerr\n") and end.ok == (exit_code == 0)


def test_it_runs_where_and_with_what_it_was_told(tmp_path):
    env = {"PATH": os.environ["PATH"], "ONLY": "this"}
    end = run_tree(
        ["sh", "-c", "pwd; env | grep -v -e ^PWD -e ^_ -e ^SHLVL -e ^OLDPWD | sort"],
        timeout_s=20,
        cwd=tmp_path,
        env=env,
    )
    assert end.output == f"{tmp_path}\nONLY=this\nPATH={os.environ['PATH']}\n"


def test_out_of_time_the_tree_is_killed():
    start = time.monotonic()
    end = run_tree(["sh", "-c", "trap '' TERM INT HUP; sleep 100 & sleep 100"], timeout_s=0.3)
    assert (end.timed_out, end.signal, end.ok) == (True, signal.SIGKILL, False)
    assert 0.3 <= end.seconds <= time.monotonic() - start < 60


def test_a_daemon_that_left_session_and_parent_is_gone_when_the_command_ends(tmp_path):
    assert run_tree([sys.executable, "-c", DAEMON, str(tmp_path / "pid")], timeout_s=20).ok
    assert not psutil.pid_exists(wait_for(tmp_path / "pid"))


def test_kill_tree_leaves_nothing_and_can_be_asked_twice(tmp_path):
    with Tree([sys.executable, "-c", DAEMON + "time.sleep(600)", str(tmp_path / "pid")]) as tree:
        pid = wait_for(tmp_path / "pid")
        assert tree.poll() is None and tree.wait(0.05) is None
        end = tree.kill_tree()
        assert end.signal == signal.SIGKILL and not end.timed_out
        assert not psutil.pid_exists(pid) and not psutil.pid_exists(tree.pid)
        assert tree.kill_tree() is end and tree.poll() is end


def test_leaving_the_block_by_an_error_kills_the_tree(tmp_path):
    with (
        pytest.raises(ZeroDivisionError),
        Tree([sys.executable, "-c", DAEMON + "time.sleep(600)", str(tmp_path / "pid")]),
    ):
        pid = wait_for(tmp_path / "pid")
        raise ZeroDivisionError
    assert not psutil.pid_exists(pid)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_when_this_process_dies_its_trees_die(tmp_path, how):
    code = (
        "import sys; from warpsmith.sandbox.process import run_tree\n"
        "run_tree([sys.executable, '-c', sys.argv[1], sys.argv[2]], timeout_s=600)"
    )
    argv = [sys.executable, "-c", code, DAEMON + "time.sleep(600)", str(tmp_path / "pid")]
    parent = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
    pid = wait_for(tmp_path / "pid")
    parent.send_signal(how)
    _, err = parent.communicate(timeout=20)
    assert gone(pid)
    if how == signal.SIGINT:
        assert err.rstrip().endswith("KeyboardInterrupt") and parent.returncode != 0


def test_a_killed_supervisor_is_made_up_for():
    with Tree(["sh", "-c", "sleep 600 & sleep 600"]) as tree:
        while len(psutil.Process(tree.pid).children(recursive=True)) < 3:
            time.sleep(0.01)
        family = psutil.Process(tree.pid).children(recursive=True)
        os.kill(tree.pid, signal.SIGKILL)
        assert tree.wait(20).signal == signal.SIGKILL
        assert not any(process.is_running() for process in family)


def test_a_flood_of_output_fills_neither_memory_nor_disk(tmp_path):
    log = tmp_path / "log"
    # 1 GiB
    end = run_tree(
        ["sh", "-c", "echo first; head -c 1073741824 /dev/zero | tr '\\0' x; echo; echo last"],
        timeout_s=60,
        log_path=log,
        capture_bytes=1000,
    )
    assert end.ok
    assert end.output == log.read_text()
    assert end.output == (
        "first\n"
        + "x" * 494
        + f"\n[… {(1 << 30) + 6 + 6 - 1000} bytes left out …]\n"
        + "x" * 494
        + "\nlast\n"
    )


def test_short_output_is_kept_whole_and_bad_bytes_are_replaced():
    end = run_tree(["printf", r"a\377b%0100d", "7"], timeout_s=20, capture_bytes=104)
    assert end.output == "a\ufffdb" + "7".zfill(100)
    assert end.tail == end.output


def test_a_log_can_be_watched_while_it_is_written(tmp_path):
    with Tree(["sh", "-c", "echo now; sleep 600"], log_path=tmp_path / "log") as tree:
        deadline = time.monotonic() + 20
        while (tmp_path / "log").read_text() != "now\n" and time.monotonic() < deadline:
            time.sleep(0.01)
        assert (tmp_path / "log").read_text() == tree.output() == "now\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_log_on_a_full_disk_is_an_error_and_the_process_is_gone():
    with pytest.raises(InfrastructureError, match="cannot write the log: No space left on device"):
        run_tree(["seq", "1000"], timeout_s=20, log_path=Path("/dev/full"))


def test_a_file_descriptor_is_passed_on():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        end = run_tree(
            [sys.executable, "-c", f"import os; os.write({theirs.fileno()}, b'hello')"],
            timeout_s=20,
            pass_fds=(theirs.fileno(),),
        )
        assert end.ok and ours.recv(10) == b"hello"


def test_a_passed_socket_closes_when_the_command_closes_it():
    ours, theirs = socket.socketpair()
    with ours, Tree(["sh", "-c", f"exec {theirs.fileno()}>&-; sleep 600"], pass_fds=(theirs.fileno(),)):
        theirs.close()
        ours.settimeout(20)
        assert ours.recv(1) == b""


def test_the_child_has_default_signals_and_no_descriptors_of_ours():
    end = run_tree(["sh", "-c", "grep SigIgn /proc/self/status; ls /proc/self/fd"], timeout_s=20)
    name, ignored, *descriptors = end.output.split()
    # 32 and 33 are the C library's own: posix_spawn, which make uses, leaves them ignored, and nobody can reset them
    own = 1 << (32 - 1) | 1 << (33 - 1)
    assert (name, int(ignored, 16) & ~own, descriptors) == ("SigIgn:", 0, ["0", "1", "2", "3"])


def _no_more_descriptors_than(count):
    """The thread that copies output closes its end a moment after the process has gone."""
    deadline = time.monotonic() + 20
    while len(os.listdir("/proc/self/fd")) > count:
        assert time.monotonic() < deadline, sorted(os.listdir("/proc/self/fd"))
        time.sleep(0.01)


def test_what_cannot_be_run_is_one_line(tmp_path):
    fds = len(os.listdir("/proc/self/fd"))
    with pytest.raises(InfrastructureError, match="cannot run no-such-program: no such program"):
        run_tree(["no-such-program"], timeout_s=1)
    with pytest.raises(InfrastructureError, match=r"cannot run true in .*: No such file or directory"):
        run_tree(["true"], timeout_s=1, cwd=tmp_path / "missing")
    with pytest.raises(InfrastructureError, match=r"cannot write .*: No such file or directory"):
        run_tree(["true"], timeout_s=1, log_path=tmp_path / "missing/log")
    _no_more_descriptors_than(fds)


def test_nothing_of_ours_is_left_open_or_running():
    before = len(os.listdir("/proc/self/fd")), len(psutil.Process().children())
    for _ in range(5):
        run_tree(["true"], timeout_s=20)
    _no_more_descriptors_than(before[0])
    assert len(psutil.Process().children()) == before[1]


@pytest.mark.parametrize("killed", [True, False])
def test_threads_that_wait_look_and_kill_at_once_are_told_one_end(killed):
    told, begun = [], threading.Barrier(7)

    def look(tree):
        begun.wait()
        while (end := tree.poll()) is None:
            pass
        told.append(end)

    def wait(tree):
        begun.wait()
        told.append(tree.wait(30))

    def kill(tree):
        begun.wait()
        told.append(tree.kill_tree() if killed else tree.wait())

    for _ in range(5):
        told.clear()
        with Tree(["sh", "-c", "sleep 60" if killed else "sleep 0.1; exit 3"]) as tree:
            threads = [
                threading.Thread(target=work, args=(tree,)) for work in (look, look, wait, wait, kill, kill)
            ]
            for thread in threads:
                thread.start()
            begun.wait()
            for thread in threads:
                thread.join(60)
        assert len(told) == 6 and set(told) == {tree.kill_tree()}
        assert (told[0].signal == signal.SIGKILL) if killed else (told[0].exit_code == 3)
