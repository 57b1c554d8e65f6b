"""The table of baselines, and how a mode is entered and left."""

from collections import namedtuple

import pytest
import torch
from torch import nn

from warpsmith.judge.timing.modes import (
    DEFAULT,
    MODES,
    OPTIONAL,
    PAPER,
    Entry,
    competitors,
    computing,
    enter,
    flags,
    mode_named,
    unavailable,
)
from warpsmith.types import BaselineKind

Pair = namedtuple("Pair", "a b")


def tf32() -> tuple[bool, bool]:
    return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
@pytest.mark.parametrize("before", [(False, True), (True, False), (True, True)])
def test_flags_are_as_before_also_after_an_exception(mode: object, before: tuple[bool, bool]) -> None:
    untouched = tf32()
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before
    try:
        with pytest.raises(RuntimeError, match="inside"), flags(mode):
            assert tf32() == (before if mode.tf32 is None else (mode.tf32, mode.tf32))
            torch.backends.cudnn.allow_tf32 = not before[1]
            raise RuntimeError("inside")
        assert tf32() == before
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = untouched


@pytest.mark.skipif(not hasattr(torch.backends.cudnn, "conv"), reason="this PyTorch has only the older names")
def test_flags_set_by_their_newer_names_are_as_before() -> None:
    untouched = tf32()
    matmul, conv, rnn = torch.backends.cuda.matmul, torch.backends.cudnn.conv, torch.backends.cudnn.rnn
    try:
        matmul.fp32_precision, conv.fp32_precision, rnn.fp32_precision = "tf32", "ieee", "tf32"
        with flags(mode_named("strict")):
            assert (matmul.fp32_precision, conv.fp32_precision, rnn.fp32_precision) == (
                "ieee",
                "none",
                "none",
            )
        assert (matmul.fp32_precision, conv.fp32_precision, rnn.fp32_precision) == ("tf32", "ieee", "tf32")
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = untouched


class Several(nn.Module):
    """Outputs of several dtypes in every container."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> tuple:
        y = self.layer(x)
        return Pair(y, {"double": y.double(), "index": y.argmax()}), [y.to(torch.float16), 3, None]


@pytest.mark.parametrize("name", ["bf16", "fp16"])
def test_autocasts_outputs_have_the_references_dtypes(name: str) -> None:
    model, x = Several(), torch.randn(4, 8)
    dtypes = ["float32", "float64", "int64", "float16"]
    (first, named), rest = computing(mode_named(name), model, dtypes, "cpu")(x)
    assert [t.dtype for t in (first, named["double"], named["index"], rest[0])] == [
        getattr(torch, dtype) for dtype in dtypes
    ]
    assert rest[1:] == [3, None]
    low = getattr(torch, mode_named(name).autocast)
    assert torch.equal(first, first.to(low).float())  # computed in half precision
    assert not torch.equal(model(x)[0].a, first)


def test_modes_without_autocast_are_the_model_itself() -> None:
    model = Several()
    for name in ("default", "strict", "tf32"):
        assert computing(mode_named(name), model, [], "cpu") is model


@pytest.mark.slow
def test_frozen_weights_are_those_of_the_first_call() -> None:
    from torch._inductor import config

    model, x = nn.Linear(16, 16).eval(), torch.randn(4, 16)
    with torch.no_grad():
        expected = model(x)
        forward = enter(Entry(DEFAULT, BaselineKind.FROZEN), model, ["float32"], "cpu")
        try:
            assert torch.allclose(forward(x), expected, atol=1e-6)
            model.weight.data = torch.zeros(16, 16)
            assert torch.allclose(forward(x), expected, atol=1e-6)
        finally:
            config.freezing = False


def test_what_always_competes_and_what_applies() -> None:
    assert [m.name for m in MODES if m.always] == ["default", "strict"]
    assert [m.name for m in MODES if not m.inapplicable({"float32", "int64"})] == [m.name for m in MODES]
    assert [m.name for m in MODES if not m.inapplicable({"float16", "int64"})] == ["default"]
    assert DEFAULT.inapplicable(()) == ""


def test_entries_have_names_and_a_side_each() -> None:
    assert [e.name for e in PAPER] == ["default eager", "default compile"]
    assert [e.name for e in competitors(["default", "tf32"], frozen=True)] == [
        "default eager",
        "default compile",
        "default frozen",
        "tf32 eager",
        "tf32 compile",
        "tf32 frozen",
    ]
    assert [e.kind.side for e in competitors(["bf16"], frozen=False)] == ["eager", "compile"]
    assert {e.name for e in OPTIONAL} == {
        "default frozen", "default max-autotune", "default cuda-graphs", "default tvm"
    }  # fmt: skip
    assert unavailable(Entry(DEFAULT, BaselineKind.TVM)) == "TVM is not installed"
    assert unavailable(PAPER[0]) == ""
