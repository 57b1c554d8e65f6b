"""Progress on stderr."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from warpsmith.cli.progress import LineReporter

SCRIPTED = Path(__file__).with_name("scripted_cli.py")


def test_lines_tell_changes_of_phase_and_every_note(capsys: pytest.CaptureFixture[str]) -> None:
    with LineReporter() as report:
        report.phase("compile", "k.cu")
        report.phase("correctness", "call 1 of 5")
        report.phase("correctness", "call 2 of 5")
        report.note("1. fused [everything]")
        report.phase("compile")
    printed = capsys.readouterr()
    assert printed.out == ""
    lines = [re.sub(r"^\[ *\d+\.\d s\] ", "", line) for line in printed.err.splitlines()]
    assert lines == ["compile: k.cu", "correctness: call 1 of 5", "1. fused [everything]", "compile"]


def test_on_a_terminal_notes_stay_and_stdout_is_the_answer_alone(tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text("class Model: ...\ndef get_inputs(): ...\ndef get_init_inputs(): ...\n")
    ours, theirs = pty.openpty()
    options = ["--device", "sim", "--full-size", "--policy", "scripted", "--json"]
    process = subprocess.Popen(
        [sys.executable, str(SCRIPTED), "optimize", "task.py", *options],
        cwd=tmp_path,
        env={**os.environ, "JUDGED": str(tmp_path / "judged"), "TERM": "xterm", "COLUMNS": "100"},
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
    )
    os.close(theirs)
    shown = bytearray()
    try:
        while data := os.read(ours, 4096):
            shown += data
    except OSError:
        pass  # a pty's reader gets EIO when the last writer has gone
    answer, _ = process.communicate(timeout=120)
    os.close(ours)
    assert process.returncode == 0
    assert answer.startswith('{"schema_version": 1, "status": "passed"') and answer.count("\n") == 1
    assert "1. wrote first — passed" in shown.decode()
    assert "2. wrote second — passed" in shown.decode()
