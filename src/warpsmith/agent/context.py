"""What the tools of one episode share."""

import os
import shutil
import threading
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from warpsmith.agent.confine import Workspace
from warpsmith.agent.failures import ToolError
from warpsmith.agent.shell import Job, Shell, Surroundings
from warpsmith.sandbox import LocalSandbox
from warpsmith.types.base import sha256_hex
from warpsmith.types.protocols import Sandbox
from warpsmith.types.users import UID

MAX_FILE_BYTES = 16 << 20
"""What can be edited; larger files can only be looked into."""
MAX_JOBS = 16
_KEPT_JOBS = 64
_ENVIRONMENT = {
    "PATH": os.defpath,
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
}


class ToolContext:
    """The workspace, the files read so far, the shell, the jobs and the list of things to do of one episode.

    `env` adds to the small environment that commands get: nothing of this process's own reaches them.
    `read_only` are folders that commands may read besides the system's; `protected` are paths relative to
    the workspace that the file tools do not change; `ripgrep` is a program, looked up in this process's PATH
    (None: search without it). Leaving the `with` block ends every process.
    """

    def __init__(
        self,
        root: Path | str,
        sandbox: Sandbox,
        *,
        env: Mapping[str, str] | None = None,
        read_only: tuple[str, ...] = (),
        protected: Collection[str] = (),
        ripgrep: str | None = "rg",
        search_timeout_s: float = 60.0,
    ):
        self.workspace = Workspace(root)
        if os.geteuid() == 0 and not isinstance(sandbox, LocalSandbox):
            _hand_over(self.workspace.root)
        # file tools look at a file, then change it: one at a time
        self.editing = threading.Lock()
        self.surroundings = Surroundings(
            sandbox=sandbox,
            root=self.workspace.root,
            env={**_ENVIRONMENT, **(env or {})},
            read_only=read_only,
        )
        self.search_timeout_s = search_timeout_s
        self.ripgrep = shutil.which(ripgrep) if ripgrep else None
        self.shell = Shell(self.surroundings)
        self.jobs: dict[str, Job] = {}
        self.todos: tuple[str, ...] = ()
        self._protected = frozenset(protected)
        self._seen: dict[str, str] = {}
        self._started = 0
        self._starting = threading.Lock()

    def note(self, real: str, data: bytes) -> None:
        """Remembers that the model knows the content `data` of the file `real` (a path without links)."""
        self._seen[real] = sha256_hex(data)

    def require_known(self, path: str, real: str, data: bytes) -> None:
        """Raises ToolError where the model has not read the file, or not as it is now, or must not change it."""
        self.require_free(path, real)
        if real not in self._seen:
            raise ToolError(f"{path} has not been read yet: read it with Read, then change it")
        if self._seen[real] != sha256_hex(data):
            raise ToolError(f"{path} has changed since it was read: read it again, then change it")

    def require_free(self, path: str, real: str) -> None:
        """Raises ToolError where the file is part of the task."""
        if real in self._protected:
            raise ToolError(f"{path} belongs to the task and must stay as it is: change other files")

    def start_job(self, command: str) -> str:
        """Starts a command in the background; its id."""
        with self._starting:
            if sum(job.running() for job in self.jobs.values()) >= MAX_JOBS:
                raise ToolError(f"{MAX_JOBS} background jobs are running: end one with KillBash first")
            ended = [name for name, job in self.jobs.items() if not job.running()]
            for name in ended[: max(0, len(self.jobs) - _KEPT_JOBS + 1)]:
                del self.jobs[name]
            exports = self.shell.exports()
            job = Job(self.surroundings, command, self.shell.cwd, exports)
            self._started += 1
            self.jobs[f"bash_{self._started}"] = job
            return f"bash_{self._started}"

    def job(self, name: str) -> Job:
        """The job with this id. Raises ToolError, which lists those that there are."""
        if name in self.jobs:
            return self.jobs[name]
        listing = "\n".join(
            f"{known}: {'running' if job.running() else 'ended'}: {job.command[:100]}"
            for known, job in self.jobs.items()
        )
        raise ToolError(
            f"no background job {name!r}. " + (f"There are:\n{listing}" if listing else "None was started.")
        )

    def kill_running(self) -> None:
        """Kills what the shell and the jobs run, while other threads wait for it."""
        self.shell.kill_running()
        for job in list(self.jobs.values()):
            job.kill_running()

    def close(self) -> None:
        """Ends the shell and every job."""
        with ExitStack() as stack:
            stack.callback(self.shell.close)
            for job in self.jobs.values():
                stack.callback(job.kill)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _hand_over(root: Path) -> None:
    """Gives the workspace to the user that commands run as, links themselves and not what they lead to."""
    for _, folders, files, fd in os.fwalk(root):
        os.fchown(fd, UID, UID)
        for name in (*folders, *files):
            os.chown(name, UID, UID, dir_fd=fd, follow_symlinks=False)
