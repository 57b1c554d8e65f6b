"""Whatever a model does, the episode ends for the right reason and is stored whole."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.agent.loop import DONE, VERIFY, play, says, scripted, writes

from warpsmith.agent.settings import AgentSettings
from warpsmith.llm.scripted import ScriptedCall, ScriptedReply
from warpsmith.report.transcript import transcript
from warpsmith.rollout import Limits
from warpsmith.rollout.journal import journal_path, read_journal
from warpsmith.sandbox import LocalSandbox
from warpsmith.store import RunReader
from warpsmith.types import StopReason
from warpsmith.types.llm import Entry, Finish, Role, Usage

ROOT = Path(__file__).resolve().parents[2]


def results(entries: tuple[Entry, ...]) -> list[str]:
    return [e.message.text for e in entries if e.message is not None and e.message.role is Role.TOOL]


def test_best_and_final_answer_are_both_kept(tmp_path: Path) -> None:
    llm = scripted(says("a", writes("good one"), VERIFY), says("b", writes("bad two"), VERIFY), DONE)
    episode, entries = play(tmp_path, llm)
    assert episode.stop is StopReason.FINISHED and len(episode.turns) == 3
    run = RunReader(tmp_path)
    assert episode.best_submission_hash and episode.answer_submission_hash
    best = run.submission(episode.best_submission_hash)
    last = run.submission(episode.answer_submission_hash)
    assert best and last
    assert (best.files["model_new.py"], last.files["model_new.py"]) == ("# good one\n", "# bad two\n")
    assert episode.reward and episode.reward.milestone == 1
    assert episode.answer_reward and episode.answer_reward.milestone == -1
    assert episode.usage and episode.usage.input_tokens == sum(
        t.usage.input_tokens for t in episode.turns if t.usage
    )
    assert [e.judged is not None for e in entries].count(True) == 2
    page = transcript(episode, entries, {v.content_hash: v for v in run.verdicts()})
    assert "## Turn 3" in page and "**Verify**" in page and "ended: finished" in page
    assert not (tmp_path / "work").exists()


def test_each_turn_is_asked_with_a_seed_of_its_own(tmp_path: Path) -> None:
    replies = says("a", writes("good one"), VERIFY), DONE
    seeded, unseeded = scripted(*replies), scripted(*replies)
    episode, _ = play(tmp_path / "seeded", seeded, seed=(1 << 31) - 1)
    assert episode.seed == (1 << 31) - 1
    assert [question.seed for question in seeded.asked] == [(1 << 31) - 1, 0]
    other, _ = play(tmp_path / "unseeded", unseeded)
    assert [question.seed for question in unseeded.asked] == [None, None]
    assert other.episode_id != episode.episode_id


@pytest.mark.parametrize("skill", [True, False])
def test_the_skill_is_in_prompt_and_folder_or_in_neither(tmp_path: Path, skill: bool) -> None:
    llm = scripted(says("a", ("Bash", {"command": "ls"})), DONE)
    _, entries = play(tmp_path, llm, settings=AgentSettings(skill=skill))
    assert ("SKILL.md" in results(entries)[0]) is skill
    system = next(e.message.text for e in entries if e.message and e.message.role is Role.SYSTEM)
    assert ("cuda_extension" in system) is skill


def test_calls_that_fit_nothing_are_answered_and_counted(tmp_path: Path) -> None:
    odd = ScriptedReply(
        calls=(
            ScriptedCall(name="Reed", arguments={"file_path": "model.py"}),
            ScriptedCall(name="Read", raw='{"file_path": "mod'),
            ScriptedCall(name="Read", arguments={"path": "model.py"}),
            ScriptedCall(name="Read", arguments={"file_path": "model.py"}),
        )
    )
    episode, entries = play(tmp_path, scripted(odd, says("", writes("good"), VERIFY), DONE))
    assert episode.stop is StopReason.FINISHED
    assert (episode.turns[0].calls, episode.turns[0].bad_calls, episode.bad_calls) == (4, 3, 3)
    unknown, cut, misfit, fine = results(entries)[:4]
    assert "Did you mean Read?" in unknown and "not JSON" in cut and "file_path" in misfit and "x + 1" in fine


def test_a_model_that_never_stops_meets_every_budget(tmp_path: Path) -> None:
    turns = [says(f"turn {n}", ("Bash", {"command": f"echo {n}"})) for n in range(8)]
    spent = [
        t.model_copy(update={"usage": Usage(input_tokens=90, output_tokens=10, cost_usd=0.5)}) for t in turns
    ]
    for reason, limits, count in (
        (StopReason.TURN_LIMIT, Limits(turns=3), 3),
        (StopReason.TOKEN_LIMIT, Limits(tokens=150), 2),
        (StopReason.COST_LIMIT, Limits(cost_usd=1.5), 3),
        (StopReason.TIME_LIMIT, Limits(seconds=0.0), 1),
    ):
        episode, entries = play(tmp_path / reason, scripted(*spent), limits)
        assert (episode.stop, len(episode.turns)) == (reason, count)
        assert len(results(entries)) == count


def test_endless_repetition_ends(tmp_path: Path) -> None:
    same = says("again", ("Bash", {"command": "echo same"}))
    episode, entries = play(tmp_path / "calls", scripted(same))
    assert (episode.stop, len(episode.turns)) == (StopReason.REPEATED, 6)
    assert any(e.message and "Do something else" in e.message.text for e in entries)
    cut = ScriptedReply(text="la " * 100, finish=Finish.LENGTH)
    episode, _ = play(tmp_path / "text", scripted(cut))
    assert (episode.stop, len(episode.turns)) == (StopReason.REPEATED, 6)


def test_answers_that_never_come_or_cannot_be_read(tmp_path: Path) -> None:
    work = says("", writes("good"), VERIFY)
    episode, _ = play(tmp_path / "bad", scripted(work, ScriptedReply(fails="unreadable")))
    assert episode.stop is StopReason.MODEL_UNREADABLE and episode.reward and episode.reward.milestone == 1
    folder = tmp_path / "away"
    episode, _ = play(folder, scripted(work, ScriptedReply(fails="unavailable")))
    assert episode.stop is StopReason.MODEL_UNAVAILABLE and len(episode.turns) == 2
    # the service is there again: the same episode goes on
    episode, _ = play(folder, scripted(work, DONE))
    assert episode.stop is StopReason.FINISHED and len(episode.turns) == 3


def test_protected_files_are_put_back(tmp_path: Path) -> None:
    spoil = says("", ("Bash", {"command": "echo cheat > model.py; rm -rf utils"}), writes("good"))
    look = says("", ("Bash", {"command": "cat model.py; ls utils"}), VERIFY)
    episode, entries = play(tmp_path, scripted(spoil, look, DONE))
    assert episode.stop is StopReason.FINISHED
    assert "x + 1" in results(entries)[2] and "verification.py" in results(entries)[2]


def test_a_deleted_workspace_ends_the_episode(tmp_path: Path) -> None:
    folder = tmp_path.resolve() / "work"
    gone = says("", ("Bash", {"command": f"rm -rf {folder}/*/workspace"}))
    episode, _ = play(tmp_path, scripted(gone, DONE), sandbox=LocalSandbox())
    assert episode.stop is StopReason.WORKSPACE_LOST and len(episode.turns) == 1


def test_a_flooded_disk_ends_the_episode(tmp_path: Path) -> None:
    flood = "for n in $(seq 100000); do head -c 4000000 /dev/zero > f$n || exit; done"
    settings = AgentSettings(max_disk_bytes=32 << 20)
    episode, _ = play(tmp_path, scripted(says("", ("Bash", {"command": flood}))), settings=settings)
    assert episode.stop is StopReason.DISK_LIMIT and len(episode.turns) == 1


def test_calls_in_text(tmp_path: Path) -> None:
    write = json.dumps({"name": "Bash", "arguments": {"command": "echo '# good' > model_new.py"}})
    llm = scripted(
        ScriptedReply(
            text=f'now <tool_call>\n{write}\n</tool_call><tool_call>{{"name": "Verify"}}</tool_call>'
        ),
        ScriptedReply(text='<tool_call>{"name": "Read", "argum'),
        DONE,
        native_tools=False,
    )
    episode, _ = play(tmp_path, llm)
    assert episode.stop is StopReason.FINISHED and episode.reward and episode.reward.milestone == 1
    assert (episode.turns[0].calls, episode.bad_calls) == (2, 1)
    assert "<tool_call>" in llm.asked[0].messages[0].text and not llm.asked[0].tools
    assert {m.role for m in llm.asked[1].messages} <= {Role.SYSTEM, Role.USER, Role.ASSISTANT}
    assert llm.asked[1].messages[-1].text.count("<tool_response>") == 2


def test_a_context_that_is_too_small_ends_the_episode(tmp_path: Path) -> None:
    episode, _ = play(tmp_path, scripted(DONE, context_tokens=1024))
    assert episode.stop is StopReason.CONTEXT_LIMIT and len(episode.turns) == 1


_KILLED = """
import sys
from pathlib import Path
from tests.agent.loop import *
play(Path(sys.argv[1]), scripted(
    says("first", writes("good one"), VERIFY),
    says("second", ("Bash", {"command": "echo half > half.txt; sleep 60"}), ("Bash", {"command": "echo other"})),
    DONE))
"""


def test_an_episode_killed_in_the_middle_goes_on(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _KILLED, str(tmp_path)], cwd=ROOT, start_new_session=True
    )
    until = time.monotonic() + 60
    while not list(tmp_path.glob("work/*/workspace/half.txt")):
        assert time.monotonic() < until and process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    journal = next((tmp_path / "journal").iterdir())
    with journal.open("ab") as file:
        file.write(b'{"turn": 1, "torn')
    llm = scripted(says("1"), says("2"), says("third", ("Bash", {"command": "cat half.txt"})), DONE)
    episode, entries = play(tmp_path, llm)
    assert episode.stop is StopReason.FINISHED
    assert [turn.note for turn in episode.turns] == [
        "first [Bash, Verify]",
        "second [Bash, Bash]",
        "third [Bash]",
        "done",
    ]
    assert results(entries)[2:4] == [results(entries)[2]] * 2 and "may or may not" in results(entries)[2]
    assert results(entries)[4] == "half"
    assert len(llm.asked) == 2
    assert episode.best_submission_hash == episode.turns[0].submission_hash
    assert read_journal(journal_path(tmp_path, episode.episode_id)) == entries


@pytest.mark.parametrize("text", ["", "  "])
def test_silence_is_asked_about_before_it_counts_as_done(tmp_path: Path, text: str) -> None:
    episode, _ = play(tmp_path, scripted(ScriptedReply(text=text)))
    assert episode.stop is StopReason.FINISHED and len(episode.turns) == 3
    assert episode.answer_submission_hash is None and episode.reward is None
