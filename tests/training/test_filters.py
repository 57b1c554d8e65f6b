"""Crafted trajectories, each with an honest neighbour."""

import pytest
from tests.training.episodes import called, episode, said, told

from warpsmith.training.filters import (
    Fault,
    FilterSettings,
    answered_calls,
    longest_cycle,
    rejections,
    reverts,
)
from warpsmith.types import Turn
from warpsmith.types.llm import Entry, Role

SETTINGS = FilterSettings()


def faults(
    journal: list[Entry] | None = None,
    turns: list[Turn] | None = None,
    reward: float | None = 1.0,
    settings: FilterSettings = SETTINGS,
) -> list[Fault]:
    return [r.fault for r in rejections(episode(*(turns or [])), journal or [], reward, settings)]


@pytest.mark.parametrize(
    ("reward", "expected"),
    [
        (1.0, []),
        (3.0, []),
        (0.0, [Fault.NOT_POSITIVE]),
        (-1.0, [Fault.NOT_POSITIVE]),
        (None, [Fault.NO_REWARD]),
    ],
)
def test_only_a_positive_reward_is_kept(reward: float | None, expected: list[Fault]) -> None:
    assert faults(reward=reward) == expected


def test_the_same_call_with_the_same_output_is_kept_up_to_the_limit() -> None:
    again = [entry for n in range(3) for entry in called(n, "Bash", '{"command": "ls"}', "model.py")]
    assert faults(again) == []
    assert faults([*again, *called(3, "Bash", '{"command":  "ls"}', "model.py")]) == [Fault.LOOP]


def test_polling_with_changing_output_is_no_loop() -> None:
    assert faults([e for n in range(9) for e in called(n, "BashOutput", "{}", f"line {n}")]) == []


def test_a_cycle_of_several_calls_is_a_loop() -> None:
    pair = [("Verify", "wrong"), ("Profile", "not built")]
    entries = [e for n in range(8) for e in called(n, pair[n % 2][0], "{}", pair[n % 2][1])]
    assert faults(entries) == [Fault.LOOP]
    assert faults(entries[: 2 * 6]) == []
    assert faults(entries, settings=FilterSettings(loop_length=1)) == []


@pytest.mark.parametrize(
    ("digests", "length", "times"),
    [
        ("", 1, 1), ("a", 1, 1), ("ab", 1, 1), ("aab", 1, 2), ("xaaaay", 1, 4), ("ababab", 2, 3), ("abababa", 2, 3),
        ("aaaa", 2, 1), ("abcabc", 3, 2), ("abxabc", 3, 1), ("aabaab", 3, 2), ("ab", 4, 1),
    ],
)  # fmt: skip
def test_cycles(digests: str, length: int, times: int) -> None:
    assert longest_cycle(list(digests), length) == times


def test_the_answer_belongs_to_its_call() -> None:
    both = said("", ("a", "Read", '{"p": 1}'), ("b", "Read", '{"p": 2}'))
    first = answered_calls([both, told("x", Role.TOOL, "a"), told("x", Role.TOOL, "b")])
    assert len(set(first)) == 2
    assert answered_calls([both, told("x", Role.TOOL, "b"), told("x", Role.TOOL, "a")]) == first[::-1]


def states(text: str) -> list[Turn]:
    return [Turn(index=n, note="", answer_hash=None if s == "-" else s) for n, s in enumerate(text)]


@pytest.mark.parametrize(
    ("text", "times"),
    [("", 0), ("-a-", 0), ("aaab", 0), ("aba", 1), ("abab", 2), ("a-bb-a", 1), ("abcacb", 3)],
)
def test_returns_to_an_earlier_state(text: str, times: int) -> None:
    assert reverts(states(text)) == times


def test_going_back_to_the_best_is_kept_and_going_back_and_forth_is_not() -> None:
    assert faults(turns=states("abaca")) == []
    assert faults(turns=states("ababa")) == [Fault.REVERTS]


@pytest.mark.parametrize(
    ("calls", "bad", "expected"),
    [(10, 3, []), (10, 4, [Fault.BAD_CALLS]), (100, 20, []), (100, 21, [Fault.BAD_CALLS]), (2, 2, [])],
)
def test_calls_that_break_the_schema(calls: int, bad: int, expected: list[Fault]) -> None:
    assert faults(turns=[Turn(index=0, note="", calls=calls, bad_calls=bad)]) == expected


def test_every_fault_is_told() -> None:
    loop = [e for n in range(4) for e in called(n, "Bash", "{}", "x")]
    assert faults(loop, states("ababa"), -1.0) == [Fault.NOT_POSITIVE, Fault.LOOP, Fault.REVERTS]
