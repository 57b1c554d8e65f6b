"""One question, one answer."""

from pathlib import Path

import pytest
from tests.agent.loop import MANIFEST, SETTINGS, TASK, answer

from warpsmith.agent.single_turn import SingleTurnPolicy, read_files
from warpsmith.llm.scripted import ScriptedLLM, ScriptedReply
from warpsmith.rollout import run_episode
from warpsmith.rollout.scripted import ScriptedCompiler, ScriptedJudge
from warpsmith.store import RunStore
from warpsmith.types import Device, Episode, StopReason, Target

TWO = """Here:
```python model_new.py
good = 1
```
and
```cpp kernels/add.cu
__global__ void add() {}
```
"""


@pytest.mark.parametrize(
    ("text", "files"),
    [
        (TWO, {"model_new.py": "good = 1\n", "kernels/add.cu": "__global__ void add() {}\n"}),
        ("```python\nx = 1\n```", {"model_new.py": "x = 1\n"}),
        ("```cuda\nx\n```", {}),
        ("x = 1", {"model_new.py": "x = 1"}),
        ("  ", {}),
        ("```python model_new.py\ncut off", {}),
    ],
)
def test_files_of_an_answer(text: str, files: dict[str, str]) -> None:
    assert read_files(text) == files


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


def test_the_answer_is_judged_and_scored(tmp_path: Path) -> None:
    llm = ScriptedLLM([ScriptedReply(text=TWO)])
    episode = play(tmp_path, llm)
    assert episode.policy == "single_turn:scripted" and len(episode.turns) == 1
    assert episode.answer_reward is not None and episode.answer_reward.milestone == 1
    (question,) = llm.asked
    assert question.tools == () and TASK.code.rstrip() in question.messages[1].text
    assert play(tmp_path, ScriptedLLM([ScriptedReply(fails="unavailable")])) == episode


@pytest.mark.parametrize("text", ["```cuda\nx\n```", "```python ../model_new.py\nx\n```", ""])
def test_an_answer_without_a_submission_earns_nothing(tmp_path: Path, text: str) -> None:
    episode = play(tmp_path, ScriptedLLM([ScriptedReply(text=text)]))
    assert (episode.stop, episode.answer_submission_hash) == (StopReason.FINISHED, None)


@pytest.mark.parametrize(
    ("fails", "stop"),
    [("unavailable", StopReason.MODEL_UNAVAILABLE), ("unreadable", StopReason.MODEL_UNREADABLE)],
)
def test_a_service_that_fails(tmp_path: Path, fails: str, stop: StopReason) -> None:
    assert play(tmp_path, ScriptedLLM([ScriptedReply(fails=fails)])).stop is stop
