"""Draining what commands print, in bounded memory, up to a marker that tells a command's end."""

import contextlib
import os
import threading

_CHUNK = 1 << 16


class HeadTail:
    """The first and the last `limit // 2` bytes of what was added."""

    def __init__(self, limit: int):
        self._half = max(1, limit // 2)
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def add(self, data: bytes) -> None:
        """Adds `data`, whatever its size."""
        self._total += len(data)
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > self._half + _CHUNK:
            del self._tail[: -self._half]

    def text(self) -> str:
        """What was kept, undecodable bytes replaced; a line in the middle says how much was left out."""
        tail = bytes(self._tail[-self._half :])
        left_out = self._total - len(self._head) - len(tail)
        middle = f"\n[... {left_out} bytes left out ...]\n" if left_out else ""
        if not left_out:
            return (bytes(self._head) + tail).decode("utf-8", "replace")
        return self._head.decode("utf-8", "replace") + middle + tail.decode("utf-8", "replace")


class Drain:
    """Reads a pipe in a thread of its own, so that nothing that writes to it ever waits for a reader.

    It owns `fd`, which it closes at the pipe's end.
    """

    def __init__(self, fd: int, limit: int):
        self._limit = limit
        self._changed = threading.Condition()
        self._kept = HeadTail(limit)
        self._marker: bytes | None = None
        self._pending = b""
        self._found: bytes | None = None
        self._behind = False
        """Whether what comes lies behind a marker up to which nothing was taken yet."""
        self._ended = False
        threading.Thread(target=self._drain, args=(fd,), daemon=True).start()

    def expect(self, marker: bytes) -> None:
        """From now on looks for `marker`, which is followed by a message and a NUL byte."""
        with self._changed:
            self._marker, self._found = marker, None

    def wait(self, timeout_s: float) -> bytes | None:
        """The message behind the marker; None where the time is up or the pipe has ended without it."""
        with self._changed:
            self._changed.wait_for(lambda: self._found is not None or self._ended, timeout_s)
            return self._found

    def ended(self, timeout_s: float = 0.0) -> bool:
        """Whether nobody can write any more, waiting at most `timeout_s` seconds for that."""
        with self._changed:
            return self._changed.wait_for(lambda: self._ended, timeout_s)

    def take(self) -> str:
        """What came since the last call, up to the marker where it was found; bounded."""
        with self._changed:
            kept, self._kept = self._kept, HeadTail(self._limit)
            if self._behind:
                self._kept.add(self._pending)
                self._pending, self._behind = b"", False
            return kept.text()

    def _drain(self, fd: int) -> None:
        try:
            while data := os.read(fd, _CHUNK):
                with self._changed:
                    self._keep(data)
        finally:
            with self._changed:
                self._ended = True
                if not self._behind:
                    self._kept.add(self._pending)
                    self._pending = b""
                self._changed.notify_all()
            with contextlib.suppress(OSError):
                os.close(fd)

    def _keep(self, data: bytes) -> None:
        if self._marker is None:
            if not self._behind:
                self._kept.add(data)
            else:
                # it belongs to the next command
                self._pending = (self._pending + data)[-self._limit :]
            return
        self._pending += data
        at = self._pending.find(self._marker)
        if at < 0:
            at = max(0, len(self._pending) - len(self._marker) + 1)
            self._kept.add(self._pending[:at])
            self._pending = self._pending[at:]
            return
        self._kept.add(self._pending[:at])
        self._pending = self._pending[at:]
        end = self._pending.find(b"\0", len(self._marker))
        if end >= 0:
            self._found = self._pending[len(self._marker) : end]
            self._pending = self._pending[end + 1 :]
            self._marker, self._behind = None, True
            self._changed.notify_all()
