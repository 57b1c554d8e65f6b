"""`judge --vary`: one submission at other sizes and on other values."""

import json
from pathlib import Path

from tests.cli.real import JUDGE, KERNEL, OPTIMIZE, TASK, lay_out, warpsmith

VARIED = TASK.replace("import torch\n", "import torch\nrows = 33\n", 1).replace("33, 17", "rows, 17")
FOR_LARGE_SIZES = KERNEL.replace("if (i < n)", "if (i < n && n > 17)")


def test_each_variant_gets_a_verdict(tmp_path: Path, shared_caches: Path) -> None:
    folder = lay_out(tmp_path, task=VARIED, kernel=FOR_LARGE_SIZES)
    options = ("--vary", "rows=1,5", "--vary", "inputs=task,sparse")
    done = warpsmith(folder, shared_caches, *JUDGE, *options)
    variants = json.loads(done.stdout)["variants"]
    assert [(v["variant"], v["status"]) for v in variants] == [
        ("rows=1, inputs=task", "wrong"),
        ("rows=1, inputs=sparse", "wrong"),
        ("rows=5, inputs=task", "passed"),
        ("rows=5, inputs=sparse", "passed"),
    ]
    assert done.returncode == 1


def test_for_a_person_it_is_a_table(tmp_path: Path, shared_caches: Path) -> None:
    folder = lay_out(tmp_path, task=VARIED)
    words = [word for word in JUDGE if word != "--json"]
    done = warpsmith(folder, shared_caches, *words, "--vary", "rows=2,3")
    lines = done.stdout.splitlines()
    assert lines[0].split() == "variant status p50 p99 × eager × compile × matched".split()
    assert [line.split()[:2] for line in lines[1:]] == [["rows=2", "passed"], ["rows=3", "passed"]]
    assert done.returncode == 0


def test_a_size_that_the_task_lacks_is_wrong_usage(tmp_path: Path, shared_caches: Path) -> None:
    done = warpsmith(lay_out(tmp_path, task=VARIED), shared_caches, *JUDGE, "--vary", "width=4")
    assert (done.returncode, done.stdout) == (2, "")
    assert "assigns no size width; its sizes: rows" in done.stderr


def test_each_variant_is_optimized_in_a_folder_of_its_own(tmp_path: Path, shared_caches: Path) -> None:
    lay_out(tmp_path, task=VARIED)
    done = warpsmith(tmp_path, shared_caches, *OPTIMIZE, "--vary", "rows=2,3")
    assert done.returncode == 0, done.stderr
    variants = json.loads(done.stdout)["variants"]
    assert [(v["variant"], v["status"], v["out"]) for v in variants] == [
        ("rows=2", "passed", "result/rows_2"),
        ("rows=3", "passed", "result/rows_3"),
    ]
    for rows in (2, 3):
        assert f"rows = {rows}" in (tmp_path / "result" / f"rows_{rows}" / "model.py").read_text()
