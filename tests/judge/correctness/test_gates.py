import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.judge.correctness import moments
from warpsmith.judge.correctness.gates import compare, summarise
from warpsmith.judge.correctness.moments import identical

POISON = torch.tensor([0xA5, 0xA5, 0xA5, 0xA5], dtype=torch.uint8).view(torch.float32).item()
sizes = st.sampled_from([16, 17, 257, 4096])
scales = st.sampled_from([1e-12, 1e-6, 1e-3, 1.0, 1e4, 1e12])
offsets = st.sampled_from([0.0, 1.0, 30.0, 1e4])
seeds = st.integers(0, 2**31)


def sample(seed, n, scale=1.0, offset=0.0, dtype=torch.float32):
    """n values of spread `scale` about `scale * offset`."""
    generator = torch.Generator().manual_seed(seed)
    return (scale * (offset + torch.randn(n, generator=generator, dtype=torch.float64))).to(dtype)


def unit(e):
    """The gate's own measure: spread about the centre, and the rounding unit of the mean."""
    e = e.double()
    centred = e.std(correction=0) < 0.1 * e.mean().abs()
    spread = e.std(correction=0) if centred else e.square().mean().sqrt()
    centre = e.mean() if centred else torch.zeros(())
    floor = 64 * torch.finfo(torch.float32).eps * e.mean().abs() if centred else 0.0
    return spread, centre, floor


def tf32(x):
    """Rounded to ten bits of mantissa, to nearest."""
    bits = x.contiguous().view(torch.int32)
    return ((bits + 0x0FFF + ((bits >> 13) & 1)) & ~0x1FFF).view(torch.float32)


@given(seeds, sizes, scales, offsets, st.floats(1.5, 1e6), st.booleans())
@settings(deadline=None, max_examples=300)
def test_one_wrong_element_fails(seed, n, scale, offset, factor, negative):
    e = sample(seed, n, scale, offset)
    spread, centre, floor = unit(e)
    i = seed % n
    tolerance = 1e-2 * spread + 1e-2 * (e[i].double() - centre).abs() + floor
    a = e.double().clone()
    a[i] += (-1 if negative else 1) * factor * tolerance
    a = a.float()
    found = compare(e, a)
    assert not found.scale_gate
    assert found.where == f"out[{i}]"
    assert found.mismatched_fraction == 1 / n
    assert found.max_abs == pytest.approx(factor * tolerance.item(), rel=1e-1)


@given(seeds, sizes, scales, offsets, st.sampled_from([0.5, 0.95, 1.05, 2.0, 0.0, -1.0]))
@settings(deadline=None, max_examples=200)
def test_off_by_a_factor_fails(seed, n, scale, offset, factor):
    e = sample(seed, n, scale, offset)
    assert not compare(e, factor * e).scale_gate


@given(seeds, sizes, scales, offsets, st.floats(0.2, 10))
@settings(deadline=None, max_examples=200)
def test_missing_bias_fails(seed, n, scale, offset, bias):
    """A shift by a small part of the spread, also where it is far below the mean."""
    e = sample(seed, n, scale, offset)
    assert not compare(e, (e.double() + bias * scale).float()).scale_gate


@given(seeds, scales, offsets)
@settings(deadline=None, max_examples=100)
def test_swapped_rows_fail(seed, scale, offset):
    e = sample(seed, 64 * 32, scale, offset).reshape(64, 32)
    a = e.clone()
    a[3] = e[4]
    found = compare(e, a)
    assert not found.scale_gate
    assert found.where.startswith("out[3, ")
    assert 0 < found.mismatched_fraction <= 1 / 64


@pytest.mark.parametrize("poison", [POISON, math.nan, 0.0, 1e30])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_unwritten_block_fails(poison, scale):
    e = sample(1, 100_000, scale).reshape(100, 1000)
    a = e.clone()
    a[40:42, 128:256] = poison
    found = compare(e, a)
    assert not found.scale_gate
    assert found.mismatched_fraction == pytest.approx(256 / 100_000, rel=0.05)
    # The published gate cannot see what is missing from a tiny output.
    assert found.paper_gate == (scale == 1e-6 and abs(poison) < 1e-2)


@given(seeds, st.sampled_from([8, 100, 1024]), scales, st.booleans())
@settings(deadline=None, max_examples=60)
def test_reordered_float32_sums_pass(seed, k, scale, positive):
    g = torch.Generator().manual_seed(seed)
    a, b = (torch.rand(32, k, generator=g) - (0.0 if positive else 0.5) for _ in range(2))
    a *= scale
    reference = a @ b.T
    order = torch.randperm(k, generator=g)
    sequential = torch.zeros(32, 32)
    for i in order:
        sequential += a[:, i, None] * b[None, :, i]
    assert compare(reference, sequential).scale_gate
    assert compare(reference, (a.double() @ b.double().T).float()).scale_gate


@given(seeds, st.sampled_from([64, 512, 4096]), st.booleans())
@settings(deadline=None, max_examples=40)
def test_tf32_products_pass(seed, k, positive):
    g = torch.Generator().manual_seed(seed)
    draw = torch.rand if positive else torch.randn
    a, b = draw(48, k, generator=g), draw(k, 48, generator=g)
    reference = a @ b
    rounded = tf32(a) @ tf32(b)
    found = compare(reference, rounded)
    assert found.scale_gate and found.rel < 1e-3


@given(seeds, sizes, scales)
@settings(deadline=None, max_examples=100)
def test_noise_of_a_thousandth_of_rms_passes(seed, n, scale):
    e = sample(seed, n, scale)
    noise = sample(seed + 1, n).clamp(-5, 5)
    a = (e.double() + 1e-3 * scale * noise).float()
    found = compare(e, a)
    assert found.scale_gate and 1e-4 < found.rel < 5e-3


@given(seeds, sizes, offsets, st.sampled_from([torch.float16, torch.bfloat16]))
@settings(deadline=None, max_examples=100)
def test_one_unit_in_the_last_place_passes_in_half_precision(seed, n, offset, dtype):
    e = sample(seed, n, 1.0, offset, dtype)
    up = torch.nextafter(e, torch.full_like(e, math.inf)) if dtype == torch.bfloat16 else None
    a = up if up is not None else (e.view(torch.int16) + 1).view(dtype)
    assert compare(e, a).scale_gate


def test_flushed_denormals_pass():
    e = torch.full((64,), 1e-40)
    assert compare(e, torch.zeros(64)).passed


def test_zeros_for_a_wide_softmax_fail_the_scale_gate_only():
    e = torch.softmax(sample(1, 2 * 300_000).reshape(2, -1), dim=1)
    found = compare(e, torch.zeros_like(e))
    assert found.paper_gate and not found.scale_gate
    assert found.rel == pytest.approx(1.0)
    assert compare(e, torch.softmax(sample(1, 2 * 300_000).reshape(2, -1).double(), dim=1).float()).passed


def test_mean_over_the_softmax_axis():
    x = sample(1, 64 * 1000).reshape(64, 1000)
    e = torch.softmax(x, dim=1).mean(dim=1)
    honest = (torch.softmax(x.double(), dim=1).mean(dim=1)).float()
    assert compare(e, honest).passed
    assert not compare(e, torch.zeros_like(e)).scale_gate
    assert not compare(e, 1.001 * e).scale_gate


def test_common_offset_hides_nothing():
    e = 1000 + sample(1, 4096)
    found = compare(e, torch.full_like(e, e.mean().item()))
    assert found.paper_gate and not found.scale_gate


def test_all_zero_reference():
    zeros = torch.zeros(100)
    assert compare(zeros, torch.zeros(100)).passed
    found = compare(zeros, torch.full((100,), 1e-9))
    assert found.paper_gate and not found.scale_gate and found.rel == math.inf


def test_a_lone_number_is_judged_by_itself():
    assert compare(torch.tensor(3.0), torch.tensor(3.01)).passed
    assert not compare(torch.tensor(3.0), torch.tensor(3.2)).passed
    assert compare(2.0, 2.01).passed and not compare(2.0, 2.2).scale_gate
    assert compare({"n": 3}, {"n": 3}).passed and not compare({"n": 3}, {"n": 4}).passed


@pytest.mark.parametrize(
    ("expected", "actual", "text"),
    [
        (torch.ones(2), torch.ones(2, 1), "out has shape [2, 1], expected [2]"),
        (torch.ones(2, 3), torch.ones(3), "out has shape [3], expected [2, 3]"),
        (torch.ones(2), torch.ones(2).double(), "out has dtype float64, expected float32"),
        ([torch.ones(2)], (torch.ones(2),), "out is a tuple, expected a list"),
        ((torch.ones(2), torch.ones(2)), (torch.ones(2),), "out has 1 items, expected 2"),
        ({"a": torch.ones(1)}, {"b": torch.ones(1)}, "out has the keys ['b'], expected ['a']"),
        ([torch.ones(1), 1.0], [torch.ones(1), 1], "out[1] is a int, expected a float"),
        ({"a": ["x"]}, {"a": ["y"]}, "out['a'][0] is 'y', expected 'x'"),
        (torch.ones(1), None, "out is a None, expected a tensor"),
        (torch.ones(1), object(), "out is a object, which the judge cannot take"),
    ],
)
def test_form_must_match(expected, actual, text):
    found = compare(expected, actual)
    assert found.problem == text and found.describe() == text
    assert not (found.paper_gate or found.scale_gate)


def test_order_of_dict_keys_does_not_matter():
    x, y = torch.ones(2), torch.zeros(3)
    assert compare({"a": x, "b": y}, {"b": y, "a": x}).passed


def test_nan_and_infinity_must_match():
    e = sample(1, 100)
    e[3], e[4], e[5] = math.nan, math.inf, -math.inf
    assert compare(e, e.clone()).passed
    for i, value, text in [
        (3, 0.0, "out[3] is 0 where the reference is nan"),
        (4, -math.inf, "out[4] is -inf where the reference is inf"),
        (5, math.nan, "out[5] is nan where the reference is -inf"),
        (9, math.inf, "out[9] is inf where the reference is"),
        (9, math.nan, "out[9] is nan where the reference is"),
    ]:
        a = e.clone()
        a[i] = value
        found = compare(e, a)
        assert found.problem.startswith(text)
        assert not (found.paper_gate or found.scale_gate)
        assert found.rel == found.max_abs == math.inf
        assert found.mismatched_fraction == 0.01
    a = e.clone()
    a[50] += 0.5
    found = compare(e, a)
    assert found.problem is None and not found.scale_gate and found.where == "out[50]"


def test_infinities_do_not_widen_the_gate():
    e = sample(1, 1000, 1e-3)
    e[::2] = -math.inf
    assert not compare(e, torch.where(torch.isinf(e), e, 0.0)).scale_gate


def test_huge_values_do_not_widen_the_gate():
    e = sample(1, 1000, 1e200, dtype=torch.float64)
    assert compare(e, e * (1 + 1e-6)).scale_gate
    assert not compare(e, e * 1.05).scale_gate
    huge = torch.full((100,), 1.7e308, dtype=torch.float64)
    assert not compare(huge, -huge).passed


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.bool])
def test_integers_are_exact(dtype):
    e = torch.arange(12).reshape(3, 4).remainder(2).to(dtype)
    assert compare(e, e.clone()).passed
    a = e.clone()
    a[1, 2] = 1 - a[1, 2].int()
    found = compare(e, a)
    assert not found.paper_gate and not found.scale_gate
    assert (found.where, found.max_abs, found.mismatched_fraction) == ("out[1, 2]", 1.0, 1 / 12)


def test_integers_beyond_float64_are_exact():
    e = torch.tensor([2**60, 5])
    found = compare(e, e + torch.tensor([1, 0]))
    assert not found.passed and found.where == "out[0]"


def test_complex():
    e = torch.complex(sample(1, 40), sample(2, 40)).reshape(4, 10)
    assert compare(e, e * (1 + 1e-4j)).passed
    a = e.clone()
    a[2, 7] += 0.5j
    found = compare(e, a)
    assert not found.passed and found.where == "out[2, 7]"


def test_float64_is_compared_in_float64():
    e = sample(1, 100, dtype=torch.float64) * 1e-3 + 1
    assert compare(e, e + 1e-7).passed
    assert not compare(e, e + 1e-7, tolerance=1e-6).scale_gate


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype):
    e = sample(1, 1000, dtype=dtype)
    assert compare(e, (e.float() + 2e-3).to(dtype)).passed
    assert not compare(e, (e.float() * 1.05).to(dtype)).passed


@pytest.mark.parametrize("limit", [1, 5, 7, 64, 1 << 20])
def test_chunks_and_strides_change_nothing(monkeypatch, limit):
    monkeypatch.setattr(moments, "_CHUNK", {"cpu": limit})
    base = sample(1, 2 * 5 * 3 * 4).reshape(2, 5, 3, 4)
    for e in (
        base,
        base.transpose(1, 3),
        base[:, ::2],
        base[:1].expand(2, 5, 3, 4),
        base.to(memory_format=torch.channels_last),
    ):
        a = e.clone(memory_format=torch.contiguous_format)
        index = (1, 2, 1, 2)
        a[index] += 0.7
        found = compare(e, a)
        assert found.where == "out[1, 2, 1, 2]"
        assert found.max_abs == pytest.approx(0.7)
        assert found.expected == pytest.approx(e[index].item())
        assert found.actual == pytest.approx(e[index].item() + 0.7)
        assert found.rel == pytest.approx(0.7 / e.norm().item())
        assert found.mismatched_fraction == 1 / e.numel()
        assert not found.passed
        assert compare(e, e.contiguous()).passed
        (summary,) = summarise(e)
        assert summary.rms == pytest.approx(e.square().mean().sqrt().item())
        assert summary.std == pytest.approx(e.std(correction=0).item())


def test_several_outputs():
    e = {
        "a": sample(1, 100),
        "b": (sample(2, 50), torch.arange(3), 2.0, "x", None),
        "empty": torch.ones(0, 2),
    }
    a = {
        "a": e["a"].clone(),
        "b": (e["b"][0] + 0.5, torch.arange(3), 2.0, "x", None),
        "empty": torch.ones(0, 2),
    }
    assert compare(e, e).passed
    found = compare(e, a)
    assert found.where.startswith("out['b'][0][") and found.max_abs == pytest.approx(0.5)
    assert compare([], []).passed


def test_largest_error_is_reported_from_the_failing_output():
    large, ones = 1e6 * (1 + sample(1, 100).abs()), torch.ones(20)
    found = compare([large, ones], [large + 1000, ones + 1])
    assert found.where == "out[1][0]" and found.max_abs == 1.0
    assert found.describe() == (
        "largest error 1 at out[1][0] (expected 1, got 2), 16.7 % of elements outside the gate"
    )


def test_paper_gate_is_assert_close():
    e = sample(3, 2000, 0.5)
    for delta in (0.005, 0.0099, 0.011, 0.02):
        a = e + delta
        try:
            torch.testing.assert_close(a, e, atol=1e-2, rtol=1e-2)
            close = True
        except AssertionError:
            close = False
        assert compare(e, a).paper_gate == close


def test_summaries():
    x = torch.tensor([1.0, -3.0, math.nan, math.inf])
    (s,) = summarise(x)
    assert (s.count, s.finite, s.mean, s.rms, s.largest) == (4, 2, -1.0, pytest.approx(math.sqrt(5)), 3.0)
    assert [s.count for s in summarise([torch.ones(0), 2.5, 3, "x"])] == [0, 1, 1]
    (none,) = summarise(torch.full((3,), math.nan))
    assert none.finite == 0


def test_identical_means_every_bit():
    x = torch.tensor([0.0, math.nan, 1.0])
    assert identical(x, x.clone())
    assert not identical(x, torch.tensor([-0.0, math.nan, 1.0]))
    assert not identical(x, x.double()) and not identical(x, x[None])
    for dtype in (torch.bool, torch.float16, torch.int32, torch.complex64, torch.complex128):
        y = torch.ones(4, 6).to(dtype)
        assert identical(y, y.clone()) and identical(y.T, y.T.contiguous())
        z = y.clone()
        z[3, 5] = 0
        assert not identical(y, z)
    assert identical(torch.ones(0, 3), torch.ones(0, 3))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_on_a_gpu_in_bounded_memory():
    e = torch.randn(1 << 28, device="cuda")
    a = e.clone()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    assert compare(e, a).passed
    a[123_456_789] += 1
    found = compare(e, a)
    assert not found.passed and found.where == "out[123456789]"
    assert torch.cuda.max_memory_allocated() - before <= 256 << 20
