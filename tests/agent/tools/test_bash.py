"""The persistent shell, with what agents do to it."""

import resource
import threading
import time
from pathlib import Path

import psutil
import pytest
from tests.agent.conftest import Caller

from warpsmith.agent.tools import ToolContext, call
from warpsmith.sandbox import LocalSandbox


def test_state_stays(run: Caller, root: Path) -> None:
    assert run("Bash", command="mkdir a; cd a; X=5; f() { echo f$1; }; export Y='a b'").text == "(no output)"
    answer = run("Bash", command="pwd; echo $X; f 1; sh -c 'echo $Y'; set -- 1 2; echo $#")
    assert (answer.text, answer.is_error) == (f"{root}/a\n5\nf1\na b\n2", False)


def test_exit_code_and_both_streams(run: Caller) -> None:
    answer = run("Bash", command="echo out; echo err >&2; echo dev > /dev/stderr; (exit 3)")
    assert (answer.text, answer.is_error) == ("out\nerr\ndev\n[exit code 3]", True)
    assert (
        run("Bash", command="nonesuch").text == "bash: line 1: nonesuch: command not found\n[exit code 127]"
    )
    assert "unexpected EOF" in run("Bash", command="echo 'open").text
    assert run("Bash", command="kill -9 $BASHPID & wait $!").text.endswith("[exit code 137]")
    assert run("Bash", command="# nothing").text == "(no output)"


def test_stdin_is_empty(run: Caller) -> None:
    answer = run(
        "Bash", command="cat; read line; echo [$line]; python3 -c 'print(input())' 2>&1 | tail -1; cat <<< x"
    )
    assert answer.text.startswith("[]\n") and answer.text.endswith("x")
    assert run("Bash", command="echo still here").text == "still here"


def test_the_protocol_is_out_of_reach(run: Caller) -> None:
    command = "for fd in /proc/self/fd/*; do readlink $fd; done | sort | uniq -c; exec 3>&1; cat <&200; echo x >&201"
    assert "Bad file descriptor" in run("Bash", command=command).text
    assert run("Bash", command="set | grep -c marker; echo ok").text.endswith("ok")
    assert run("Bash", command="printf 'a\\0b'; exec > log").text == "a\0b"
    assert run("Bash", command="echo seen").text == "seen"


def test_a_timeout_keeps_the_shell(run: Caller) -> None:
    run("Bash", command="X=5")
    answer = run("Bash", command="echo before; sleep 73601; echo after", timeout=300)
    assert answer.is_error and answer.text.startswith("before\n") and "after\n" not in answer.text
    assert "[stopped after 300 ms" in answer.text
    assert run("Bash", command="echo $X; pgrep -cxf 'sleep 73601'").text == "5\n0\n[exit code 1]"
    assert "stopped" in run("Bash", command="while :; do :; done", timeout=200).text
    assert "stopped" in run("Bash", command="x=$(sleep 60); echo no", timeout=200).text
    assert "stopped" in run("Bash", command="sleep 60 | cat", timeout=200).text
    assert run("Bash", command="echo $X").text == "5"


def test_sigterm_ignored_and_forks_die_at_the_timeout(run: Caller) -> None:
    stubborn = (
        "trap '' TERM HUP; bash -c 'trap \"\" TERM; while :; do sleep 73602; done' & "
        "setsid sleep 73602 & sleep 73602"
    )
    assert "stopped" in run("Bash", command=stubborn, timeout=400).text
    # before it bash may say of its own jobs that they were killed
    assert run("Bash", command="echo; pgrep -cxf 'sleep 73602'; true").text.endswith("\n0")


def test_what_forks_on_and_on_dies_at_the_timeout(run: Caller, root: Path) -> None:
    chain = "f() { sleep 0.01; touch alive; f & }; for i in 1 2 3 4 5 6; do f & done; sleep 60"
    assert "stopped" in run("Bash", command=chain, timeout=400).text
    run("Bash", command="rm -f alive; sleep 0.3")
    assert not (root / "alive").exists()


def test_close_ends_a_running_command(run: Caller, isolated: ToolContext) -> None:
    run("Bash", command="true")
    thread = threading.Thread(target=run, args=("Bash",), kwargs={"command": "sleep 612"})
    thread.start()
    time.sleep(0.3)
    isolated.close()
    thread.join(30)
    assert not thread.is_alive()


def test_earlier_background_processes_survive_a_timeout(run: Caller) -> None:
    run("Bash", command="sleep 73603 > /dev/null & echo")
    run("Bash", command="sleep 73604", timeout=200)
    assert run("Bash", command="pgrep -axf 'sleep 736..' | cut -d' ' -f2-").text == "sleep 73603"


def test_a_function_cannot_be_left_so_the_shell_ends(run: Caller, root: Path) -> None:
    run("Bash", command="mkdir d; cd d; X=5")
    answer = run("Bash", command="f() { while :; do sleep 60; done; }; f; touch ../no", timeout=300)
    assert f"new one in {root}/d: variables are lost" in answer.text
    assert run("Bash", command="echo [$X]; pwd").text == f"[]\n{root}/d"
    assert not (root / "no").exists()


@pytest.mark.parametrize("command", ["echo last; exit 7", "set -e; echo last; (exit 7); echo no"])
def test_the_shell_may_end(run: Caller, root: Path, command: str) -> None:
    assert run("Bash", command=command).text == (
        f"last\n[exit code 7]\n[the shell ended; the next command runs in a new one in {root}: variables are lost]"
    )
    assert run("Bash", command="echo on").text == "on"


def test_the_shell_killed_from_inside(run: Caller) -> None:
    assert "the shell ended" in run("Bash", command="kill -9 $$").text
    assert "the shell ended" in run("Bash", command="exec 2>&1 true; exec true").text
    assert run("Bash", command="echo on").text == "on"


def test_a_flood_is_bounded(run: Caller) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answer = run("Bash", command="echo first; head -c 100000000 /dev/zero | tr '\\0' a; echo; echo last")
    assert answer.text.startswith("first\naaa") and answer.text.endswith("aaa\nlast")
    assert "bytes left out ...]" in answer.text and len(answer.text) < 31_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000
    assert run("Bash", command="echo on").text == "on"


def test_a_flood_that_does_not_end(run: Caller) -> None:
    assert "stopped" in run("Bash", command="yes", timeout=300).text
    # printed between two commands: it comes with the next
    run("Bash", command="(sleep 0.2; echo late) &")
    assert run("Bash", command="sleep 0.6; echo on").text == "late\non"


def test_a_deleted_working_directory(run: Caller, root: Path) -> None:
    run("Bash", command="mkdir -p a/b; cd a/b")
    answer = run("Bash", command="rm -rf ../../a; echo done")
    assert answer.text == f"done\n[the working directory no longer exists; it is now {root}]"
    assert run("Bash", command="pwd").text == str(root)


def test_a_deleted_workspace(root: Path) -> None:
    with ToolContext(root, LocalSandbox()) as context:
        assert call("Bash", {"command": "echo hi"}, context).text == "hi"
        answer = call("Bash", {"command": f"rm -rf {root}; exit"}, context)
        assert "the shell ended" in answer.text
        answer = call("Bash", {"command": "echo hi"}, context)
        assert (answer.text, answer.is_error) == (
            "the workspace folder was deleted: nothing can run any more",
            True,
        )
        for name, arguments in {
            "Glob": {"pattern": "*"},
            "Grep": {"pattern": "x"},
            "Read": {"file_path": "f"},
            "Write": {"file_path": "f", "content": ""},
        }.items():
            assert call(name, arguments, context).is_error


def test_calls_at_once_take_turns(run: Caller) -> None:
    answers: dict[int, str] = {}

    def ask(number: int) -> None:
        answers[number] = run("Bash", command=f"echo {number}; sleep 0.05; echo {number}").text

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {number: f"{number}\n{number}" for number in range(8)}


def test_bytes_that_are_no_text(run: Caller) -> None:
    assert run("Bash", command=r"printf '\xff\xc3\xa9\n'").text == "\ufffdé"
    assert run("Bash", command="echo é").text == "é"
    assert run("Bash", command="echo a\0b").text == "a command cannot hold NUL bytes"


def test_long_commands(run: Caller) -> None:
    assert run("Bash", command=f"X={'a' * 90_000}; echo ${{#X}}").text == "90000"
    assert "at most 100000 characters" in run("Bash", command="a" * 100_001).text


def test_isolation(
    run: Caller, isolated: ToolContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if isinstance(isolated.surroundings.sandbox, LocalSandbox):
        pytest.skip("nothing isolates here")
    monkeypatch.setenv("SECRET_KEY", "s3cret")
    (tmp_path / "secret").write_text("s3cret")
    answer = run("Bash", command=f"cat {tmp_path}/secret; touch /usr/x ../x; env; ls -a {tmp_path}")
    assert "s3cret" not in answer.text
    assert not (tmp_path / "x").exists()
    assert "unreachable" in run("Bash", command="exec 3<>/dev/tcp/1.1.1.1/80").text


def test_files_are_shared_both_ways(run: Caller, root: Path) -> None:
    (root / "old").write_text("old\n")
    run("Write", file_path="new/f", content="1\n")
    assert run("Bash", command="echo 2 >> new/f; cat new/f; touch new/g").text == "1\n2"
    assert "changed since" in run("Edit", file_path="new/f", old_string="1", new_string="x").text
    assert run("Read", file_path="new/f").text == "     1\t1\n     2\t2"
    assert not run("Edit", file_path="new/f", old_string="1", new_string="x").is_error
    assert run("Bash", command="cat new/f").text == "x\n2"


def test_nothing_is_left_behind(root: Path, isolated: ToolContext) -> None:
    call("Bash", {"command": "sleep 611 & setsid sleep 611 &"}, isolated)
    call("Bash", {"command": "sleep 611", "run_in_background": True}, isolated)
    started = time.monotonic()
    isolated.close()
    assert time.monotonic() - started < 20
    assert not [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", "611"]]
