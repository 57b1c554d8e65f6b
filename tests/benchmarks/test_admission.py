"""The list of KernelBench's tasks: asked again where that is wanted, and written as a table."""

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from warpsmith.evaluation import CheckLog, set_summary
from warpsmith.types import CheckSettings, Device, Fitness, Task, TaskCheck, TaskSource

FOLDER = Path(__file__).parents[2] / "benchmarks"
SETTINGS = CheckSettings(device=Device.CUDA)


@pytest.fixture(scope="module")
def admission() -> Iterator[ModuleType]:
    """The script as a module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        spec = importlib.util.spec_from_file_location("benchmark_admission", FOLDER / "admission.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
        sys.modules.pop("common", None)


def task(level: int, problem: int) -> Task:
    return Task(
        name=f"{problem}_T", code=f"# {level} {problem}", level=level, problem_id=problem,
        source=TaskSource.KERNELBENCH, revision="r",
    )  # fmt: skip


def row(level: int, problem: int, fitness: Fitness = Fitness.FIT, **said: tuple[str, ...]) -> TaskCheck:
    one = task(level, problem)
    return TaskCheck(
        question=SETTINGS.question(one), task_name=one.name, task_hash=one.task_hash, source=one.source,
        level=level, problem_id=problem, device=Device.CUDA, purpose=SETTINGS.purpose, fitness=fitness, **said,
    )  # fmt: skip


def test_only_what_is_asked_again_is(admission: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    with CheckLog(path) as log:
        for one in (row(1, 51, flags=("noise",)), row(1, 52), row(2, 51)):
            log.append(one)
    assert admission.forget(path, ["1/51", "3/1"]) == 1
    with CheckLog(path) as log:
        known = {pair: log.find(SETTINGS.question(task(*pair))) for pair in ((1, 51), (1, 52), (2, 51))}
        assert known == {(1, 51): None, (1, 52): row(1, 52), (2, 51): row(2, 51)}
        changed = SETTINGS.model_copy(update={"version": SETTINGS.version + 1})
        assert log.find(changed.question(task(1, 52))) is None, "another version of the checks asks for all"
    before = path.read_bytes()
    assert admission.forget(path, []) == 0 and path.read_bytes() == before
    assert admission.forget(tmp_path / "none.jsonl", ["1/1"]) == 0


def test_the_page_holds_counts_and_reasons_and_keeps_its_head(admission: ModuleType, tmp_path: Path) -> None:
    rows = [
        row(1, 2, notes=("3 of 4 parameters were examined",)),
        row(1, 10, flags=("a | b", "c"), notes=("3 of 4 parameters were examined",)),
        row(1, 9, flags=("d",)),
        row(2, 1, Fitness.UNFIT, problems=("the output is zero throughout",)),
        row(4, 1, Fitness.UNSUPPORTED, notes=("import needs the Python package x",)),
    ]
    found = {
        "measured_on": {"gpu": "G", "driver": "1", "torch": "2", "date": "2026-01-02T03"},
        "device": "cuda",
        "counts": {str(n): set_summary([r for r in rows if r.level == n]).model_dump() for n in (1, 2, 4)},
        "all": set_summary(rows).model_dump(),
        "named": [admission.named(r) for r in rows if r.flags or r.fitness is not Fitness.FIT],
    }
    result, page = tmp_path / "admission.json", tmp_path / "page.md"
    result.write_text(json.dumps(found))
    page.write_text(f"# Head\n\n{admission.MARK}\nold\n")
    admission.write_page(result, page)
    text = page.read_text()
    assert text.startswith(f"# Head\n\n{admission.MARK}\n\nChecked on G, driver 1, torch 2, 2026-01-02.\n")
    assert "old" not in text and "examined" not in text
    lines = text.splitlines()
    assert "| level 1 | 3 | 3 | 2 | 0 | 0 | 0 |" in lines and "| all | 5 | 3 | 2 | 1 | 1 | 0 |" in lines
    assert [line for line in lines if line.startswith(("## ", "| 1/", "| 2/", "| 4/"))] == [
        "## Flagged",
        "| 1/9 | 9_T | d |",
        "| 1/10 | 10_T | a \\| b; c |",
        "## Unfit",
        "| 2/1 | 1_T | the output is zero throughout |",
        "## Unsupported",
        "| 4/1 | 1_T | import needs the Python package x |",
    ]
    admission.write_page(result, page)
    assert page.read_text() == text
    with pytest.raises(SystemExit, match="does not exist"):
        admission.write_page(tmp_path / "none.json", page)


def test_the_page_in_the_docs_has_its_mark(admission: ModuleType) -> None:
    assert admission.MARK in admission.PAGE.read_text()
