"""`warpsmith bench` as a process, with a scripted policy and judge: resuming, budgets, one writer, what is told."""

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.cli.real import warpsmith
from tests.cli.test_commands import SCRIPTED, TASK, Shell
from tests.llm.server import serving, status

from warpsmith.cli.app import run
from warpsmith.store import RunReader
from warpsmith.types import StopReason

COMMON = ("--device", "sim", "--full-size", "--policy", "scripted", "--out", "run", "--json")
NAMES = ("a", "b", "c", "d")
PATIENCE_S = 240.0


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    (tmp_path / "set").mkdir()
    for number, name in enumerate(NAMES):
        (tmp_path / "set" / f"{name}.py").write_text(TASK.replace("x + 1", f"x + {number}"))
    return Shell(tmp_path)


def bench(shell: Shell, *more: str, **extra: str) -> subprocess.CompletedProcess[str]:
    return shell.run("bench", "--tasks", "set", *COMMON, *more, **extra)


def test_a_whole_run(shell: Shell) -> None:
    done = bench(shell, "--samples", "2", "--jobs", "2")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert {key: answer[key] for key in ("tasks", "samples", "episodes", "passed", "open", "lost", "ending")} == {
        "tasks": 4, "samples": 2, "episodes": 8, "passed": 8, "open": 0, "lost": [], "ending": "done",
    }  # fmt: skip
    assert "8 episodes to go" in done.stderr and "passed 8/8" in done.stderr
    manifest = RunReader(shell.folder / "run").manifest
    assert (manifest.command, manifest.protocol, manifest.policy) == ("bench", "matched", "scripted")
    assert [ref.name for ref in manifest.tasks] == list(NAMES)
    assert len({ref.task_hash for ref in manifest.tasks}) == 4
    assert (manifest.settings["samples"], manifest.settings["seed"]) == (2, 0)
    again = bench(shell, "--samples", "2")
    assert again.returncode == 0 and json.loads(again.stdout) == answer
    # two submissions a task judged in the search and the best afresh; a second sample writes the same
    assert len(shell.judged()) == 4 * 3


def test_killed_at_any_time_the_same_command_goes_on_and_pays_no_verdict_twice(shell: Shell) -> None:
    for kills in range(4):
        process = shell.start("bench", "--tasks", "set", *COMMON, "--jobs", "2", SECONDS="0.15")
        deadline, wanted = time.monotonic() + PATIENCE_S, len(lines(shell)) + 2
        while len(lines(shell)) < min(wanted, 11) and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(0.05 * kills)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=PATIENCE_S)
    before = RunReader(shell.folder / "run")
    paid = len(lines(shell))
    done = bench(shell, "--jobs", "2")
    assert done.returncode == 0 and json.loads(done.stdout)["passed"] == 4, done.stderr
    after = RunReader(shell.folder / "run")
    assert after.verdicts()[: len(before.verdicts())] == before.verdicts()
    # what was stored when it was killed is not asked again: at most one judgement a thread was under way
    assert len(lines(shell)) - paid == 12 - len(before.verdicts())
    questions = Counter((v.task_hash, v.submission_hash) for v in after.verdicts())
    assert len(after.verdicts()) == 12 and max(questions.values()) == 2


def lines(shell: Shell) -> list[str]:
    return shell.judged() if (shell.folder / "judged").exists() else []


def test_ctrl_c_keeps_what_was_done(shell: Shell) -> None:
    process = shell.start("bench", "--tasks", "set", *COMMON, "--jobs", "2", SECONDS="0.2")
    deadline = time.monotonic() + PATIENCE_S
    while len(lines(shell)) < 4:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    printed, errors = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, printed) == (130, "")
    assert "the same command goes on from there" in errors and "Traceback" not in errors
    assert RunReader(shell.folder / "run").failures() == ()
    assert json.loads(bench(shell).stdout)["passed"] == 4


def test_lost_tasks_are_listed_with_status_3_and_tried_again(shell: Shell) -> None:
    lost = bench(shell, LOSE="b")
    assert lost.returncode == 3
    answer = json.loads(lost.stdout)
    assert answer["lost"] == [{"task": "b", "sample": 0, "why": "the worker was lost"}]
    assert (answer["passed"], answer["open"]) == (3, 1) and "lost b, sample 0" in lost.stderr
    again = bench(shell)
    assert again.returncode == 0 and json.loads(again.stdout)["passed"] == 4


def test_an_endpoint_that_takes_no_key_loses_tasks_and_fails_none(shell: Shell) -> None:
    agent = ("--policy", "agent", "--unsafe-local", "--jobs", "1")
    with serving(status(401)) as served:
        refused = bench(shell, *agent, "--model", "openai:tiny", "--endpoint", served.url)
    assert refused.returncode == 3 and "Traceback" not in refused.stderr
    answer = json.loads(refused.stdout)
    assert {lost["why"] for lost in answer["lost"]} == {
        "the model's service takes no question: the server refused the request with status 401; check OPENAI_API_KEY"
    }
    # none counts as failed
    assert (answer["episodes"], answer["passed"], answer["outcomes"]) == (0, 0, {})
    assert answer["causes"][0]["cause"] == "lost to the machine"
    assert answer["causes"][0]["what"] == "model refused" and answer["causes"][0]["samples"] >= 3
    stored = RunReader(shell.folder / "run").episodes()
    assert {(episode.stop, len(episode.turns)) for episode in stored} == {(StopReason.MODEL_REFUSED, 1)}


def test_two_processes_on_one_run_and_another_question_are_refused(shell: Shell) -> None:
    process = shell.start("bench", "--tasks", "set", *COMMON, SECONDS="30")
    try:
        deadline = time.monotonic() + PATIENCE_S
        # the manifest is written by whoever holds the folder
        while not (shell.folder / "run" / "manifest.json").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        second = bench(shell)
        assert second.returncode == 2 and "is being written to by another process" in second.stderr
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE_S)
    other = bench(shell, "--seed", "5")
    assert other.returncode == 2 and "settings.seed was 0, now 5" in other.stderr


def test_the_pool_is_chosen_by_name_and_has_its_own_number_of_workers(shell: Shell) -> None:
    for more, workers in ((("--jobs", "3"), "3"), (("--jobs", "3", "--workers", "2"), "2")):
        done = bench(shell, "--pool", "counting", *more)
        assert done.returncode == 3 and f"a pool of {workers} on sim" in done.stderr


def test_an_episode_budget(shell: Shell) -> None:
    part = bench(shell, "--max-episodes", "3")
    assert part.returncode == 0
    answer = json.loads(part.stdout)
    assert (answer["episodes"], answer["open"], answer["ending"]) == (3, 1, "episode budget")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--max-cost", "3"), "--max-cost needs the price of a model"),
        (("--rules", "paper"), "--rules are the protocol's"),
        (("--protocol", "mine"), "unknown protocol 'mine'"),
        (("--policy", "agent", "--variant", "no-such"), "unknown variant 'no-such'"),
        (
            ("--policy", "agent", "--protocol", "none", "--variant", "no-skill"),
            "--variant is an ablation of a protocol",
        ),
        (("--variant", "no-skill"), "--variant leaves something out of the agent; give --policy agent"),
        (("--policy", "who"), "unknown policy 'who'"),
        (("--pool", "nowhere"), "unknown pool 'nowhere'; choose one of: local"),
        (("--tasks", "nowhere"), "no such file: nowhere"),
    ],
)
def test_options_that_clash(
    shell: Shell, more: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place = str(shell.folder / "set")
    assert run(["bench", "--tasks", place, "--device", "sim", "--out", str(shell.folder / "x"), *more]) == 2
    printed = capsys.readouterr()
    assert said in printed.err and len(printed.err.splitlines()) == 1 and printed.out == ""
    assert not (shell.folder / "x").exists()


def test_a_model_that_costs_money_is_not_started_unasked(shell: Shell) -> None:
    paid = ("--policy", "agent", "--model", "scripted:nothing.json", "--price", "3,15", "--unsafe-local")
    (shell.folder / "nothing.json").write_text('[{"text": "done"}]')
    refused = bench(shell, *paid)
    assert refused.returncode == 2 and "this run may cost money; give --yes or --max-cost" in refused.stderr
    assert os.listdir(shell.folder / "run" / "segments") == ["000001.jsonl"]


def on_a_terminal(shell: Shell, *more: str, typed: str = "") -> tuple[int, str]:
    """Exit status and all that the terminal showed."""
    ours, theirs = pty.openpty()
    command = [sys.executable, str(SCRIPTED), "bench", "--tasks", "set", *COMMON[:-1], *more]
    environment = shell.environment(TERM="xterm", COLUMNS="200")
    process = subprocess.Popen(
        command, cwd=shell.folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    os.write(ours, typed.encode())
    shown = b""
    # reading fails once nobody is at the other end
    with contextlib.suppress(OSError):
        while data := os.read(ours, 1 << 16):
            shown += data
    os.close(ours)
    return process.wait(PATIENCE_S), shown.decode()


def test_on_a_terminal_it_asks_before_it_spends_and_shows_a_bar(shell: Shell) -> None:
    (shell.folder / "script.json").write_text('[{"text": "done"}]')
    paid = ("--policy", "agent", "--model", "scripted:script.json", "--price", "3,15", "--unsafe-local")
    status, shown = on_a_terminal(shell, *paid, "--out", "paid", typed="n\n")
    assert status == 2 and "cost unknown until the first has ended" in shown and "not started" in shown
    status, shown = on_a_terminal(shell)
    assert status == 0 and "4/4" in shown and "passed 4/4" in shown and "Traceback" not in shown


def test_for_a_person(shell: Shell) -> None:
    told = shell.run("bench", "--tasks", "set", *COMMON[:-1], LOSE="d")
    assert told.stdout.splitlines() == [
        "3 of 4 episodes: 3 passed",
        "costs      lost to the machine: 1 sample, 25.0 points of passed: d",
        "lost       d, sample 0: the worker was lost",
        "1 open (done): the same command goes on",
        "report     warpsmith report run",
    ]


def test_real_tasks_by_the_builtin_policy_on_workers_that_stay(tmp_path: Path, shared_caches: Path) -> None:
    pytest.importorskip("torch")
    for name, body in {"scaled": "torch.relu(x) * 2.0", "folded": "torch.tanh(x + 1.0)"}.items():
        (tmp_path / f"{name}.py").write_text(TASK.replace("return x + 1", f"return {body}"))
    (tmp_path / "tasks.txt").write_text("scaled.py\nfolded.py\n")
    argv = ("bench", "--tasks", "list:tasks.txt", "--device", "sim", "--out", "run", "--json")
    # there is nothing to compile ahead on the simulator
    more = ("--protocol", "none", "--compile-ahead", "2")
    done = warpsmith(tmp_path, shared_caches, *argv, *more, TMPDIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["passed"], answer["outcomes"]) == (2, {"passed": 2}), done.stderr
    run = RunReader(tmp_path / "run")
    assert {e.policy for e in run.episodes()} == {"builtin"} and len(run.verdicts()) == 4
    assert list(tmp_path.glob("warpsmith-*")) == []
