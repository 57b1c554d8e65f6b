"""Bounded capture of what a process prints: the head and the tail, whatever it prints between."""

import os
import threading
from collections import deque
from pathlib import Path


class BoundedCapture:
    """Drains a pipe in a thread of its own and keeps its first and last `limit // 2` bytes.

    With `log_path` the head is written there as it comes and the tail at the end, so that a log of a running
    process can be watched and never grows beyond `limit` and one line that says what was left out.
    """

    def __init__(self, read_fd: int, limit: int, log_path: Path | None = None):
        self._half = max(1, limit // 2)
        self._lock = threading.Lock()
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._total = 0
        self._log = None if log_path is None else log_path.open("wb", buffering=0)
        self._log_error: OSError | None = None
        self._thread = threading.Thread(target=self._drain, args=(read_fd,), daemon=True)
        self._thread.start()

    def finish(self, timeout_s: float) -> None:
        """Waits for the pipe's end (no longer than `timeout_s`). Raises OSError where the log was refused."""
        self._thread.join(timeout_s)
        if self._log_error is not None:
            raise self._log_error

    def text(self) -> str:
        """What was kept, undecodable bytes replaced; a line in the middle says how much was left out."""
        return self._assemble().decode("utf-8", "replace")

    def _drain(self, fd: int) -> None:
        try:
            while data := os.read(fd, 1 << 16):
                with self._lock:
                    self._keep(data)
        finally:
            os.close(fd)
            if self._log is not None:
                self._write_log(self._assemble()[len(self._head) :])
                self._log.close()

    def _keep(self, data: bytes) -> None:
        # caller holds the lock
        self._total += len(data)
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            self._write_log(data[:room])
            data = data[room:]
        if not data:
            return
        self._tail.append(data)
        self._tail_size += len(data)
        while self._tail_size - len(self._tail[0]) >= self._half:
            self._tail_size -= len(self._tail.popleft())

    def _assemble(self) -> bytes:
        with self._lock:
            head, tail = bytes(self._head), b"".join(self._tail)[-self._half :]
            left_out = self._total - len(head) - len(tail)
        middle = f"\n[… {left_out} bytes left out …]\n".encode() if left_out > 0 else b""
        return head + middle + tail

    def _write_log(self, data: bytes) -> None:
        # a full disk must not stop the draining, which would block the process: it is told at the end
        if self._log is None or self._log_error is not None:
            return
        try:
            while data:
                data = data[self._log.write(data) :]
        except OSError as error:
            self._log_error = error
