import os
import socket

import pytest

from warpsmith.judge.runner.channel import (
    MAX_MESSAGE_BYTES,
    Channel,
    ChannelClosed,
    ChannelTimeout,
    ProtocolError,
    decode,
    encode,
)


@pytest.fixture(params=[False, True], ids=["blocking", "spinning"])
def ends(request: pytest.FixtureRequest) -> tuple[Channel, socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return Channel(ours, spin=request.param), theirs


def test_messages_arrive_whole_and_in_order(ends: tuple[Channel, socket.socket]) -> None:
    channel, other = ends
    for i in range(3):
        other.send(encode({"n": i, "text": "x" * 1000 * i}))
    assert [channel.receive(1.0)[0]["n"] for _ in range(3)] == [0, 1, 2]


def test_descriptors_travel_beside_a_message(ends: tuple[Channel, socket.socket]) -> None:
    channel, other = ends
    fd = os.memfd_create("x")
    os.write(fd, b"hello")
    Channel(other, spin=False).send({"ok": 1}, [fd])
    message, fds = channel.receive(1.0)
    assert message == {"ok": 1}
    assert os.pread(fds[0], 5, 0) == b"hello"
    for each in (fd, *fds):
        os.close(each)


def test_silence_is_a_timeout_and_a_closed_end_is_closed(ends: tuple[Channel, socket.socket]) -> None:
    channel, other = ends
    with pytest.raises(ChannelTimeout):
        channel.receive(0.05)
    other.close()
    with pytest.raises(ChannelClosed):
        channel.receive(1.0)


@pytest.mark.parametrize("data", [b"x", b"[]", b"1", b"\xff\xfe", b"[" * 100_000, b'{"a":'])
def test_what_is_not_an_object_is_a_protocol_error(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(data)


def test_an_oversized_message_is_refused_on_both_sides(ends: tuple[Channel, socket.socket]) -> None:
    channel, other = ends
    with pytest.raises(ValueError, match="exceeds"):
        encode({"x": "y" * MAX_MESSAGE_BYTES})
    other.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    other.send(b" " * (MAX_MESSAGE_BYTES + 10))
    with pytest.raises(ProtocolError):
        channel.receive(1.0)


def test_half_a_character_cannot_reach_a_record() -> None:
    assert decode(b'{"text": "a\\ud800b", "\\udfff": "\\u00e9"}') == {"text": "a?b", "?": "é"}
