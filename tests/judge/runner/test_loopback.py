"""What starts a program where 127.0.0.1 works."""

import sys

import pytest

from warpsmith.judge.runner import loopback
from warpsmith.sandbox import best_available, python_paths
from warpsmith.sandbox.process import ProcessEnd, run_tree
from warpsmith.types.protocols import SandboxSpec

TALK = """
import os, socket, sys
listening = socket.create_server(("127.0.0.1", 0))
socket.create_connection(listening.getsockname(), 5)
print("connected as", os.getuid(), sys.argv[1:])
"""
OUTSIDE = "import socket; socket.create_connection(('192.0.2.1', 80), 5)"
START = (sys.executable, "-I", "-m", loopback.__name__)


def isolated(*argv: str) -> ProcessEnd:
    spec = SandboxSpec(cwd="/", read_only=python_paths())
    return run_tree(best_available().command(argv, spec), timeout_s=60)


def test_it_works_in_a_sandbox_and_leads_nowhere_else() -> None:
    if not isolated("unshare", "--user", "--net", "true").ok:
        pytest.skip("no user namespaces in the sandbox")
    end = isolated(*START, sys.executable, "-I", "-c", TALK, "a b", "")
    assert end.ok and "connected as" in end.output and "['a b', '']" in end.output, end.output
    assert not isolated(*START, sys.executable, "-I", "-c", OUTSIDE).ok


def test_where_it_works_already_nothing_changes() -> None:
    end = run_tree([*START, *START, sys.executable, "-I", "-c", TALK], timeout_s=60)
    assert end.ok, end.output
    assert run_tree([*START, "false"], timeout_s=60).exit_code == 1
