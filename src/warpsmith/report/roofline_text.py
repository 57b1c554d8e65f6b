"""The roofline in words: a line for a person, a sentence for a report."""

from warpsmith.types import Roofline


def roofline_line(roofline: Roofline) -> str:
    """What `judge` prints of it."""
    attained = f"{_digits(roofline.attained_gb_s)} GB/s"
    if roofline.work:
        attained += f" and {_digits(roofline.attained_tflops)} TFLOP/s of the reference's products"
    return f"{_bound(roofline)}: {attained}, {roofline.share:.0%} of the roofline"


def roofline_sentences(roofline: Roofline) -> str:
    """What the report says of it."""
    return (
        f"Roofline: {_bound(roofline)}. Products at their peaks take {_digits(roofline.compute_ms)} ms, the traffic "
        f"{_digits(roofline.memory_ms)} ms; over its median the candidate attains "
        f"{_digits(roofline.attained_tflops)} TFLOP/s of the reference's products and "
        f"{_digits(roofline.attained_gb_s)} GB/s, {roofline.share:.1%} of the roofline. Pointwise operators and "
        "reductions are not counted, and a candidate that needs fewer products may exceed it: nothing rests on this."
    )


def _bound(roofline: Roofline) -> str:
    if not roofline.work:
        return "memory-bound, no products"
    peaks = ", ".join(f"{w.precision.value} peak {w.peak_tflops:g} TFLOP/s" for w in roofline.work)
    return f"{roofline.bound.value}-bound at {_digits(roofline.intensity)} FLOP/byte ({peaks})"


def _digits(value: float) -> str:
    """Three digits, without an exponent where they are before the point."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
