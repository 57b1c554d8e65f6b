"""The referee's side of one runner: start it isolated, ask it things, end its whole tree."""

import math
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from warpsmith.errors import (
    CandidateCrashedError,
    CandidateKilledError,
    CandidateTimedOutError,
    InfrastructureError,
    SubmissionError,
    SubmissionUnsupportedError,
    WrongResultError,
)
from warpsmith.judge.runner.channel import (
    Channel,
    ChannelClosed,
    ChannelTimeout,
    ProtocolError,
    decode,
    encode,
)
from warpsmith.judge.runner.forkserver import fork_runner, runner_environment
from warpsmith.sandbox.process import ProcessEnd, Tree
from warpsmith.sim.page import Page
from warpsmith.types import Device
from warpsmith.types.protocols import Sandbox, SandboxSpec, SandboxUser

START_TIMEOUT_S = 120.0
INSIDE = "warpsmith.judge.runner.inside"
FAILURES = {
    "interface": WrongResultError,
    "output": WrongResultError,
    "memory": CandidateCrashedError,
    "exception": CandidateCrashedError,
}


@dataclass(frozen=True)
class RunnerSpec:
    """What a runner may see: folders it reads, and folders it may write (baselines' caches only)."""

    name: str
    device: Device
    read_only: Sequence[str]
    writable: Sequence[str] = ()
    environment: Sequence[tuple[str, str]] = ()
    user: SandboxUser = SandboxUser.OWN
    module: str = INSIDE
    launcher: Sequence[str] = ()
    """Words before the interpreter, inside the sandbox."""


@dataclass(frozen=True)
class Request:
    """A request as it is sent."""

    op: str
    nonce: str
    data: bytes


class RunnerProcess:
    """One runner. Every answer that is not the expected one raises an error that names whose fault it is."""

    page: Page | None = None
    """On the simulator, what its library's launches are to do: written here, and only read there."""
    patience_s = math.inf
    """Seconds that its answers may take, all together: slow in every call, it would run the judge out of time."""

    def __init__(self, spec: RunnerSpec, sandbox: Sandbox, cwd: Path, forks: str = ""):
        """`forks`: the address of a `ForkServer`, where there is one."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        self.page = Page() if spec.device is Device.SIM else None
        self.name = spec.name
        self.device = spec.device
        with theirs:
            self._tree = _start(spec, sandbox, cwd, theirs, forks)
        self._channel = Channel(ours, spin=spec.device is Device.CUDA)
        self._device_request: Request | None = None
        self._ready = False
        self.closed = False

    def request(self, op: str, **fields: object) -> Request:
        """An encoded request with a fresh secret number, which its answer must repeat: none can be sent ahead."""
        nonce = secrets.token_hex(8)
        return Request(op, nonce, encode({"op": op, "nonce": nonce, **fields}))

    def ask(self, op: str, timeout_s: float, fds: Sequence[int] = (), **fields: object) -> dict:
        """Send a request and return its answer."""
        self.await_ready()
        request = self.request(op, **fields)
        self._send(request.data, fds)
        return self.parse(self.receive_raw(timeout_s), request)

    def give_device(self) -> None:
        """Once, give the runner its GPU, which it takes as soon as it has started. Waits for nothing."""
        if self._device_request is None:
            visible = os.environ.get("CUDA_VISIBLE_DEVICES") if self.device is Device.CUDA else None
            self._device_request = self.request("device", visible=visible)
            with _empty_handed():
                self._send(self._device_request.data, (self.page.fd,) if self.page else ())

    def await_ready(self) -> None:
        """Wait until the runner has started and holds its GPU. Raises InfrastructureError where it does not."""
        if self._ready:
            return
        self.give_device()
        with _empty_handed():
            self.parse(self.receive_raw(START_TIMEOUT_S), Request("ready", "", b""))
            self.parse(self.receive_raw(START_TIMEOUT_S), self._device_request)
        self._ready = True

    def post(self, request: Request) -> None:
        """Send a request without waiting: the caller's clock is running."""
        self._send(request.data, ())

    def receive_raw(self, timeout_s: float) -> bytes:
        """The next message's bytes, undecoded: the caller's clock is running."""
        begun = time.monotonic()
        try:
            data, fds = self._channel.receive_bytes(min(timeout_s, self.patience_s))
        except ChannelTimeout:
            if self.patience_s < timeout_s:
                raise CandidateTimedOutError(f"{self.name} took too long in all of its answers") from None
            raise CandidateTimedOutError(f"{self.name} did not answer within {timeout_s:g} s") from None
        except ChannelClosed:
            raise self._ended() from None
        except ProtocolError as error:
            raise CandidateCrashedError(f"{self.name} sent a malformed message: {error}") from None
        for fd in fds:
            os.close(fd)
        self.patience_s = max(0.0, self.patience_s - (time.monotonic() - begun))
        return data

    def parse(self, data: bytes, request: Request) -> dict:
        """Decode the answer to `request`; a failure that the runner reports is raised."""
        try:
            message = decode(data)
        except ProtocolError as error:
            raise CandidateCrashedError(f"{self.name} sent a malformed message: {error}") from None
        if message.get("nonce") == request.nonce:
            if message.get("ok") == request.op:
                return message
            if message.get("failed") == request.op:
                self._raise_failure(message)
        raise CandidateCrashedError(f"{self.name} answered out of turn")

    def pause(self) -> None:
        """Stop its processes while another is measured; what they have on the GPU already goes on."""
        self._tree.pause()

    def resume(self) -> None:
        """Let them go on."""
        self._tree.resume()

    def close(self) -> None:
        """Kill the whole process tree and wait until it is gone."""
        self.closed = True
        self._tree.kill_tree()
        self._channel.close()
        if self.page is not None:
            self.page.close()
            self.page = None

    def log_tail(self) -> str:
        """The end of what the runner printed."""
        return self._tree.output()[-4000:]

    def _send(self, data: bytes, fds: Sequence[int]) -> None:
        try:
            self._channel.send_bytes(data, fds)
        except ChannelClosed:
            raise self._ended() from None
        except ChannelTimeout:
            raise CandidateCrashedError(f"{self.name} does not read its requests") from None

    def _raise_failure(self, message: dict) -> None:
        kind, text, place = (_plain(message.get(k, "")) for k in ("kind", "text", "place"))
        first_line = text.strip().splitlines()[0] if text.strip() else "no message"
        if kind == "interface":
            raise WrongResultError("interface: " + " ".join(text.split()))
        if kind == "unsupported" and self.device is Device.SIM:
            raise SubmissionUnsupportedError(first_line)
        error = FAILURES.get(kind, CandidateCrashedError)
        raise error(f"{message['failed']}: {first_line}{place}")

    def _ended(self) -> CandidateCrashedError:
        end = self._tree.wait(10.0)
        how = "stopped answering" if end is None else describe_exit(end)
        tail = self.log_tail().strip().splitlines()
        said = f"; it last printed: {_plain(tail[-1][:200])}" if tail else ""
        killed = end is not None and end.signal == signal.SIGKILL
        kind = CandidateKilledError if killed else CandidateCrashedError
        return kind(f"{self.name} {how} before it completed{said}")


def _start(spec: RunnerSpec, sandbox: Sandbox, cwd: Path, end: socket.socket, forks: str) -> Tree:
    """Forked where that can be, else started, which takes seconds longer and comes to the same."""
    boundary = SandboxSpec(
        cwd=str(cwd),
        read_only=tuple(spec.read_only),
        writable=tuple(spec.writable),
        user=spec.user,
        gpu=spec.device is Device.CUDA,
    )
    environment = runner_environment() | dict(spec.environment)
    # under a launcher it is another program that starts
    if forks and sandbox.enterable and spec.module == INSIDE and not spec.launcher:
        tree = fork_runner(
            forks, sandbox, boundary, channel=end, device=spec.device.value, environment=environment
        )
        if tree is not None:
            return tree
    argv = [*spec.launcher, sys.executable, "-I", "-m", spec.module, str(end.fileno()), spec.device.value]
    return Tree(sandbox.command(argv, boundary), cwd=cwd, env=environment, pass_fds=(end.fileno(),))


@contextmanager
def _empty_handed() -> Iterator[None]:
    """Nothing of a submission has run yet: whatever goes wrong is not its doing."""
    try:
        yield
    except SubmissionError as error:
        raise InfrastructureError(f"{error}; it had been given nothing") from error


def _plain(text: object) -> str:
    """Text of a hostile process without what moves a terminal's cursor; lines stay lines."""
    return "".join(c if c.isprintable() or c == "\n" else " " if c.isspace() else "?" for c in str(text))


def describe_exit(end: ProcessEnd) -> str:
    """A process's end in words."""
    if end.signal is not None:
        return f"was ended by {signal.Signals(end.signal).name}"
    return f"exited with status {end.exit_code}"
