"""Where the workspace's scripts ask: a Unix socket in the workspace, answered outside the sandbox.

A request names an action and nothing else; what is judged is the copy that `Actions` takes. Whatever else the
sandboxed side sends, removes or puts in the socket's place makes it miss answers and changes none.
"""

import contextlib
import json
import os
import selectors
import socket
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from warpsmith.agent.actions import Action, Actions
from warpsmith.agent.confine import Workspace
from warpsmith.agent.failures import ToolError
from warpsmith.errors import InfrastructureError, WarpsmithError
from warpsmith.workspace.template import CONTROL, SOCKET

MAX_REQUEST = 4096
_READ_S = 5.0
_WRITE_S = 30.0
_LOOK_S = 0.5
_WAITING = 8
_NO_ANSWER = 3


class Desk:
    """Serves one workspace between `with` and its end, one request at a time.

    Where the socket was removed it is made again within a second. `failure` holds the error that no model can
    mend, once there was one: the episode cannot go on.
    """

    def __init__(self, actions: Actions):
        self._actions = actions
        self._files: Workspace = actions.workspace.files
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="desk", daemon=True)
        self.failure: WarpsmithError | None = None

    def __enter__(self) -> Self:
        """Raises InfrastructureError where no socket can be made."""
        try:
            self._listener, self._inode = _listen(self._files)
        except (OSError, ToolError) as error:
            raise InfrastructureError(f"cannot make a socket in {self._files.root}: {error}") from error
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Waits for the request in hand."""
        self._stop.set()
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        with selectors.DefaultSelector() as ready:
            ready.register(self._listener, selectors.EVENT_READ)
            while not self._stop.is_set():
                if ready.select(_LOOK_S):
                    with contextlib.suppress(OSError):
                        self._answer(self._listener.accept()[0])
                elif _inode(self._files) != self._inode:
                    self._renew(ready)

    def _renew(self, ready: selectors.BaseSelector) -> None:
        try:
            listener, inode = _listen(self._files)
        except (OSError, ToolError):
            # the workspace itself is gone, or something stands in the way: looked at again later
            return
        ready.unregister(self._listener)
        self._listener.close()
        self._listener, self._inode = listener, inode
        ready.register(listener, selectors.EVENT_READ)

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            action = _action(_read(connection))
            if action is None:
                names = ", ".join(known.value for known in Action)
                reply: Mapping[str, object] = {"text": f"Ask for one of {names}.", "exit_status": 2}
            else:
                reply = self._asked(action)
            connection.settimeout(_WRITE_S)
            connection.sendall(json.dumps(reply).encode())

    def _asked(self, action: Action) -> Mapping[str, object]:
        try:
            answer = self._actions.run(action)
        except WarpsmithError as error:
            self.failure = error
            return {"text": f"The judge cannot answer: {error}", "exit_status": _NO_ANSWER}
        return {"text": answer.text, "exit_status": 0 if answer.ok else 1}


def _read(connection: socket.socket) -> bytes:
    """One line, or what came of it in the time and the length that a request may take."""
    data, until = b"", time.monotonic() + _READ_S
    while b"\n" not in data and len(data) <= MAX_REQUEST and (left := until - time.monotonic()) > 0:
        connection.settimeout(left)
        try:
            chunk = connection.recv(MAX_REQUEST)
        except TimeoutError:
            break
        if not chunk:
            break
        data += chunk
    return data.partition(b"\n")[0]


def _action(line: bytes) -> Action | None:
    try:
        request = json.loads(line)
        return Action(request["action"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _listen(files: Workspace) -> tuple[socket.socket, int]:
    """A listening socket in the workspace, in the place of what stood there, and its inode."""
    with files.place(f"{CONTROL}/{SOCKET}", make_folders=True, follow=False) as place:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(place.name, dir_fd=place.folder)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            # through the open folder: no link can lead elsewhere, and an address holds 107 bytes only
            listener.bind(f"/proc/self/fd/{place.folder}/{place.name}")
            if os.geteuid() == 0:
                # to the user that asks. Not chmod, which would follow a link put in the socket's place
                owner = os.fstat(place.folder)
                os.chown(place.name, owner.st_uid, owner.st_gid, dir_fd=place.folder, follow_symlinks=False)
            listener.listen(_WAITING)
            return listener, os.stat(place.name, dir_fd=place.folder, follow_symlinks=False).st_ino
        except BaseException:
            listener.close()
            raise


def _inode(files: Workspace) -> int | None:
    try:
        with files.place(f"{CONTROL}/{SOCKET}", follow=False) as place:
            return os.stat(place.name, dir_fd=place.folder, follow_symlinks=False).st_ino
    except ToolError:
        return None
