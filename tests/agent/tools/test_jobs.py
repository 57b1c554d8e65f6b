"""Background commands: BashOutput and KillBash."""

import time
from pathlib import Path

from tests.agent.conftest import Caller

from warpsmith.agent.context import MAX_JOBS, ToolContext


def until(run: Caller, text: str, **arguments: str) -> str:
    """What BashOutput gives over several calls until `text` is in it."""
    said = ""
    limit = time.monotonic() + 60
    while text not in said and time.monotonic() < limit:
        said += run("BashOutput", bash_id="bash_1", **arguments).text + "\n"
        time.sleep(0.02)
    return said


def test_output_comes_once(run: Caller, root: Path) -> None:
    run("Bash", command="mkdir d; cd d; export X='a b'; Y=2")
    started = run(
        "Bash",
        command="pwd; echo $X $Y; until [ -e go ]; do sleep 0.05; done; exit 4",
        run_in_background=True,
    )
    assert started.text == "started in the background as bash_1: read its output with BashOutput"
    said = until(run, "a b")
    assert f"{root}/d\n" in said and "completed" not in said
    assert run("BashOutput", bash_id="bash_1").text == "[bash_1: running]\n(no new output)"
    (root / "d" / "go").touch()
    assert until(run, "completed").endswith("[bash_1: completed, exit code 4]\n(no new output)\n")
    assert run("KillBash", shell_id="bash_1").text == "bash_1 had ended already"


def test_kill_takes_all_of_it(run: Caller, root: Path) -> None:
    command = "trap '' TERM; (setsid bash -c 'echo up; while :; do sleep 0.05; touch alive; done') & wait"
    run("Bash", command=command, run_in_background=True)
    until(run, "up")
    assert run("KillBash", shell_id="bash_1").text.startswith("bash_1 killed: trap")
    (root / "alive").unlink(missing_ok=True)
    time.sleep(0.3)
    assert not (root / "alive").exists()
    assert run("BashOutput", bash_id="bash_1").text == "[bash_1: killed]\n(no new output)"


def ended(context: ToolContext, job: str) -> None:
    limit = time.monotonic() + 60
    while context.job(job).running() and time.monotonic() < limit:
        time.sleep(0.02)


def test_filter(run: Caller, isolated: ToolContext) -> None:
    run("Bash", command="seq 12; echo end", run_in_background=True)
    ended(isolated, "bash_1")
    said = until(run, "completed", filter="^1|end")
    assert [
        line for line in said.splitlines() if line in {"1", "10", "11", "12", "2", "end"}
    ] == "1 10 11 12 end".split()
    run("Bash", command="echo x", run_in_background=True)
    ended(isolated, "bash_2")
    assert "the pattern or glob is wrong" in run("BashOutput", bash_id="bash_2", filter="(").text


def test_a_flood_is_bounded(run: Caller) -> None:
    run("Bash", command="seq 10000000", run_in_background=True)
    said = until(run, "completed")
    assert "10000000" in said and "bytes left out" in said


def test_unknown_ids_list_the_jobs(run: Caller) -> None:
    assert run("BashOutput", bash_id="bash_1").text == "no background job 'bash_1'. None was started."
    run("Bash", command="sleep 60", run_in_background=True)
    assert (
        run("KillBash", shell_id="1").text == "no background job '1'. There are:\nbash_1: running: sleep 60"
    )


def test_there_are_not_too_many(run: Caller) -> None:
    for _ in range(MAX_JOBS):
        assert not run("Bash", command="sleep 60", run_in_background=True).is_error
    answer = run("Bash", command="sleep 60", run_in_background=True)
    assert answer.is_error and answer.text == "16 background jobs are running: end one with KillBash first"
    run("KillBash", shell_id="bash_3")
    assert not run("Bash", command="sleep 60", run_in_background=True).is_error
