"""A short campaign over every reader of foreign input; `benchmarks/fuzz.py` is the long one."""

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from tests.fuzz.forging import RIGHT, WRONG, outcome
from tests.fuzz.targets import Target, targets

from warpsmith.types import Status

FEW = settings(
    max_examples=25,
    deadline=None,
    database=None,
    derandomize=True,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("target", targets(), ids=lambda target: target.name)
def test_foreign_input_is_read_or_refused(target: Target) -> None:
    FEW(given(target.examples)(target.read))()


def test_unforged_both_candidates_are_what_they_are() -> None:
    assert (outcome(RIGHT, []), outcome(WRONG, [])) == (Status.PASSED, Status.WRONG)
