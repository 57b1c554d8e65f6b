"""One reading of what `get_init_inputs` gives."""

import pytest

from warpsmith.types.arguments import Arguments, constructor_arguments


def plain(a: object, b: object = None) -> None:
    """Takes two by position."""


def named(a: object, *, scale: object) -> None:
    """Takes one by name."""


@pytest.mark.parametrize(
    ("found", "model", "expected"),
    [
        ([], plain, Arguments((), {})),
        ([1, 2], plain, Arguments((1, 2), {})),
        ((1,), plain, Arguments((1,), {})),
        (7, plain, Arguments((7,), {})),
        ({"n": 1}, plain, Arguments(({"n": 1},), {})),
        ([[1], {"scale": 2}], named, Arguments((1,), {"scale": 2})),
        (([1], {"b": 2}), plain, Arguments((1,), {"b": 2})),
        ([[1], {}], plain, Arguments((1,), {})),
        # a list and a dict by position: no such names
        ([[1], {"x": 2}], plain, Arguments(([1], {"x": 2}), {})),
        ([[1], {2: 3}], plain, Arguments(([1], {2: 3}), {})),
        ([[1], {"scale": 2}, 3], named, Arguments(([1], {"scale": 2}, 3), {})),
    ],
)
def test_arguments(found: object, model: object, expected: Arguments) -> None:
    assert constructor_arguments(found, model) == expected
