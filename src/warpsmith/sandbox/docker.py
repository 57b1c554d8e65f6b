"""Isolation with a Docker daemon, for machines where a user may make no namespaces but may ask one for containers.

The image is empty: a container sees the same mounts as the other sandboxes show. Docker's client hands on no file
descriptors, so `docker_wrapper.py` sends them through a socket that it shows to the container, where a few lines of
Python, its first process, put them in their places and start the program. The wrapper's death closes the socket, on
which the first process ends all that runs inside; it holds the output's pipe until that is done, so whoever waits for
the output's end waits for that.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from warpsmith.sandbox.probe import missing, probe
from warpsmith.sandbox.view import Kind, Mount, cwd_inside, job_mounts, system_mounts
from warpsmith.types.protocols import SandboxSpec
from warpsmith.types.users import UID

IMAGE = "warpsmith-sandbox:1"
_WRAPPER = Path(__file__).with_name("docker_wrapper.py")
_TIMEOUT_S = 60.0


class DockerSandbox:
    """The same view as `NamespacesSandbox`, in a container; start and end take longer.

    A plain user's programs run as that user. Processes inside are no descendants of the wrapper: they cannot be
    paused or signalled one by one, only ended together.
    """

    name = "docker"
    enterable = False

    def unavailable(self) -> str | None:
        """None where it works here, else why not in one line. Makes the image, and runs a small program."""
        if (reason := missing(("docker",))) is not None:
            return reason
        try:
            if _docker("image", "inspect", IMAGE).returncode == 0:
                return probe(self)
            # two empty blocks are an empty archive
            made = _docker("import", "-", IMAGE, data=bytes(1024))
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"docker does not answer: {type(error).__name__}"
        if made.returncode != 0:
            said = made.stderr.decode("utf-8", "replace").strip().splitlines()
            return f"docker does not work here: {said[-1] if said else 'no reason given'}"
        return probe(self)

    def command(self, argv: Sequence[str], spec: SandboxSpec, *, stays: bool = False) -> list[str]:
        """`argv` wrapped; inherited file descriptors pass through. A signal's end comes back as 128 + signal.

        As root, folders in `spec.writable` are handed to user 65534. Raises InfrastructureError where a path
        of `spec` does not exist.
        """
        root = os.geteuid() == 0
        python = os.path.realpath(sys.executable)
        # what the first process inside needs; packages are none of it
        shown = spec.model_copy(update={"read_only": (*spec.read_only, *_interpreter(python))})
        jobs = job_mounts(shown, other_user=root)
        if root:
            for mount in jobs:
                if mount.kind is Kind.WRITABLE and os.path.isdir(mount.path):
                    os.chown(mount.path, UID, UID)
        user, group = (UID, UID) if root else (os.geteuid(), os.getegid())
        run = [
            *_client(),
            *("run", "--detach", "--rm", "--pull=never", "--log-driver=none", "--network=none"),
            *("--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--oom-score-adj=1000"),
            *(f"--user={user}:{group}", f"--pids-limit={spec.max_processes}"),
            *_limits(spec),
            *(
                f"--shm-size={spec.tmp_bytes}",
                f"--tmpfs=/tmp:rw,exec,nosuid,nodev,mode=1777,size={spec.tmp_bytes}",
            ),
            # Docker shows both whole
            *("--tmpfs=/sys:ro,mode=555", "--tmpfs=/dev/mqueue:ro,mode=555"),
            *_mounts([*system_mounts(gpu=spec.gpu), *jobs]),
        ]
        plan = {"run": run, "image": IMAGE, "python": python, "cwd": cwd_inside(spec)}
        return [python, "-I", "-S", str(_WRAPPER), json.dumps(plan), *argv]


def _client() -> list[str]:
    """Named in full: the command runs with another environment than this one."""
    config = os.environ.get("DOCKER_CONFIG") or os.path.expanduser("~/.docker")
    host = os.environ.get("DOCKER_HOST")
    return [shutil.which("docker") or "docker", f"--config={config}", *([f"--host={host}"] if host else [])]


def _docker(*words: str, data: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [*_client(), *words], input=data, capture_output=True, timeout=_TIMEOUT_S, check=False
    )


def _interpreter(python: str) -> tuple[str, ...]:
    folders = (os.path.dirname(os.path.dirname(python)), sys.base_prefix, os.path.realpath(sys.base_prefix))
    return tuple(dict.fromkeys(folder for folder in folders if folder not in ("/", "/usr")))


def _limits(spec: SandboxSpec) -> Iterator[str]:
    limits = {"core": 0, "fsize": spec.max_file_bytes} | (
        {"cpu": spec.cpu_seconds} if spec.cpu_seconds else {}
    )
    for name, value in limits.items():
        yield f"--ulimit={name}={value}:{value}"


def _mounts(mounts: Sequence[Mount]) -> Iterator[str]:
    """Of two mounts at one place the later one; folders that hold mounts are made by Docker itself."""
    last = {mount.path: mount for mount in mounts}
    for path, mount in last.items():
        holds = any(other.startswith(f"{path}/") for other in last)
        if mount.kind is not Kind.FOLDER or not holds:
            yield from _flags(mount)


def _flags(mount: Mount) -> list[str]:
    """Links cannot be made in a container's view: what they lead to is shown in their place."""
    source = os.path.realpath(mount.source or mount.path)
    if mount.kind is Kind.SYMLINK:
        source = os.path.realpath(mount.path)
    if mount.path.startswith("/dev/"):
        # the usual ones are there
        return [f"--device={mount.path}"] if mount.kind is Kind.DEVICE and "nvidia" in mount.path else []
    if mount.kind is Kind.FOLDER:
        return [f"--tmpfs={mount.path}:ro,mode=555"]
    if not os.path.exists(source):
        return []
    fields = ["type=bind", f"source={source}", f"target={mount.path}"]
    if mount.kind is not Kind.WRITABLE:
        fields.append("readonly")
    # the option's value is a line of CSV
    return ["--mount", ",".join('"' + field.replace('"', '""') + '"' for field in fields)]
