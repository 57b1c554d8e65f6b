"""What is looked at before a process enters is the sandbox's own model."""

import subprocess

import pytest

from warpsmith.sandbox.entering import MODEL, CannotEnterError, ends, find


def test_what_stands_in_for_a_model_that_has_ended_is_not_entered():
    """Its process id may be another's by the time that it is looked at."""
    ours, theirs = ends()
    said, answers = (
        subprocess.Popen(["sh", "-c", script], stdin=theirs, stderr=subprocess.DEVNULL)
        for script in ("echo >&0; exec sleep 1000", "read -r seen; echo >&0")
    )
    try:
        with pytest.raises(CannotEnterError, match="another one"):
            find(ours)
    finally:
        said.kill()
        for process in (said, answers):
            process.wait()


def test_a_model_that_ends_before_it_was_looked_at_is_not_entered():
    ours, theirs = ends()
    with theirs, subprocess.Popen(["sh", "-c", "echo >&0"], stdin=theirs):
        pass
    with pytest.raises(CannotEnterError):
        find(ours)


def test_a_model_is_gone_once_it_was_found():
    ours, theirs = ends()
    with theirs:
        model = subprocess.Popen(MODEL, stdin=theirs, stderr=subprocess.DEVNULL, cwd="/usr")
    assert find(ours).cwd == "/usr"
    assert model.wait(60) == 0
