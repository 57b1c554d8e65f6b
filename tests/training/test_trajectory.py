"""Tokens, masks and log-probabilities, worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.training.episodes import said, told

from warpsmith.errors import UntrainableError
from warpsmith.training.trajectory import Trajectory, trajectory_of
from warpsmith.types.llm import Entry, Role

# the prompt is 1 2; the model writes 3 4; is told 5 6 7; writes 8
JOURNAL = [
    told("task"),
    said("a", prompt=[1, 2], ids=[3, 4], logprobs=[-0.5, -0.25]),
    told("output", Role.TOOL),
    said("b", prompt=[1, 2, 3, 4, 5, 6, 7], ids=[8], logprobs=[-1.0]),
]


def test_tool_text_is_masked_and_what_was_written_keeps_its_logprobs() -> None:
    found = trajectory_of(JOURNAL)
    assert found.prompt == (1, 2)
    assert found.response == (3, 4, 5, 6, 7, 8)
    assert found.mask == (True, True, False, False, False, True)
    assert found.logprobs == (-0.5, -0.25, 0.0, 0.0, 0.0, -1.0)
    assert (found.replies, found.masked_share, found.truncated) == (2, 0.5, False)


def test_what_was_told_after_the_last_reply_is_no_part_of_it() -> None:
    assert trajectory_of([*JOURNAL, told("more", Role.TOOL)]) == trajectory_of(JOURNAL)


def test_an_empty_last_reply_leaves_no_masked_end() -> None:
    empty = said("", prompt=[1, 2, 3, 4, 5, 6, 7, 8, 9], ids=[])
    found = trajectory_of([*JOURNAL, told("go on"), empty])
    assert found.response == (3, 4, 5, 6, 7, 8) and found.mask[-1]


@pytest.mark.parametrize(
    ("limit", "response"),
    [(6, (3, 4, 5, 6, 7, 8)), (5, (3, 4)), (3, (3, 4)), (2, (3, 4)), (1, (3,))],
)
def test_a_cut_ends_on_a_written_token_too(limit: int, response: tuple[int, ...]) -> None:
    found = trajectory_of(JOURNAL).cut(limit)
    assert found.response == response
    assert found.mask[-1] and len(found.mask) == len(found.logprobs) == len(response)
    assert found.truncated == (limit < 6)


def test_a_masked_last_token_is_refused() -> None:
    with pytest.raises(ValidationError, match="ends on a token that the model wrote"):
        Trajectory(prompt=(1,), response=(2, 3), mask=(True, False), logprobs=(0.0, 0.0), replies=1)


@pytest.mark.parametrize(
    ("journal", "reason"),
    [
        ([told("task"), said("text only")], "reply 0 lacks token ids"),
        ([*JOURNAL, said("no ids")], "reply 2 lacks token ids"),
        ([said("x", prompt=[1], ids=[2, 3], logprobs=[-1.0])], "reply 0 lacks token ids or log-prob"),
        ([said("x", prompt=[], ids=[2], logprobs=[-1.0])], "reply 0 lacks"),
        ([told("task")], "the model wrote nothing"),
        ([said("", prompt=[1], ids=[])], "the model wrote nothing"),
        ([*JOURNAL, said("c", prompt=[1, 2, 9], ids=[4])], "the conversation was shortened"),
        ([*JOURNAL, said("c", prompt=[1, 2, 3, 4, 5], ids=[4])], "the conversation was shortened"),
    ],
)
def test_what_cannot_be_trained_on_is_refused(journal: list[Entry], reason: str) -> None:
    with pytest.raises(UntrainableError, match=reason):
        trajectory_of(journal)


def test_a_cut_without_a_written_token_is_refused() -> None:
    late = [
        said("", prompt=[1], ids=[]),
        said("x", prompt=[1, 2, 3], ids=[4], logprobs=[-1.0]),
    ]
    with pytest.raises(UntrainableError, match="first 2 tokens"):
        trajectory_of(late).cut(2)


spans = st.lists(st.tuples(st.lists(st.integers(0, 9), min_size=1), st.lists(st.integers(0, 9))), min_size=1)


@given(spans)
def test_every_token_is_there_once_and_masked_by_who_wrote_it(
    parts: list[tuple[list[int], list[int]]],
) -> None:
    journal, seen, expected, mask = [], [], [], []
    for told_ids, ids in parts:
        seen += told_ids
        journal.append(said("x", prompt=seen, ids=ids, logprobs=[-1.0] * len(ids)))
        expected += [*(told_ids if expected or len(journal) > 1 else []), *ids]
        mask += [False] * (len(told_ids) if len(journal) > 1 else 0) + [True] * len(ids)
        seen = seen + ids
    if not any(mask):
        with pytest.raises(UntrainableError):
            trajectory_of(journal)
        return
    found = trajectory_of(journal)
    end = len(mask) - mask[::-1].index(True)
    assert found.response == tuple(expected[:end]) and found.mask == tuple(mask[:end])
    assert all((lp != 0.0) == written for lp, written in zip(found.logprobs, found.mask, strict=True))
