import pytest

from warpsmith.judge.evidence.operators import outcome


def test_views_empties_and_fills_are_not_computation() -> None:
    seen = {
        "aten.empty_like.default": 1,
        "aten.view.default": 2,
        "aten.zeros.default": 1,
        "aten.clone.default": 1,
    }
    assert outcome(seen).passed
    assert outcome({}).passed


@pytest.mark.parametrize("name", ["aten.mm.default", "aten.add.Tensor", "aten.copy_.default", "aten._to_copy.default",
                                  "aten.cat.default", "aten.convolution.default", "myops.gemm.default"])  # fmt: skip
def test_anything_else_is(name: str) -> None:
    found = outcome({"aten.empty.memory_format": 1, name: 1})
    assert not found.passed and name in found.detail


@pytest.mark.parametrize("report", [None, [], "aten.mm", {1: 2}])
def test_a_report_of_the_wrong_form_does_not_pass(report: object) -> None:
    assert not outcome(report).passed
