"""Templates' arithmetic gives the right numbers, and nothing but numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.errors import UsageError
from warpsmith.synthesis.arithmetic import evaluate, names_in, substituted

NAMES = {"d0": 8, "d1": 6, "last": 64, "groups": 2}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3), ("0.5", 0.5), ("'sum'", "sum"), ("2 * d1", 12), ("d1 // 4", 1), ("last ** 2 - 1", 4095),
        ("max(1, d1 // 8)", 1), ("(d0, last)", (8, 64)), ("d1 % groups == 0", True), ("d1 > 6 or d0 == 8", True),
        ("last >= 32 and last <= 63", False), ("-d0", -8), ("not d1 == 6", False),
    ],
)  # fmt: skip
def test_values(text, value):
    assert evaluate(text, NAMES) == value


@pytest.mark.parametrize(
    "text", ["unknown", "__import__('os')", "d0.real", "[d0]", "d0 if d1 else 2", "d0 +", "len(d0)"]
)
def test_nothing_else_is_evaluated(text):
    with pytest.raises(UsageError):
        evaluate(text, NAMES)


def test_names():
    assert names_in("max(d1 // groups, 2) + last") == {"d1", "groups", "last"}


@given(
    st.integers(1, 99),
    st.integers(1, 99),
    st.sampled_from(["a * b + 1", "(a + b) // 3", "max(a, 2 * b) - a % b"]),
)
def test_substitution_keeps_the_value(a, b, text):
    replaced = substituted(text, {"a": "height - 1", "b": "width"})
    assert evaluate(replaced, {"height": a + 1, "width": b}) == evaluate(text, {"a": a, "b": b})
