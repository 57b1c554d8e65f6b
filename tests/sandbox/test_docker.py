"""What is asked of Docker, and what is said where it does not answer; `test_sandboxes.py` runs containers."""

import json
import subprocess
from pathlib import Path

import pytest

from warpsmith.sandbox import DockerSandbox
from warpsmith.sandbox.docker import IMAGE
from warpsmith.types.protocols import SandboxSpec


def asked(spec: SandboxSpec) -> list[str]:
    """The words of `docker run`."""
    words = DockerSandbox().command(["true"], spec)
    assert words[-1] == "true" and words[1:3] == ["-I", "-S"]
    plan = json.loads(words[4])
    assert (plan["image"], plan["cwd"]) == (IMAGE, spec.cwd)
    return plan["run"]


def test_a_container_gets_nothing_that_the_other_sandboxes_withhold(tmp_path: Path) -> None:
    inside, out = tmp_path / 'a "b", c', tmp_path / 'a "b", c/out'
    out.mkdir(parents=True)
    spec = SandboxSpec(
        cwd=str(inside),
        read_only=(str(inside),),
        writable=(str(out),),
        cpu_seconds=7,
        max_processes=33,
        max_file_bytes=1000,
        tmp_bytes=4096,
    )
    run = asked(spec)
    for word in (
        "--network=none",
        "--cap-drop=ALL",
        "--security-opt=no-new-privileges",
        "--read-only",
        "--rm",
        "--pull=never",
        "--pids-limit=33",
        "--ulimit=core=0:0",
        "--ulimit=fsize=1000:1000",
        "--ulimit=cpu=7:7",
        "--shm-size=4096",
    ):
        assert word in run
    assert not [
        word for word in run if word.startswith(("--privileged", "--cap-add", "--device", "--env", "-e"))
    ]
    mounts = [run[at + 1] for at, word in enumerate(run) if word == "--mount"]
    quoted = str(out).replace('"', '""')
    assert f'"type=bind","source={quoted}","target={quoted}"' in mounts
    # all others are read-only, and no place is mounted twice
    assert [mount for mount in mounts if not mount.endswith('"readonly"')] == [mounts[-1]]
    targets = [mount.split('"target=')[1] for mount in mounts]
    assert len(targets) == len(set(targets))


def test_no_daemon_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    reason = DockerSandbox().unavailable()
    assert reason and "\n" not in reason
    monkeypatch.setenv("PATH", str(tmp_path))
    assert DockerSandbox().unavailable() == "docker is not installed"


def test_a_container_that_does_not_start_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\necho no room left >&2\nexit 125\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    done = subprocess.run(
        DockerSandbox().command(["true"], SandboxSpec(cwd="/")), capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (125, "", "no room left\n")
