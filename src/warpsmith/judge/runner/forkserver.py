"""This side of the process that runners are forked from: started once, used by every judgement of a run."""

import contextlib
import json
import os
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self

from warpsmith.sandbox.entering import MODEL, ends
from warpsmith.sandbox.process import Tree
from warpsmith.store.scratch import ScratchFolder
from warpsmith.types.protocols import Sandbox, SandboxSpec

MODULE = "warpsmith.judge.runner.forking"
KEPT_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "CUDA_HOME", "LD_LIBRARY_PATH")
WAITING = 256
"""Runners that may be asked for before it has loaded what they need."""


def runner_environment() -> dict[str, str]:
    """What any runner's environment has. Its user may have no name, which libraries ask for."""
    kept = {k: os.environ[k] for k in KEPT_ENVIRONMENT if k in os.environ}
    return kept | {"HOME": "/tmp", "USER": "nobody", "PYTHONDONTWRITEBYTECODE": "1"}


class ForkServer:
    """The process and its socket; `close`, or leaving the `with` block, ends both and every runner forked from it.

    Its methods may be called from any thread. Raises InfrastructureError where no process can be started.
    """

    def __init__(self, scratch: Path | None = None):
        self._folder = ScratchFolder("warpsmith-forks-", scratch)
        self._one = threading.Lock()
        self._tree = self._start()

    def address(self) -> str:
        """Where it is asked; one that has ended is started again."""
        with self._one:
            if self._tree.poll() is not None:
                self._control.close()
                self._tree = self._start()
        return str(self._socket)

    @property
    def _socket(self) -> Path:
        return self._folder.path / "socket"

    def _start(self) -> Tree:
        self._control, theirs = socket.socketpair()
        with theirs, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            self._socket.unlink(missing_ok=True)
            with short_path(str(self._socket)) as path:
                listener.bind(path)
            listener.listen(WAITING)
            fds = (theirs.fileno(), listener.fileno())
            argv = [sys.executable, "-I", "-m", MODULE, *map(str, fds)]
            return Tree(argv, cwd="/", env=runner_environment(), pass_fds=fds)

    @property
    def pid(self) -> int:
        """The process that has all of the server's below it."""
        return self._tree.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends it; may be called again."""
        self._tree.kill_tree()
        self._control.close()
        self._folder.remove()


@contextlib.contextmanager
def short_path(path: str) -> Iterator[str]:
    """Another path to it: a socket's has at most 107 bytes."""
    folder, name = os.path.split(path)
    at = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{at}/{name}"
    finally:
        os.close(at)


def fork_runner(
    address: str, sandbox: Sandbox, boundary: SandboxSpec, *, channel: socket.socket, device: str,
    environment: Mapping[str, str],
) -> Tree | None:  # fmt: skip
    """A sandbox and, in it, a runner forked from the server at `address`; None where nobody answers there.

    The tree is the sandbox's: it ends as the runner does, and killing it ends the runner.
    """
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        try:
            with short_path(address) as path:
                client.connect(path)
        except OSError:
            return None
        ours, theirs = map(stack.enter_context, ends())
        standing = sandbox.command(MODEL, boundary, stays=True)
        tree = Tree(standing, cwd=boundary.cwd, env=environment, stdin=theirs.fileno(), guests=True)
        request = {"device": device, "environment": dict(environment)}
        # a server that has ended meanwhile has closed the sandbox's socket: the tree ends then
        with contextlib.suppress(OSError):
            socket.send_fds(client, [json.dumps(request).encode()], [channel.fileno(), ours.fileno()])
        return tree
