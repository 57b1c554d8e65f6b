"""A model's service that fails in the middle of an episode: the right stop reason, and all before it stored."""

import json
from pathlib import Path

import pytest
from tests.agent.loop import play, results
from tests.llm.server import USAGE, Answer, body, delta, events, serving, silent, status

from warpsmith.agent.settings import AgentSettings
from warpsmith.llm import LLMSettings, connect
from warpsmith.store import RunReader
from warpsmith.types import StopReason


def calling(*calls: tuple[str, str]) -> Answer:
    """An answer that streams calls, two at once where two are given; arguments as text."""
    asked = [
        {"index": at, "id": f"c{at}", "function": {"name": name, "arguments": arguments}}
        for at, (name, arguments) in enumerate(calls)
    ]
    return events(delta(calls=asked), delta(finish="tool_calls"), USAGE)


WORK = calling(("Bash", json.dumps({"command": "echo '# good' > model_new.py"})), ("Verify", "{}"))
DONE = events(delta("done", finish="stop"), USAGE)


@pytest.mark.parametrize(
    ("fails", "reason"),
    [
        (silent(2.0), StopReason.MODEL_UNAVAILABLE),
        (status(429, Retry_After="0"), StopReason.MODEL_UNAVAILABLE),
        (status(500), StopReason.MODEL_UNAVAILABLE),
        (status(400), StopReason.MODEL_REFUSED),
        (status(401), StopReason.MODEL_REFUSED),
        (status(404), StopReason.MODEL_REFUSED),
        (body("data: {not json\n\n", "text/event-stream"), StopReason.MODEL_UNREADABLE),
        (events(), StopReason.MODEL_UNREADABLE),
        (events({"choices": []}, USAGE), StopReason.MODEL_UNREADABLE),
        (events(delta("half"), done=False), StopReason.MODEL_UNREADABLE),
    ],
    ids=[
        "time-out",
        "429",
        "500",
        "400",
        "401",
        "404",
        "malformed",
        "nothing",
        "empty choices",
        "broken off",
    ],
)
def test_an_endpoint_that_fails_after_good_work(tmp_path: Path, fails: Answer, reason: StopReason) -> None:
    with serving(WORK, fails) as served:
        llm = connect(
            "openai:tiny", LLMSettings(endpoint=served.url, attempts=2, first_wait_s=0, silence_s=0.5)
        )
        episode, entries = play(tmp_path, llm)
    # what is refused is not asked again
    asked = 2 if reason is StopReason.MODEL_REFUSED else 3
    assert (episode.stop, len(episode.turns), len(served.asked)) == (reason, 2, asked)
    assert episode.reward and episode.reward.milestone == 1
    assert episode.usage and episode.usage.input_tokens == 100
    assert "[PASS] verify success" in results(entries)[1]
    assert RunReader(tmp_path).submission(episode.answer_submission_hash or "") is not None


@pytest.mark.parametrize("loop", [True, False], ids=["loop", "single turn"])
def test_a_bad_key_ends_the_episode_whole_and_a_good_one_goes_on(tmp_path: Path, loop: bool) -> None:
    """From the first question on: the line says what to do, and nothing is asked twice that was answered."""
    file = "```python model_new.py\n# good\n```"
    works = [WORK, DONE] if loop else [events(delta(file, finish="stop"), USAGE)]
    settings = AgentSettings(loop=loop)
    with serving(status(401), status(401), *works) as served:
        for ended in (1, 2):
            llm = connect("openai:tiny", LLMSettings(endpoint=served.url, attempts=2, first_wait_s=0))
            episode, _ = play(tmp_path, llm, settings=settings)
            assert (episode.stop, len(episode.turns), len(served.asked)) == (
                StopReason.MODEL_REFUSED,
                ended,
                ended,
            )
            assert episode.turns[-1].note == (
                "the model's service takes no question: the server refused the request with status 401; "
                "check OPENAI_API_KEY"
            )
        episode, _ = play(
            tmp_path, connect("openai:tiny", LLMSettings(endpoint=served.url)), settings=settings
        )
    assert (episode.stop, len(served.asked)) == (StopReason.FINISHED, 2 + len(works))
    assert episode.reward and episode.reward.milestone == 1
    assert [turn.index for turn in episode.turns] == list(range(2 + len(works)))
    assert RunReader(tmp_path).episodes()[-1] == episode


def test_calls_that_servers_pass_on_as_they_came(tmp_path: Path) -> None:
    """Unknown names, arguments that break off, more calls than a turn may make: answered, counted, never the end."""
    odd = calling(("Reed", "{}"), ("Read", '{"file_path": "mod'), ("Read", "[]"))
    many = calling(*(("TodoWrite", '{"todos": []}') for _ in range(40)))
    with serving(odd, many, WORK, DONE) as served:
        episode, entries = play(tmp_path, connect("openai:tiny", LLMSettings(endpoint=served.url)))
    assert (episode.stop, episode.bad_calls) == (StopReason.FINISHED, 3)
    assert [turn.calls for turn in episode.turns] == [3, 40, 2, 0]
    assert sum("at most 32 calls a turn" in said for said in results(entries)) == 8
    assert episode.reward and episode.reward.milestone == 1


def test_one_call_again_and_again(tmp_path: Path) -> None:
    with serving(calling(("Bash", '{"command": "true"}'))) as served:
        episode, _ = play(tmp_path, connect("openai:tiny", LLMSettings(endpoint=served.url)))
    assert (episode.stop, len(episode.turns)) == (StopReason.REPEATED, 6)
