"""One answer without a loop: its files are judged, whatever it holds the episode is whole."""

from pathlib import Path

import pytest
from tests.agent.loop import MANIFEST, SETTINGS, TASK, answer

from warpsmith.agent.single_turn import SingleTurnPolicy
from warpsmith.errors import ContextFullError
from warpsmith.llm.scripted import ScriptedLLM, ScriptedReply
from warpsmith.rollout import run_episode
from warpsmith.rollout.journal import journal_path, read_journal
from warpsmith.rollout.scripted import ScriptedCompiler, ScriptedJudge
from warpsmith.store import RunStore
from warpsmith.types import Device, Episode, StopReason, Target
from warpsmith.types.llm import Finish, Question, Reply


def play(folder: Path, llm: ScriptedLLM) -> Episode:
    with RunStore(folder) as store:
        store.open(MANIFEST)
        return run_episode(
            TASK,
            SingleTurnPolicy(llm),
            judge=ScriptedJudge(answer),
            compiler=ScriptedCompiler(),
            target=Target(device=Device.SIM),
            settings=SETTINGS,
            store=store,
        )


def test_the_files_of_the_answer_are_judged(tmp_path: Path) -> None:
    llm = ScriptedLLM(
        [ScriptedReply(text="```python file=model_new.py\n# good\n```\n```cuda file=kernels/a.cu\n\n```")]
    )
    episode = play(tmp_path, llm)
    assert (episode.stop, len(episode.turns)) == (StopReason.FINISHED, 1)
    assert episode.reward and episode.reward.milestone == 1
    assert episode.turns[0].note == "gave kernels/a.cu, model_new.py"
    system, task = llm.asked[0].messages
    assert "cuda_extension.silu_mul" in system.text and "Verify" not in system.text and not llm.asked[0].tools
    assert TASK.code in task.text
    entries = read_journal(journal_path(tmp_path, episode.episode_id))
    assert [bool(entry.reply) for entry in entries if not entry.judged] == [False, False, True]


@pytest.mark.parametrize(
    ("reply", "stop", "told"),
    [
        (ScriptedReply(text="I cannot."), StopReason.FINISHED, "no model_new.py"),
        (
            ScriptedReply(text="```python model_new.py\nclass", finish=Finish.LENGTH),
            StopReason.FINISHED,
            "cut at",
        ),
        (ScriptedReply(text="```py ../x.py\n\n```\n```py model_new.py\n```"), StopReason.FINISHED, "gave"),
        (ScriptedReply(fails="unreadable"), StopReason.MODEL_UNREADABLE, ""),
    ],
)
def test_what_is_no_submission_ends_the_episode_whole(
    tmp_path: Path, reply: ScriptedReply, stop: StopReason, told: str
) -> None:
    episode = play(tmp_path, ScriptedLLM([reply]))
    assert episode.stop is stop
    assert not told or told in episode.turns[0].note


def test_a_program_without_a_fence_is_the_model_and_a_context_too_small_ends(tmp_path: Path) -> None:
    episode = play(tmp_path / "bare", ScriptedLLM([ScriptedReply(text="good = 1")]))
    assert episode.reward and episode.reward.milestone == 1

    class Full(ScriptedLLM):
        def complete(self, question: Question, told: object = None) -> Reply:
            raise ContextFullError("too long")

    episode = play(tmp_path / "full", Full([ScriptedReply()]))
    assert (episode.stop, episode.answer_submission_hash) == (StopReason.CONTEXT_LIMIT, None)


def test_an_outage_is_gone_on_from(tmp_path: Path) -> None:
    away = ScriptedLLM([ScriptedReply(fails="unavailable")])
    assert play(tmp_path, away).stop is StopReason.MODEL_UNAVAILABLE
    back = ScriptedLLM([ScriptedReply(text="```python model_new.py\n# good\n```")])
    episode = play(tmp_path, back)
    assert episode.stop is StopReason.FINISHED and episode.reward and episode.reward.milestone == 1
    assert back.asked[0].messages == away.asked[0].messages
