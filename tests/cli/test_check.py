"""`warpsmith check` as a process, on the real pool and simulator."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

FIT = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        print("noise from the task")
        return x * 2
def get_inputs():
    return [torch.randn(8, 4)]
def get_init_inputs():
    return []
"""
RANDOM = FIT.replace("x * 2", "x * 2 + torch.rand(())")


def check(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "warpsmith", "check", *args],
        cwd=folder,
        env={**os.environ, "WARPSMITH_CACHE": str(folder / "cache")},
        capture_output=True,
        text=True,
        timeout=240,
        stdin=subprocess.DEVNULL,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "fit.py").write_text(FIT)
    (tmp_path / "bad.py").write_text("def f(:\n")
    rows = [("fit", FIT), ("random", RANDOM), ("fit again", FIT + "# again\n")]
    lines = [
        json.dumps({"level": 1 + i // 2, "problem_id": i, "name": name, "code": code})
        for i, (name, code) in enumerate(rows)
    ]
    (tmp_path / "set.jsonl").write_text("\n".join(lines))
    return tmp_path


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["absent.py"], "no such file: absent.py"),
        (["bad.py"], "not valid Python"),
        (["kernelbench:set.jsonl#9"], "holds no level 9"),
        (["fit.py", "--for", "fun"], "unknown purpose 'fun'; choose one of: auto, benchmark, training"),
        (["fit.py", "--device", "tpu"], "unknown device 'tpu'"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(folder: Path, args: list[str], said: str) -> None:
    done = check(folder, *args)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr and "Traceback" not in done.stderr


def test_one_task(folder: Path) -> None:
    done = check(folder, "fit.py", "--device", "sim")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "fit: fit for benchmark"
    assert lines[1].split() == "memory inputs 128 B, weights 0 B, outputs 128 B".split()
    assert "says nothing about speed" in lines[2]
    assert "noise" not in done.stdout


def test_a_set_goes_on_where_it_was_killed_and_tells_all(folder: Path) -> None:
    first = check(folder, "kernelbench:set.jsonl#2", "--device", "sim", "--out", "log.jsonl", "--json")
    assert first.returncode == 0, first.stderr
    row = json.loads(first.stdout)
    assert (row["task_name"], row["fitness"]) == ("fit again", "fit")
    with (folder / "log.jsonl").open("a") as log:
        log.write('{"torn')
    done = check(folder, "kernelbench:set.jsonl", "--device", "sim", "--out", "log.jsonl")
    assert done.returncode == 1, done.stderr
    assert "1 of 3 were checked before" in done.stderr
    assert "3/3 1/1 random: unfit: random reference" in done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("unfit           1/1 random: random reference")
    assert lines[-1].split() == ["all", "3", "2", "0", "1", "0", "0"]
    logged = [json.loads(line)["task_name"] for line in (folder / "log.jsonl").read_text().splitlines()]
    assert logged == ["fit again", "fit", "random"]
    third = check(folder, "kernelbench:set.jsonl", "--device", "sim", "--out", "log.jsonl", "--json")
    answer = json.loads(third.stdout)
    assert [task["task_name"] for task in answer["tasks"]] == ["fit", "random", "fit again"]
    assert answer["counts"]["unfit"] == 1
    assert len((folder / "log.jsonl").read_text().splitlines()) == 3
