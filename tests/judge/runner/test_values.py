import dataclasses
import json
from collections import OrderedDict, namedtuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.judge.runner import values
from warpsmith.judge.runner.values import Named, UnsupportedValue, flatten, paths, unflatten

Pair = namedtuple("Pair", "left right")


@dataclasses.dataclass
class Out:
    logits: torch.Tensor
    hidden: torch.Tensor | None = None


class ModelOutput(OrderedDict):
    pass


TAGS = ("t", "list", "tuple", "dict", "named", "none", "bool", "int", "float", "str", "dtype")
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=8),
    st.sampled_from([torch.float32, torch.bfloat16, torch.int64, torch.bool]),
    st.builds(torch.full, st.lists(st.integers(0, 3), max_size=3).map(tuple), st.floats(-9, 9)),
)
keys = st.one_of(st.text(max_size=5), st.integers(-5, 5))
nested = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(keys, inner, max_size=4),
        st.dictionaries(st.sampled_from("abc"), inner, max_size=3).map(lambda d: Named("X", "dict", d)),
    ),
    max_leaves=25,
)
jsons = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=6)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from([*TAGS, "x"]), inner, max_size=2),
    ),
    max_leaves=25,
)


def equal(a, b):
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if type(a) is not type(b):
        return False
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(equal(a[k], b[k]) for k in a)
    if isinstance(a, Named):
        return (a.name, a.kind) == (b.name, b.kind) and equal(a.fields, b.fields)
    return a == b


@given(nested)
@settings(deadline=None)
def test_round_trip_through_json(value):
    spec, tensors = flatten(value)
    again = unflatten(json.loads(json.dumps(spec)), tensors)
    assert equal(value, again)
    assert len(paths(spec)) == len(tensors)


@given(jsons, st.integers(0, 3))
@settings(deadline=None, max_examples=400)
def test_hostile_spec_is_a_value_or_a_value_error(spec, count):
    tensors = [torch.zeros(1)] * count
    try:
        value = unflatten(spec, tensors)
    except ValueError:
        return
    assert len(flatten(value)[1]) == count


@pytest.mark.parametrize(
    "spec",
    [
        None, 3, "t", [], {}, {1: 2}, {"t": 0, "none": 1}, {"t": True}, {"t": -1}, {"t": 1}, {"t": 0.0},
        {"list": {"t": 0}}, {"list": [{"t": 0}, {"t": 0}]}, {"list": [{"none": 1}] * (values.MAX_NODES + 1)},
        {"dict": [["a", {"t": 0}], ["a", {"none": 1}]]}, {"dict": {"a": {"t": 0}}}, {"dict": [["a"]]},
        {"dict": [[1.5, {"t": 0}]]}, {"dict": [[True, {"t": 0}]]}, {"dict": [[2**63, {"t": 0}]]},
        {"named": ["X", "list", [["a", {"t": 0}]]]}, {"named": ["X", ["dict"], []]}, {"named": [1, "dict", []]},
        {"none": 0}, {"none": 1}, {"bool": 1}, {"int": True}, {"int": 2**63}, {"float": 1.0},
        {"float": "0x1p5000"}, {"float": "one"}, {"str": 1}, {"str": "x" * (values.MAX_TEXT + 1)},
        {"dtype": "nn"}, {"dtype": 3},
    ],
)  # fmt: skip
def test_malformed_specs_are_refused(spec):
    with pytest.raises(ValueError):
        unflatten(spec, [torch.zeros(1)])


def test_depth_is_bounded_both_ways():
    spec, value = {"none": 1}, None
    for _ in range(values.MAX_DEPTH + 1):
        spec, value = {"list": [spec]}, [value]
    with pytest.raises(ValueError, match="deep"):
        unflatten(spec, [])
    with pytest.raises(UnsupportedValue, match="deep"):
        flatten(value)
    cycle: list = []
    cycle.append(cycle)
    with pytest.raises(UnsupportedValue):
        flatten(cycle)


def test_named_values():
    x, y = torch.ones(2), torch.zeros(3)
    for value, kind in (
        (Pair(x, y), "tuple"),
        (Out(x, y), "dataclass"),
        (ModelOutput(logits=x, hidden=y), "dict"),
    ):
        spec, tensors = flatten(value)
        back = unflatten(spec, tensors)
        assert (back.name, back.kind, list(map(id, back.fields.values()))) == (
            type(value).__name__,
            kind,
            list(map(id, tensors)),
        )
        with pytest.raises(UnsupportedValue):
            flatten(value, allow_named=False)


def test_results_of_operators_are_tuples():
    spec, tensors = flatten(torch.ones(2, 3).max(dim=1))
    assert spec == {"tuple": [{"t": 0}, {"t": 1}]} and tensors[1].dtype == torch.int64
    assert flatten(torch.Size([2, 3]))[0] == {"tuple": [{"int": 2}, {"int": 3}]}


class Lazy(torch.Tensor):
    pass


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (object(), "out"),
        ([1, {"a": {2, 3}}], "out[1]['a']"),
        ({(1, 2): 3}, "out"),
        ((torch.ones(2).as_subclass(Lazy),), "out[0]"),
        (Out(torch.eye(2).to_sparse()), "out.logits"),
        (torch.empty(2, device="meta"), "out"),
        ([2**63], "out[0]"),
        (1j, "out"),
        (torch.nn.ReLU(), "out"),
    ],
)
def test_unsupported_values_name_their_place(value, path):
    with pytest.raises(UnsupportedValue) as caught:
        flatten(value)
    assert caught.value.path == path
    assert caught.value.type_name


def test_floats_keep_every_bit():
    for number in (0.1, -0.0, 5e-324, float("inf"), float("nan")):
        back = unflatten(*flatten(number))
        assert back.hex() == number.hex()


def test_paths_and_meta():
    spec, tensors = flatten(({"logits": torch.ones(2, 1), 3: [torch.ones(1)]}, Out(torch.ones(4))))
    assert paths(spec) == ["out[0]['logits']", "out[0][3][0]", "out[1].logits"]
    assert paths(spec, "x")[0] == "x[0]['logits']"
    assert values.tensor_meta(tensors[0]) == {"dtype": "float32", "shape": [2, 1]}
    assert values.dtype_named("bfloat16") is torch.bfloat16


def test_tensors_share_memory_and_need_no_grad():
    parameter = torch.nn.Parameter(torch.ones(3))
    (tensor,) = flatten(parameter)[1]
    assert tensor.data_ptr() == parameter.data_ptr() and not tensor.requires_grad
