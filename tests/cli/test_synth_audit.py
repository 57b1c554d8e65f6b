"""`warpsmith synth audit` as a process."""

import json
import subprocess
import sys
from pathlib import Path

TASK = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)


def get_inputs():
    return [torch.randn(64, 64)]


def get_init_inputs():
    return []
"""


def _audit(folder: Path, rows: list[dict], *options: str) -> subprocess.CompletedProcess[str]:
    path = folder / "set.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return subprocess.run(
        [sys.executable, "-m", "warpsmith", "synth", "audit", str(path), "--unsafe-local", *options],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def _row(code: str, *ops: str) -> dict:
    return {"ops": list(ops), "data_source": f"torch#{len(ops)}", "code": code}


def test_a_clean_set_ends_with_status_0_and_a_repeated_task_with_1(tmp_path: Path) -> None:
    row = _row(TASK, "torch.softmax")
    clean = _audit(tmp_path, [row])
    assert clean.returncode == 0, clean.stderr
    assert "1 rows, 0 with findings" in clean.stdout

    benchmark = tmp_path / "benchmark.jsonl"
    task = {"level": 1, "problem_id": 3, "name": "3_softmax", "code": TASK.replace("64", "32")}
    benchmark.write_text(json.dumps(task) + "\n")
    found = _audit(tmp_path, [row, _row("", "torch.relu")], "--against", str(benchmark), "--json")
    assert found.returncode == 1, found.stderr
    answer = json.loads(found.stdout)
    assert answer["clean"] is False and (answer["rows"], answer["against"], answer["traced"]) == (2, 1, 1)
    assert answer["findings"] == [
        {"row": 1, "finding": "contaminated.same_structure", "detail": "level 1 problem 3"},
        {"row": 2, "finding": "refused.no_model", "detail": ""},
    ]


def test_a_file_without_rows_is_wrong_usage(tmp_path: Path) -> None:
    empty = _audit(tmp_path, [])
    assert (empty.returncode, empty.stdout) == (2, "")
    assert empty.stderr.startswith("warpsmith: ") and len(empty.stderr.splitlines()) == 1
    assert _audit(tmp_path, [_row(TASK, "torch.softmax")], "--workers", "0").returncode == 2
    assert _audit(tmp_path, [_row(TASK, "torch.softmax")], "--against", "nowhere").returncode == 2
