"""A bash that stays: commands run one after the other in one process, inside the sandbox.

Bash reads commands from one pipe and prints to another. Behind a command comes a random marker, which the
command never sees; bash prints it with the exit code when the command is done, and so marks the output's end.
"""

import contextlib
import fcntl
import os
import re
import secrets
import signal
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from warpsmith.agent.failures import ToolError
from warpsmith.agent.output import Drain
from warpsmith.errors import InfrastructureError
from warpsmith.sandbox.process import Tree
from warpsmith.types.protocols import Sandbox, SandboxSpec, SandboxUser

OUTPUT_LIMIT = 30_000
MAX_COMMAND = 100_000
_START_S = 60.0
_GRACE_S = 1.0
_PIPE_BYTES = 1 << 20
# out of the way of the descriptors that scripts use
_FIRST_FD = 200

# c: a command, m: the marker behind it. USR1 leaves the command and goes on with the next item; inside a function,
# which cannot be left in one go, it ends the shell: nothing behind what was stopped may run. The command itself
# stands outside any function and in the script's first line, so that its errors read "bash: line 1: ...".
_SHELL = """\
cd -- "$1" 2>/dev/null || cd -- "$2" || exit 1; __top=$2; set --; trap : USR1;
while IFS= read -r -d '' -u {commands} __item; do case $__item in
c*) trap '[ ${{#FUNCNAME[@]}} -eq 0 ] && continue 999; kill -9 $BASHPID' USR1;
eval "${{__item:1}}" </dev/null >&{output} 2>&1 {commands}<&- {output}>&-; __status=$? ;;
m*) trap : USR1; __gone=0; [ -d "$PWD" ] || {{ cd -- "$__top"; __gone=1; }};
printf '%s%d %d %s\\0' "${{__item:1}}" "$__status" "$__gone" "$PWD" >&{output} ;;
esac; done
""".replace("\n", " ")
_JOB = """\
cd -- "$1" 2>/dev/null || cd -- "$2" || exit 1; set --;
IFS= read -r -d '' -u {commands} __exports; IFS= read -r -d '' -u {commands} __command;
eval "$__exports"; unset __exports; exec >&{output} 2>&1 {commands}<&- {output}>&-; eval "$__command"
""".replace("\n", " ")


@dataclass(frozen=True)
class Ran:
    """How a command of the shell ended.

    `exit_code` is None where it did not end by itself. `restarted`: the shell is a new one, its variables and
    functions are lost. `cwd` is the working directory now; `cwd_gone`: the one before was deleted.
    """

    output: str
    exit_code: int | None
    timed_out: bool = False
    restarted: bool = False
    cwd: str = ""
    cwd_gone: bool = False


@dataclass(frozen=True)
class Surroundings:
    """Where commands run: the sandbox, the workspace that they may write to, what else they may read."""

    sandbox: Sandbox
    root: Path
    env: Mapping[str, str]
    """The whole environment."""
    read_only: tuple[str, ...] = ()
    max_processes: int = 512
    max_file_bytes: int = 1 << 30

    def command(self, argv: list[str]) -> list[str]:
        """`argv` wrapped by the sandbox. Raises ToolError where the workspace was deleted."""
        if not self.root.is_dir():
            raise ToolError("the workspace folder was deleted: nothing can run any more")
        root = str(self.root)
        spec = SandboxSpec(
            cwd=root,
            read_only=self.read_only,
            writable=(root,),
            user=SandboxUser.SHARED,
            max_processes=self.max_processes,
            max_file_bytes=self.max_file_bytes,
        )
        return self.sandbox.command(argv, spec)

    def bash(self, script: str, cwd: str, limit: int) -> tuple[Tree, Drain, int]:
        """Starts bash on `script`; its tree, its output, and the descriptor that it reads commands from."""
        commands, commands_in = open_pipe()
        output_out, output = open_pipe()
        try:
            text = script.format(commands=commands, output=output)
            argv = ["bash", "--noprofile", "--norc", "-c", text, "bash", cwd, str(self.root)]
            tree = Tree(self.command(argv), cwd="/", env=self.env, pass_fds=(commands, output))
        except BaseException:
            os.close(commands_in)
            os.close(output_out)
            raise
        finally:
            os.close(commands)
            os.close(output)
        return tree, Drain(output_out, limit), commands_in


class Shell:
    """One persistent shell. Calls from several threads take turns."""

    def __init__(self, surroundings: Surroundings, limit: int = OUTPUT_LIMIT):
        self._surroundings = surroundings
        self._limit = limit
        self._turn = threading.Lock()
        self._tree: Tree | None = None
        self._cwd = str(surroundings.root)

    @property
    def cwd(self) -> str:
        """The working directory after the last command."""
        return self._cwd

    def run(self, command: str, timeout_s: float) -> Ran:
        """Runs `command`; its processes, background ones too, are killed where the time is up.

        Raises InfrastructureError where the sandbox does not start.
        """
        if "\0" in command:
            raise ToolError("a command cannot hold NUL bytes")
        with self._turn:
            # one whose processes were all killed has ended too
            restarted = self._tree is not None and self._tree.poll() is not None
            if restarted:
                self._stop()
            if self._tree is None:
                self._start()
            ran = self._run(command, timeout_s)
            return Ran(**{**vars(ran), "restarted": ran.restarted or restarted})

    def exports(self) -> str:
        """Bash source that sets the exported variables again."""
        with self._turn:
            if self._tree is None or self._tree.poll() is not None:
                return ""
            found = self._run("export -p", _START_S)
            # variables of more than the limit are left out with the rest of the listing
            return found.output if found.exit_code == 0 and "bytes left out ...]" not in found.output else ""

    def kill_running(self) -> None:
        """Kills all that runs in it, from any thread; whoever waits for a command sees that it ended."""
        if (tree := self._tree) is not None:
            _kill_below(tree.pid)

    def close(self) -> None:
        """Ends the shell and all that it started, a command that another thread waits for too."""
        if (tree := self._tree) is not None:
            tree.kill_tree()
        with self._turn:
            self._stop()

    def _start(self) -> None:
        self._tree, self._drain, self._commands = self._surroundings.bash(_SHELL, self._cwd, self._limit)
        marker = self._send("echo $BASHPID")
        if self._drain.wait(_START_S) is None:
            said = self._tree.kill_tree().tail.strip()
            self._stop()
            raise InfrastructureError(f"the sandbox does not start a shell: {said[-300:] or marker}")
        self._pid = int(self._drain.take())

    def _stop(self) -> None:
        if self._tree is not None:
            tree, self._tree = self._tree, None
            os.close(self._commands)
            tree.kill_tree()

    def _send(self, command: str) -> str:
        marker = secrets.token_hex(16)
        self._drain.expect(marker.encode())
        data = f"c{command}\0m{marker}\0".encode("utf-8", "surrogatepass")
        with contextlib.suppress(BrokenPipeError):
            while data:
                data = data[os.write(self._commands, data) :]
        return marker

    def _run(self, command: str, timeout_s: float) -> Ran:
        assert self._tree is not None
        before = {process.pid for process in _descendants(self._tree.pid)}
        try:
            return self._exchange(command, timeout_s, before)
        except BaseException:
            # interrupted while the command ran: what it prints must not be taken for the next one's
            self._stop()
            raise

    def _exchange(self, command: str, timeout_s: float, before: set[int]) -> Ran:
        assert self._tree is not None
        self._send(command)
        message = self._drain.wait(timeout_s)
        timed_out = message is None and not self._drain.ended()
        if timed_out:
            message = self._interrupt(before)
        if message is None:
            end = self._tree.wait(_GRACE_S) or self._tree.kill_tree()
            self._drain.ended(_GRACE_S)
            output = self._drain.take()
            self._stop()
            return Ran(output, None if timed_out else end.exit_code, timed_out, True, self._cwd)
        status, gone, cwd = message.split(b" ", 2)
        self._cwd = os.fsdecode(cwd)
        code = None if timed_out else int(status)
        return Ran(self._drain.take(), code, timed_out, False, self._cwd, gone == b"1")

    def _interrupt(self, before: set[int]) -> bytes | None:
        """Ends the running command: what the shell says then, None where the shell does not come back."""
        assert self._tree is not None
        until = time.monotonic() + _GRACE_S
        message = None
        while time.monotonic() < until:
            # stopped while it is looked through: a list of processes misses those that fork and end meanwhile
            self._tree.pause()
            family = _descendants(self._tree.pid)
            mine = [process for process in family if process.pid not in before]
            # the signal waits until the shell's child has ended: sent first, nothing behind the child runs
            for process in family:
                if message is None and _inner_pid(process.pid) == self._pid:
                    _send_signal(process, signal.SIGUSR1)
            for process in mine:
                _send_signal(process, signal.SIGKILL)
            self._tree.resume()
            if message is not None and not mine:
                return message
            message = self._drain.wait(0.05) or message
            if self._drain.ended():
                return None
        # what forks faster than it is killed goes with the shell
        return None


class Job:
    """A command in the background: a bash and a sandbox of its own, so that all of it can be killed."""

    def __init__(self, surroundings: Surroundings, command: str, cwd: str, exports: str = ""):
        if "\0" in command:
            raise ToolError("a command cannot hold NUL bytes")
        self.command = command
        self.killed = False
        self._tree, self._drain, commands = surroundings.bash(_JOB, cwd, OUTPUT_LIMIT)
        data = f"{exports}\0{command}\0".encode("utf-8", "surrogatepass")
        # in a thread: a sandbox that does not start reads nothing
        threading.Thread(target=_feed, args=(commands, data), daemon=True).start()

    def running(self) -> bool:
        """Whether it still runs."""
        return self._tree.poll() is None

    @property
    def exit_code(self) -> int | None:
        """Its exit code; None while it runs and where a signal ended it."""
        end = self._tree.poll()
        return None if end is None else end.exit_code

    def take(self) -> str:
        """What it printed since the last call, bounded; complete where it has ended."""
        end = self._tree.poll()
        if end is not None:
            self._drain.ended(_GRACE_S)
        # what the sandbox itself says, where it could not start
        said = end.output if end is not None and not self.killed else ""
        return self._drain.take() or said

    def kill_running(self) -> None:
        """Kills all that runs in it, from any thread."""
        _kill_below(self._tree.pid)

    def kill(self) -> None:
        """Kills all of its processes; nothing where it has ended."""
        if self.running():
            self.killed = True
            self._tree.kill_tree()


def open_pipe() -> tuple[int, int]:
    """A pipe's ends at numbers that no script uses, the writing end open to the sandbox's user by name too."""
    ends = os.pipe2(os.O_CLOEXEC)
    read_fd, write_fd = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST_FD) for fd in ends)
    for fd in ends:
        os.close(fd)
    # so that a command writes to /dev/stderr, which opens the pipe anew
    with contextlib.suppress(OSError):
        os.fchmod(write_fd, 0o666)
    with contextlib.suppress(OSError):
        fcntl.fcntl(write_fd, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return read_fd, write_fd


def _feed(fd: int, data: bytes) -> None:
    with contextlib.suppress(OSError):
        while data:
            data = data[os.write(fd, data) :]
    os.close(fd)


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _kill_below(pid: int) -> None:
    for process in _descendants(pid):
        _send_signal(process, signal.SIGKILL)


def _inner_pid(pid: int) -> int | None:
    """The number by which a process knows itself: that of its innermost pid namespace."""
    with contextlib.suppress(OSError):
        match = re.search(r"^NSpid:.*\s(\d+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
        return int(match[1]) if match else None
    return None


def _send_signal(process: psutil.Process, number: signal.Signals) -> None:
    with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        process.send_signal(number)
