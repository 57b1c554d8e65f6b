"""What may not stand in one line, and what is only said."""

import pytest
from tests.evaluation.tables import absent, row

from warpsmith.errors import UsageError
from warpsmith.evaluation.mixing import incomparable, mixed, refuse_mixed
from warpsmith.evaluation.row import Condition, Row
from warpsmith.types import Rules


def under(name: str, series: str = "scripted", versions: str = "torch 2.13", **fields: object) -> Row:
    values: dict[str, object] = {"gpu": "X1", "rules": Rules.PAPER, "protocol": ""} | fields
    condition = Condition.model_validate(values)
    return row(name, 2.0, series=series).model_copy(update={"condition": condition, "versions": versions})


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"gpu": "X2"}, "GPUs: X1 (1); X2 (1)"),
        ({"rules": Rules.PRACTICAL}, "rules: paper (1); practical (1)"),
        ({"protocol": "matched"}, "protocols: none named (1); matched (1)"),
        ({"baselines": "paper"}, "menus of baselines: none named (1); paper (1)"),
    ],
)
def test_one_line_of_several_conditions_is_refused(other: dict[str, object], told: str) -> None:
    rows = [under("a"), under("b", **other), absent("c")]
    assert mixed(rows) == [f"scripted mixes {told}"]
    with pytest.raises(UsageError, match="cannot stand in one line"):
        refuse_mixed(rows)


def test_lines_that_differ_are_said_and_stand() -> None:
    rows = [under("a"), under("a", "other", gpu="X2", protocol="matched", versions="torch 2.14")]
    refuse_mixed(rows)
    assert incomparable(rows) == [
        "the lines differ in GPUs: X1 (1); X2 (1)",
        "several versions: torch 2.13 (1); torch 2.14 (1)",
    ]


def test_alike_is_nothing_to_say() -> None:
    rows = [under("a"), under("b"), absent("c")]
    refuse_mixed(rows)
    assert (mixed(rows), incomparable(rows)) == ([], [])
