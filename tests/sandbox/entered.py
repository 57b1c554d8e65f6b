"""A sandbox whose programs are forked outside and enter it, in the form of any other sandbox.

As a script: `entered.py SANDBOX SPEC ARGV…` makes the sandbox, enters it, and becomes ARGV there.
"""

import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence

from warpsmith.sandbox import by_name
from warpsmith.sandbox.entering import MODEL, become, ends, enter, find
from warpsmith.types.protocols import Sandbox, SandboxSpec

_DEATH_SIGNAL, _SUBREAPER = 1, 36


class Entered:
    """`sandbox`, entered."""

    enterable = True

    def __init__(self, sandbox: Sandbox):
        self._sandbox = sandbox
        self.name = sandbox.name

    def unavailable(self) -> str | None:
        return self._sandbox.unavailable()

    def command(self, argv: Sequence[str], spec: SandboxSpec) -> list[str]:
        # errors are told where the command is made, as everywhere
        self._sandbox.command(argv, spec)
        return [sys.executable, __file__, self.name, spec.model_dump_json(), *argv]


def main(name: str, spec: str, *argv: str) -> int:
    """How the program ended, as the sandbox says it."""
    command = by_name(name).command(MODEL, SandboxSpec.model_validate_json(spec), stays=True)
    ours, theirs = ends()
    prctl = ctypes.CDLL(None).prctl
    standing = subprocess.Popen(
        command, stdin=theirs, preexec_fn=lambda: prctl(_DEATH_SIGNAL, signal.SIGKILL)
    )
    theirs.close()
    # who forks takes over what the first fork leaves, and waits for none of it
    server = os.fork()
    if server == 0:
        prctl(_DEATH_SIGNAL, signal.SIGKILL)
        prctl(_SUBREAPER, 1)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        if os.fork() == 0:
            _program(ours, argv)
        ours.close()
        while True:
            signal.pause()
    ours.close()
    status = standing.wait()
    os.kill(server, signal.SIGKILL)
    return status


def _program(end: socket.socket, argv: Sequence[str]) -> None:
    place = find(end)
    enter(place, end)
    end.close()
    become(place)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        # Python ignores them, which a program would inherit
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(argv[0], argv)
    except FileNotFoundError:
        os._exit(127)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
