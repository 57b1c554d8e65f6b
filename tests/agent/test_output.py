"""Draining a pipe: bounded, and exact about where a command's output ends."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.agent.output import Drain, HeadTail

MARKER = b"0123456789abcdef"


def test_short_output_is_whole() -> None:
    kept = HeadTail(100)
    for piece in (b"one ", b"two", "é".encode()[:1], "é".encode()[1:]):
        kept.add(piece)
    assert kept.text() == "one twoé"


@pytest.mark.parametrize("size", [1, 7, 1 << 16])
def test_long_output_keeps_head_and_tail(size: int) -> None:
    kept = HeadTail(20)
    data = b"a" * 10 + b"b" * 1_000_000 + b"c" * 10
    for at in range(0, len(data), max(size, 1000)):
        kept.add(data[at : at + max(size, 1000)])
    assert kept.text() == "a" * 10 + "\n[... 1000000 bytes left out ...]\n" + "c" * 10


@settings(max_examples=60, deadline=None)
@given(
    before=st.lists(st.sampled_from([b"x", MARKER[:5], MARKER[5:], b"\0", b"line\n"]), max_size=6),
    after=st.binary(max_size=20),
    cuts=st.lists(st.integers(1, 30), max_size=8),
)
def test_marker_across_chunks(before: list[bytes], after: bytes, cuts: list[int]) -> None:
    text = b"".join(before)
    if MARKER in text:
        return
    read_fd, write_fd = os.pipe()
    drain = Drain(read_fd, 1000)
    drain.expect(MARKER)
    data = text + MARKER + b"7 done\0" + after
    for cut in cuts:
        os.write(write_fd, data[:cut])
        data = data[cut:]
    os.write(write_fd, data)
    # the marker may have come twice where a partial one stood before it
    assert drain.wait(30) == b"7 done"
    assert drain.take() == text.decode()
    os.close(write_fd)
    assert drain.ended(30)
    assert drain.take() == after.decode("utf-8", "replace")


def test_what_comes_behind_a_marker_in_pieces_is_taken_whole() -> None:
    read_fd, write_fd = os.pipe()
    drain = Drain(read_fd, 1000)
    drain.expect(MARKER)
    os.write(write_fd, b"text" + MARKER + b"0\0one ")
    assert drain.wait(30) == b"0"
    assert drain.take() == "text"
    os.write(write_fd, b"two")
    os.close(write_fd)
    assert drain.ended(30)
    assert drain.take() == "one two"


def test_end_without_marker() -> None:
    read_fd, write_fd = os.pipe()
    drain = Drain(read_fd, 1000)
    drain.expect(MARKER)
    os.write(write_fd, b"last words 0123")
    os.close(write_fd)
    assert drain.wait(30) is None
    assert drain.take() == "last words 0123"
