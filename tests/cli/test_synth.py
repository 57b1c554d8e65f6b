"""`warpsmith synth` from a catalogue to a set that is a source of tasks, on real processes."""

import json
from pathlib import Path

import pytest
from tests.synthesis.small import small_catalogue

from warpsmith import tasks
from warpsmith.cli.app import run
from warpsmith.cli.errors import PASSED, USAGE


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "catalogue.json").write_text(small_catalogue().model_dump_json())
    return tmp_path


def said(capsys: pytest.CaptureFixture[str]) -> dict:
    return json.loads(capsys.readouterr().out)


def test_from_a_catalogue_to_tasks(folder, capsys):
    assert run(["synth", "compose", "--count", "6", "--seed", "2", "--out", "t.jsonl", "--json"]) == PASSED
    assert said(capsys)["held"] == 6
    before = (folder / "t.jsonl").read_bytes()
    assert run(["synth", "compose", "--count", "6", "--seed", "2", "--out", "t.jsonl"]) == PASSED
    assert (folder / "t.jsonl").read_bytes() == before
    capsys.readouterr()
    assert run(["synth", "filter", "t.jsonl", "--device", "sim", "--json"]) == PASSED
    counts = said(capsys)
    passed = counts["funnel"]["passed"]
    assert counts["check_s"] > 0 and counts["wall_s"] > 0
    assert counts["left"] == 0 and sum(counts["funnel"].values()) == 6 and passed >= 3
    assert run(["synth", "write", "t.jsonl", "--out", "set", "--json"]) == PASSED
    summary = said(capsys)
    assert summary["rows"] + sum(summary["selection"]["duplicates"].values()) == passed
    found = tasks.load_all("synth:set/tasks.parquet")
    assert len(found) == summary["rows"]
    composed = [json.loads(line)["code"] for line in before.decode().splitlines()]
    assert {task.code for task in found} <= set(composed)
    assert (folder / "set" / "README.md").exists() and (folder / "set" / "plots.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["compose", "--out", "t.jsonl", "--mix", "nothing"], "no mix 'nothing'"),
        (["compose", "--out", "t.jsonl", "--catalogue", "none.json"], "cannot read none.json"),
        (["filter", "none.jsonl", "--device", "sim"], "cannot read none.jsonl"),
        (["filter", "catalogue.json", "--device", "sim"], "holds no composed tasks"),
        (["write", "catalogue.json", "--out", "set", "--mix", "paper"], "--mix and --count go together"),
        (["from", "nowhere", "--out", "t.jsonl"], "nowhere is no folder"),
    ],
)
def test_wrong_usage_is_one_line(folder, capsys, words, problem):
    assert run(["synth", *words]) == USAGE
    error = capsys.readouterr().err
    assert problem in error and error.count("\n") == 1
