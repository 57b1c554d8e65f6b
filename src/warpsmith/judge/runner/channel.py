"""One message at a time between referee and runner, over a SOCK_SEQPACKET pair.

The runner's side is hostile: a message is a bounded JSON object, and nothing in it is believed beyond its form.
"""

import array
import json
import select
import socket
import time
from collections.abc import Sequence

MAX_MESSAGE_BYTES = 128 * 1024
MAX_FDS = 4
SPIN_S = 0.2


class ChannelClosed(Exception):
    """The other side is gone."""


class ChannelTimeout(Exception):
    """The other side did not answer in time."""


class ProtocolError(Exception):
    """The other side sent something that is not a message."""


def encode(message: dict) -> bytes:
    """JSON bytes of a message; ValueError where it is too large."""
    data = json.dumps(message, separators=(",", ":")).encode()
    if len(data) > MAX_MESSAGE_BYTES:
        raise ValueError(f"message of {len(data)} bytes exceeds {MAX_MESSAGE_BYTES}")
    return data


class Channel:
    """One end. With `spin`, `receive` polls for the first 0.2 s: a wake-up costs more than a short kernel."""

    def __init__(self, sock: socket.socket, *, spin: bool):
        self._sock = sock
        self._spin = spin
        sock.setblocking(False)

    def send(self, message: dict, fds: Sequence[int] = ()) -> None:
        """Send one message and, beside it, file descriptors."""
        self.send_bytes(encode(message), fds)

    def send_bytes(self, data: bytes, fds: Sequence[int] = ()) -> None:
        """Send an encoded message (encoded ahead, where the clock runs)."""
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            self._sock.sendmsg([data], ancillary)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ChannelClosed from error
        except BlockingIOError as error:
            raise ChannelTimeout from error

    def receive_bytes(self, timeout_s: float) -> tuple[bytes, list[int]]:
        """The next message's bytes and descriptors. Raises ChannelClosed, ChannelTimeout, ProtocolError."""
        deadline = time.monotonic() + timeout_s
        spin_until = time.monotonic() + (SPIN_S if self._spin else 0.0)
        while True:
            try:
                return self._take()
            except BlockingIOError:
                now = time.monotonic()
                if now >= deadline:
                    raise ChannelTimeout from None
                if now >= spin_until:
                    select.select([self._sock], [], [], deadline - now)

    def receive(self, timeout_s: float) -> tuple[dict, list[int]]:
        """The next message, decoded."""
        data, fds = self.receive_bytes(timeout_s)
        return decode(data), fds

    def _take(self) -> tuple[bytes, list[int]]:
        try:
            data, ancillary, flags, _ = self._sock.recvmsg(MAX_MESSAGE_BYTES, socket.CMSG_SPACE(MAX_FDS * 4))
        except ConnectionResetError as error:
            raise ChannelClosed from error
        if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
            raise ProtocolError("message too large")
        fds = array.array("i")
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
        if not data:
            raise ChannelClosed
        return data, list(fds)

    def close(self) -> None:
        """Close this end."""
        self._sock.close()


def decode(data: bytes) -> dict:
    """The JSON object in `data`, else ProtocolError. Halves of characters become `?`: no record could hold them."""
    try:
        message = json.loads(data)
        if b"\\u" in data:
            message = json.loads(json.dumps(message, ensure_ascii=False).encode(errors="replace"))
    except (ValueError, RecursionError) as error:
        raise ProtocolError("not JSON") from error
    if not isinstance(message, dict):
        raise ProtocolError("not an object")
    return message
