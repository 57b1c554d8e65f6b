"""The roofline in words."""

from warpsmith.report import verdict_lines
from warpsmith.report.roofline_text import roofline_line, roofline_sentences
from warpsmith.reward import reward_of
from warpsmith.types import Bound, Device, Phase, Precision, ProductWork, Roofline, Rules, Status, Verdict

PRODUCT = Roofline(
    work=(ProductWork(precision=Precision.TF32, flops=137_438_953_472, peak_tflops=494.7),),
    flops=137_438_953_472, traffic_bytes=201_326_592, intensity=682.67, compute_ms=0.2778, memory_ms=0.0419,
    bound=Bound.COMPUTE, attained_tflops=371.4, attained_gb_s=544.1, share=0.7508,
)  # fmt: skip
COPY = Roofline(
    flops=0, traffic_bytes=4_800_000, intensity=0.0, compute_ms=0.0, memory_ms=0.001, bound=Bound.MEMORY,
    attained_tflops=0.0, attained_gb_s=2400.0, share=0.5,
)  # fmt: skip


def test_the_line_names_bound_peaks_and_share() -> None:
    assert roofline_line(PRODUCT) == (
        "compute-bound at 683 FLOP/byte (tf32 peak 494.7 TFLOP/s): 544 GB/s and 371 TFLOP/s of the reference's "
        "products, 75% of the roofline"
    )
    assert roofline_line(COPY) == "memory-bound, no products: 2,400 GB/s, 50% of the roofline"


def test_the_report_says_what_is_not_counted() -> None:
    told = roofline_sentences(PRODUCT)
    assert told.startswith("Roofline: compute-bound at 683 FLOP/byte (tf32 peak 494.7 TFLOP/s). Products")
    assert "take 0.278 ms, the traffic 0.0419 ms" in told and "75.1% of the roofline" in told
    assert told.endswith("nothing rests on this.")


def test_a_verdict_tells_its_roofline() -> None:
    verdict = Verdict(
        status=Status.WRONG, device=Device.CUDA, rules=Rules.PRACTICAL, task_hash="0", submission_hash="0",
        phase=Phase.DONE, roofline=COPY,
    )  # fmt: skip
    line = f"  roofline   {roofline_line(COPY)}"
    reward = reward_of(verdict)
    assert line in list(verdict_lines(verdict, reward))
    without = verdict.model_copy(update={"roofline": None})
    assert not any("roofline" in told for told in verdict_lines(without, reward))
