"""Progress on stderr."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from warpsmith.cli.progress import STEPS, LineReporter, Pace
from warpsmith.types import Device

SCRIPTED = Path(__file__).with_name("scripted_cli.py")


def test_lines_tell_changes_of_phase_and_every_note(capsys: pytest.CaptureFixture[str]) -> None:
    with LineReporter(Pace(STEPS[Device.SIM])) as report:
        report.phase("compile", "k.cu")
        report.phase("correctness", "call 1 of 5")
        report.phase("correctness", "call 2 of 5")
        report.note("1. fused [everything]")
        report.phase("compile")
        report.phase("sizes", "smaller")
    printed = capsys.readouterr()
    assert printed.out == ""
    lines = [re.sub(r"^\[ *\d+\.\d s\] ", "", line) for line in printed.err.splitlines()]
    assert lines == [
        "compile: k.cu (1 of 4)",
        "correctness: call 1 of 5 (4 of 4)",
        "1. fused [everything]",
        "compile (1 of 4, about 0 s left)",
        "sizes: smaller",
    ]


def test_what_is_left_is_told_by_the_judgement_before() -> None:
    now = [0.0]
    pace = Pace(STEPS[Device.CUDA], clock=lambda: now[0])
    took = {
        "compile": 8.0,
        "admission": 1.0,
        "load": 3.0,
        "correctness": 4.0,
        "timing": 20.0,
        "baseline": 60.0,
    }
    for number, (phase, seconds) in enumerate(took.items(), 1):
        pace.enter(phase)
        assert str(pace) == f"{number} of 6"
        now[0] += seconds
    pace.enter("")
    assert (str(pace), pace.left_s()) == ("", None)
    now[0] += 1000
    pace.enter("compile")
    # baselines are kept, and the pause between the judgements belongs to none of them
    assert str(pace) == "1 of 6, about 36 s left"
    now[0] += 2.0
    pace.enter("compile")
    assert pace.left_s() == 34.0
    now[0] += 7.0
    assert str(pace) == "1 of 6"
    pace.enter("timing")
    assert pace.left_s() == 20.0
    now[0] += 20.0
    pace.enter("")
    pace.enter("compile")
    assert pace.left_s() == 9.0 + 1.0 + 3.0 + 4.0 + 20.0


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
