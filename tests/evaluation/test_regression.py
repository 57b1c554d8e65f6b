"""Regressions, JUnit and the summary."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from warpsmith.errors import UsageError
from warpsmith.evaluation.regression import (
    BaselineFile,
    Change,
    KeptTime,
    ci_markdown,
    compared,
    junit,
    read_baseline,
    write_baseline,
)  # fmt: skip
from warpsmith.rollout.scripted import scripted_verdict
from warpsmith.types import Device, Machine, Status, Submission, Task, TimeStats, Timings, Verdict
from warpsmith.types.protocols import JudgeSettings


def verdict(median_ms: float, status: Status = Status.PASSED, detail: str = "", gpu: str = "X1") -> Verdict:
    given = Submission(files={"model_new.py": "# x\n"})
    base = scripted_verdict(
        Task(name="t", code="x"), given, JudgeSettings(device=Device.CUDA), status, detail=detail
    )
    stats = TimeStats(calls=9, median_ms=median_ms, p25_ms=median_ms * 0.99, p75_ms=median_ms * 1.01,
                      min_ms=median_ms * 0.9, raw_median_ms=median_ms, null_ms=0.0)  # fmt: skip
    machine = Machine(device=Device.CUDA, gpu=gpu)
    return base.model_copy(update={"timings": Timings(candidate=stats), "machine": machine})


KEPT = KeptTime(median_ms=1.0, p25_ms=0.95, p75_ms=1.05, gpu="X1")


@pytest.mark.parametrize(
    ("median_ms", "change"),
    [
        (1.0, Change.SAME),
        (1.059, Change.SAME),
        (1.061, Change.SLOWER),
        (0.95, Change.SAME),
        (0.9, Change.FASTER),
    ],
)
def test_the_band_is_the_spread_of_both(median_ms: float, change: Change) -> None:
    found = compared("t", verdict(median_ms), KEPT)
    assert found.band == pytest.approx(0.06)
    assert found.change is change
    assert found.failed == (change is Change.SLOWER)


def test_what_is_not_comparable_is_not_compared() -> None:
    assert compared("t", verdict(9.0, gpu="Y2"), KEPT).change is Change.OTHER_GPU
    assert compared("t", verdict(9.0), None).change is Change.NEW
    assert compared("t", verdict(1.0, Status.WRONG), KEPT).failed
    assert compared("t", verdict(1.0, Status.INFRASTRUCTURE), KEPT).change is Change.UNJUDGED


def test_only_what_passed_is_stored(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    assert read_baseline(path) == BaselineFile()
    write_baseline(path, BaselineFile(), [("a", verdict(2.0)), ("b", verdict(2.0, Status.WRONG))])
    assert {k: v.median_ms for k, v in read_baseline(path).cases.items()} == {"a": 2.0}
    path.write_text("{}x")
    with pytest.raises(UsageError):
        read_baseline(path)


def test_hostile_text_ends_neither_xml_nor_a_table() -> None:
    evil = "</failure>]]>|<script>\x00\x1b\n| a | b |"
    results = [compared("t|<b>", verdict(1.0, Status.WRONG, evil), KEPT), compared("u", verdict(1.0), KEPT)]
    suite = ElementTree.fromstring(junit(results, 1.0)).find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")
    assert suite.findtext("testcase/failure") == "</failure>]]>|<script>??\n| a | b |"
    text = ci_markdown(results)
    assert "<script" not in text
    assert len(text.splitlines()) == 6
