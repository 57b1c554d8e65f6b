"""`optimize` on tasks that are no good, with the real policy and judge: one line, the right status, nothing torn."""

import json
from pathlib import Path

import pytest
from tests.cli.real import OPTIMIZE, TASK, lay_out, warpsmith

from warpsmith.store import RunReader
from warpsmith.types import StopReason

pytest.importorskip("torch")

FORWARD = "        return torch.relu(2.0 * x + y)\n"
INPUTS = "    return [torch.randn(33, 17), torch.randn(33, 17)]\n"
MODEL = "    def forward"

REFUSED_BEFORE_THE_RUN = {
    "raises on import": (
        "import torch\n",
        "import torch\nraise ValueError('no')\n",
        "import raised ValueError",
    ),
    "exits on import": ("import torch\n", "import torch\nraise SystemExit(0)\n", "import raised SystemExit"),
    "ends its process": ("import torch\n", "import os\nos._exit(0)\n", "ended the process"),
    "raises on construction": (
        MODEL,
        "    def __init__(self): 1 / 0\n" + MODEL,
        "Model() raised ZeroDivision",
    ),
    "raises for its inputs": (INPUTS, "    raise ValueError('no')\n", "get_inputs() raised ValueError"),
}
REFUSED_IN_THE_RUN = {
    "raises in forward": (FORWARD, "        raise ValueError('no')\n", "ValueError: no"),
    "exits in forward": (FORWARD, "        raise SystemExit(0)\n", "SystemExit"),
    "no inputs": (INPUTS, "    return []\n", "missing 2 required positional arguments"),
}


@pytest.fixture(scope="module")
def cache(shared_caches: Path) -> Path:
    return shared_caches


def broken(folder: Path, change: tuple[str, str, str]) -> Path:
    """A folder with the task, one part of it replaced."""
    old, new, _ = change
    assert old in TASK
    return lay_out(folder, task=TASK.replace(old, new, 1))


@pytest.mark.parametrize("what", REFUSED_BEFORE_THE_RUN)
def test_a_task_that_cannot_be_made_is_refused_and_leaves_no_folder(
    tmp_path: Path, cache: Path, what: str
) -> None:
    change = REFUSED_BEFORE_THE_RUN[what]
    done = warpsmith(broken(tmp_path, change), cache, *OPTIMIZE)
    assert done.returncode == 1, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["status"], answer["reward"]) == ("task_refused", None)
    assert change[2] in answer["detail"]
    (line,) = [line for line in done.stderr.splitlines() if not line.startswith("[")]
    assert line == f"warpsmith: {answer['detail']}"
    assert not (tmp_path / "result").exists()


@pytest.mark.parametrize("what", REFUSED_IN_THE_RUN)
def test_a_task_that_does_not_run_is_refused_and_the_folder_says_so(
    tmp_path: Path, cache: Path, what: str
) -> None:
    change = REFUSED_IN_THE_RUN[what]
    done = warpsmith(broken(tmp_path, change), cache, *OPTIMIZE)
    assert done.returncode == 1, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["status"], answer["reward"], answer["solution"]) == ("task_refused", None, None)
    assert change[2] in answer["detail"] and "\n" not in answer["detail"]
    assert all(line.startswith("[") for line in done.stderr.splitlines()), done.stderr
    (episode,) = RunReader(tmp_path / "result").episodes()
    assert episode.stop is StopReason.TASK_REFUSED
    assert answer["detail"] in (tmp_path / "result" / "report.md").read_text()


def test_inputs_from_a_generator_are_as_good_as_a_list(tmp_path: Path, cache: Path) -> None:
    lazy = INPUTS.replace("return [torch.randn(33, 17), ", "yield torch.randn(33, 17); yield ").replace(
        "]", ""
    )
    done = warpsmith(broken(tmp_path, (INPUTS, lazy, "")), cache, *OPTIMIZE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["status"] == "passed"
