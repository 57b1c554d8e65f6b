"""The process that runners are forked from: `python -I -m warpsmith.judge.runner.forking CONTROL LISTENER`.

It loads once what every runner loads, and never touches CUDA, which a fork could not use, nor computes: threads of a
pool do not survive a fork. It is given nothing but names and descriptors, so that a runner inherits no secret. Each
runner is forked into a sandbox that was made for it alone (`warpsmith.sandbox.entering`). Who wants one connects to
the socket LISTENER and sends one message: JSON, the runner's end of its channel, and the other end of its sandbox's
stdin.
"""

import contextlib
import ctypes
import gc
import importlib
import json
import os
import random
import select
import signal
import socket
import sys
import traceback

from warpsmith.sandbox.entering import CannotEnterError, become, enter, find

MODULES = ("warpsmith.judge.runner.inside", "warpsmith.sim.cuda_module")
"""None that asks CUDA anything as it is imported, as torch.utils.cpp_extension does."""
MAX_REQUEST = 1 << 16
_DEATH_SIGNAL, _SUBREAPER = 1, 36
_CLONE_NEWUSER, _CLONE_NEWNS = 0x10000000, 0x20000
_MS_RDONLY, _MS_REMOUNT, _MS_BIND = 0x1, 0x20, 0x1000


def main() -> None:
    """Serves until CONTROL's other end is gone; never returns."""
    out_of_reach = os.geteuid() == 0 or bool(os.statvfs("/proc/self/exe").f_flag & os.ST_RDONLY)
    if not out_of_reach:
        _run_out_of_reach()
    control, listener = (socket.socket(fileno=int(word)) for word in sys.argv[1:3])
    libc = ctypes.CDLL(None)
    libc.prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    # who forks a runner ends at once: what it leaves is taken over and, since nobody asks for its status, gone
    libc.prctl(_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for module in MODULES:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    poller = select.poll()
    poller.register(control, select.POLLIN | select.POLLHUP)
    poller.register(listener, select.POLLIN)
    # nobody waits for another's request: who connects and is slow to send one is heard when it comes
    clients: dict[int, socket.socket] = {}
    while True:
        ready = {fd for fd, _ in poller.poll()}
        if control.fileno() in ready:
            os._exit(0)
        if listener.fileno() in ready:
            client, _ = listener.accept()
            clients[client.fileno()] = client
            poller.register(client, select.POLLIN)
        for fd in ready & clients.keys():
            poller.unregister(fd)
            with clients.pop(fd) as client:
                if out_of_reach:
                    _answer(client)


def _run_out_of_reach() -> None:
    """Starts this program anew from a read-only mount of the interpreter; returns only where that is forbidden.

    In a runner /proc/self/exe leads past the sandbox's mounts to the file that this process runs. Seen from outside a
    plain user's runners are that user, whose file it is: they could write to it, or leave something for the next in
    its mode, times and attributes, as they could with a copy. Root's runners are somebody else.
    """
    program = os.path.realpath(sys.executable).encode()
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        # where this is forbidden a plain user can make no sandbox either; the mount stays while its file is open
        try:
            libc = ctypes.CDLL(None)
            kept = os.statvfs(program).f_flag & (os.ST_NOSUID | os.ST_NODEV)
            if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS) == 0:
                libc.mount(program, program, None, _MS_BIND, None)
                libc.mount(None, program, None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | kept, None)
            socket.send_fds(theirs, [b"."], [os.open(program, os.O_RDONLY)])
        finally:
            os._exit(0)
    theirs.close()
    _, (file, *_), _, _ = socket.recv_fds(ours, 1, 1)
    os.wait()
    os.set_inheritable(file, False)
    if not os.fstatvfs(file).f_flag & os.ST_RDONLY:
        return
    os.execve(f"/proc/self/fd/{file}", [sys.executable, *sys.orig_argv[1:]], os.environ)


def _answer(client: socket.socket) -> None:
    """Forks a runner; who has ended meanwhile, or sent no descriptors, wants none."""
    fds: list[int] = []
    with contextlib.suppress(OSError):
        data, fds, _, _ = socket.recv_fds(client, MAX_REQUEST, 2, socket.MSG_DONTWAIT)
        if len(fds) == 2 and os.fork() == 0:
            _runner(data, *fds)
    # also where nothing could be forked: the sandbox ends then
    for fd in fds:
        os.close(fd)


def _runner(data: bytes, channel: int, end: int) -> None:
    """The runner's own process, from its entering the sandbox to its end; never returns."""
    code = 1
    try:
        request, sandbox = json.loads(data), socket.socket(fileno=end)
        place = find(sandbox)
        enter(place, sandbox)
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        null = os.open(os.devnull, os.O_RDONLY)
        for fd, source in ((0, null), (1, place.output), (2, place.output)):
            os.dup2(source, fd)
        become(place)
        os.closerange(3, channel)
        os.closerange(channel + 1, 1 << 16)
        code = _as_program(request, channel)
    except CannotEnterError as error:
        print(error, file=sys.stderr)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
    except BaseException:  # noqa: BLE001  the process ends here, and says why
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _as_program(request: dict, channel: int) -> int:
    """As if it had just been started with this environment."""
    from warpsmith.judge.runner import inside

    os.environ.clear()
    os.environ.update(request["environment"])
    # what a process that starts draws for itself
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    sys.dont_write_bytecode = True
    sys.argv = [inside.__file__, str(channel), request["device"]]
    return inside.main()


if __name__ == "__main__":
    main()
