"""`warpsmith doctor` on this machine, whole and with parts taken away."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from warpsmith.cli.machine import CHECKS, DEVICES, Finding, missing_for


def doctor(cache: Path | str, *args: str, **extra: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "warpsmith", "doctor", *args],
        env={**os.environ, "WARPSMITH_CACHE": str(cache), **extra},
        capture_output=True,
        text=True,
        timeout=180,
    )


def test_every_check_has_its_line(tmp_path: Path) -> None:
    done = doctor(tmp_path / "cache")
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert len(lines) == len(CHECKS) + len(DEVICES)
    for line, (name, _, _) in zip(lines, CHECKS, strict=False):
        assert line.startswith(("ok", "missing")) and name in line
        assert line.startswith("ok") or " -> " in line
    assert done.returncode == (0 if any(line.endswith(" works") for line in lines) else 3)


def test_json_is_one_object_that_says_the_same(tmp_path: Path) -> None:
    done = doctor(tmp_path / "cache", "--json")
    answer = json.loads(done.stdout)
    assert [check["name"] for check in answer["checks"]] == [name for name, _, _ in CHECKS]
    assert set(answer["able"]) == {"sim", "cuda"}
    assert done.returncode == (0 if any(answer["able"].values()) else 3)


@pytest.mark.parametrize(
    ("cache", "extra", "name", "said"),
    [
        ("{tmp}", {"PATH": "", "CXX": ""}, "g++", "install g++"),
        ("/proc/nowhere", {}, "cache", "set WARPSMITH_CACHE"),
        ("{tmp}/task.py/below", {}, "cache", "set WARPSMITH_CACHE"),
    ],
)
def test_what_is_missing_is_named_with_what_to_do(
    tmp_path: Path, cache: str, extra: dict[str, str], name: str, said: str
) -> None:
    (tmp_path / "task.py").write_text("a file where a folder is wanted")
    done = doctor(cache.format(tmp=tmp_path), **extra)
    assert done.returncode == 3
    (line,) = [line for line in done.stdout.splitlines() if line.split()[:2] == ["missing", name]]
    assert said in line
    assert f"sim      does not work: {name}" in done.stdout


def test_devices_need_what_they_need_and_no_more() -> None:
    findings = [
        Finding("GPU", False, "", needed_by=frozenset({"cuda"})),
        Finding("sandbox", False, "", needed_by=frozenset()),
        Finding("g++", True, ""),
    ]
    assert (missing_for("sim", findings), missing_for("cuda", findings)) == ([], ["GPU"])
