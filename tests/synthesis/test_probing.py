"""Trying an operator finds what it takes, gives, leaves alone; and what is no operator for a task."""

import pytest

from warpsmith.synthesis.probing import NotUsableError, allowed, probe
from warpsmith.synthesis.records import Family, LeftOut, Values
from warpsmith.synthesis.templates import choose, function, module, size, tensor

POINTWISE = Family.ELEMENTWISE
SAME = (tensor("other", "same"),)


def test_relu_gives_no_negatives_and_does_nothing_to_them():
    found = probe(module("ReLU", Family.ACTIVATION, "24"))
    assert found.ranks == (2, 4) and found.keeps_shape and found.floating
    assert found.takes is Values.ANY
    assert found.gives[Values.ANY] is Values.NONNEGATIVE
    assert set(found.void_on) == set(Values) - {Values.ANY, Values.SIGNED_UNIT}


@pytest.mark.parametrize(
    ("name", "takes"),
    [
        ("torch.exp", Values.ANY), ("torch.sqrt", Values.NONNEGATIVE), ("torch.log", Values.POSITIVE),
        ("torch.asin", Values.SIGNED_UNIT), ("torch.rsqrt", Values.POSITIVE),
    ],
)  # fmt: skip
def test_values_that_an_operator_takes(name, takes):
    assert probe(function(name, POINTWISE, "2", "{x}")).takes is takes


def test_what_it_gives_depends_on_what_flows_in():
    found = probe(function("torch.cumsum", Family.SCAN, "2", "{x}, dim=-1"))
    assert found.gives[Values.UNIT] in (Values.NONNEGATIVE, Values.POSITIVE)
    assert found.gives[Values.ANY] is Values.ANY
    assert not found.void_on


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        (function("torch.round", POINTWISE, "2", "{x}"), LeftOut.DISCONTINUOUS),
        (function("torch.sign", POINTWISE, "2", "{x}"), LeftOut.UTILITY),
        (function("torch.clone", POINTWISE, "2", "{x}"), LeftOut.UTILITY),
        (function("torch.rand_like", POINTWISE, "2", "{x}"), LeftOut.RANDOM),
        (function("torch.fft.rfft", Family.OTHER, "2", "{x}"), LeftOut.COMPLEX),
        (function("torch.kron", Family.BINARY, "4", "{x}, {other}", inputs=SAME), LeftOut.TOO_LARGE),
        (function("torch.nonexistent", POINTWISE, "2", "{x}"), LeftOut.FAILS),
        (function("torch.sum", Family.REDUCTION, "2", "{x}"), LeftOut.FAILS),
        (module("Linear", Family.LINEAR, "2", "{d0}, 4"), LeftOut.FAILS),
    ],
)  # fmt: skip
def test_what_no_task_can_use_has_its_reason(template, reason):
    with pytest.raises(NotUsableError) as raised:
        probe(template)
    assert raised.value.reason is reason


def test_parameters_are_chosen_so_that_the_requirements_hold():
    found = probe(
        module(
            "GroupNorm",
            Family.NORM,
            "4",
            "{groups}, {d1}",
            choose("groups", 7, 4),
            requires="d1 % groups == 0",
        )
    )
    assert found.keeps_shape and found.trace == ("aten.native_group_norm",)


def test_another_input_and_a_size():
    weight = tensor("weight", "last out_features")
    found = probe(
        function(
            "torch.matmul", Family.LINEAR, "23", "{x}, {weight}", size("out_features", 48), inputs=(weight,)
        )
    )
    assert found.ranks == (2, 3) and not found.keeps_shape and found.gives[Values.ANY] is Values.ANY


@pytest.mark.parametrize(
    ("known", "wanted", "fits"),
    [
        (Values.POSITIVE_UNIT, Values.NONNEGATIVE, True), (Values.UNIT, Values.POSITIVE, False),
        (Values.ANY, Values.ANY, True), (Values.ANY, Values.UNIT, False), (Values.UNIT, Values.SIGNED_UNIT, True),
    ],
)  # fmt: skip
def test_classes_of_values(known, wanted, fits):
    assert allowed(known, wanted) is fits
