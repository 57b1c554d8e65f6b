"""A draft is written out as the task that was meant."""

import pytest
import torch
from tests.synthesis.small import small_catalogue

from warpsmith.synthesis.cost import look
from warpsmith.synthesis.draft import DoesNotFitError, begin, data_source
from warpsmith.synthesis.records import Operator, Values
from warpsmith.tasks.user_file import check_source

EXPECTED = '''import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Conv2d -> gelu -> sum."""

    def __init__(self, channels, out_channels):
        super().__init__()
        self.conv2d = nn.Conv2d(channels, out_channels, kernel_size=3, padding=1)

    def forward(self, x):
        x = self.conv2d(x)
        x = F.gelu(x)
        x = torch.sum(x, dim=1, keepdim=True)
        return x


batch_size = 16
channels = 8
height = 32
width = 48
out_channels = 64


def get_inputs():
    return [torch.rand(batch_size, channels, height, width)]


def get_init_inputs():
    return [channels, out_channels]
'''


def op(name: str, variant: str = "") -> Operator:
    return next(o for o in small_catalogue().operators if o.name == f"torch.{name}" and o.variant == variant)


def three() -> "object":
    conv = op("nn.Conv2d")
    draft = begin(conv, (16, 8, 32, 48), Values.UNIT)
    draft = draft.apply(conv, {"out_channels": 64, "kernel_size": 3, "padding": 1})
    return draft.apply(op("nn.functional.gelu"), {}).apply(op("sum", "keepdim"), {"dim": 1})


def test_text():
    draft = three()
    assert draft.render() == EXPECTED
    assert draft.shape == (16, 1, 32, 48)
    assert data_source(draft.ops) == "torch#3"


def test_its_text_runs_to_the_shape_that_was_told():
    seen = look(three().render())
    assert seen.output_shape == (16, 1, 32, 48)
    # a multiplication and an addition for each weight and output
    assert seen.trace.flops == 2 * 16 * 64 * 32 * 48 * 8 * 9
    assert seen.input_bytes == 16 * 8 * 32 * 48 * 4
    assert seen.output_bytes == 16 * 32 * 48 * 4


def test_scaling_changes_one_size_and_keeps_the_conditions():
    norm = op("nn.GroupNorm")
    draft = begin(norm, (4, 32, 8, 8), Values.ANY).apply(norm, {"groups": 8})
    bigger = draft.scaled("batch_size", 640)
    assert bigger.sizes == {**draft.sizes, "batch_size": 640}
    assert look(bigger.render()).output_shape == (640, 32, 8, 8)
    assert draft.scaled("channels", 36) is None


def test_what_does_not_fit_is_said():
    pool = op("nn.MaxPool2d")
    draft = begin(pool, (2, 3, 2, 2), Values.ANY)
    with pytest.raises(DoesNotFitError):
        draft.apply(pool, {"kernel_size": 3})


def test_sizes_that_no_name_is_known_for_get_one():
    pool, norm = op("nn.MaxPool2d"), op("nn.LayerNorm")
    draft = begin(pool, (4, 8, 30, 30), Values.ANY).apply(pool, {"kernel_size": 2}).apply(norm, {})
    assert draft.sizes["width_out"] == 15
    assert "self.layer_norm = nn.LayerNorm(width_out)" in draft.render()
    check_source(draft.render(), "the draft")
    assert look(draft.render()).output_shape == (4, 8, 15, 15)


def test_two_inputs_of_one_name_are_told_apart():
    where = op("where")
    draft = begin(where, (8, 64), Values.ANY).apply(where, {"share": 0.5}).apply(where, {"share": 0.2})
    names = [drawn.name for drawn in draft.inputs]
    assert names == ["x", "condition", "other", "condition_2", "other_2"]
    scope: dict = {}
    exec(draft.render(), scope)
    torch.manual_seed(0)
    x, first, other, second, another = scope["get_inputs"]()
    expected = torch.where(second, torch.where(first, x, other), another)
    assert torch.equal(scope["Model"]()(x, first, other, second, another), expected)
