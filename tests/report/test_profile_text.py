"""ncu's measurements in words and as JSON."""

import pytest
from pydantic import ValidationError

from warpsmith.report import profile_lines, profile_summary
from warpsmith.types import KernelProfile, ProfileReport, Stall

KERNEL = KernelProfile(
    kernel="axpy(float *, int)", launches=2, duration_us=12.345, dram_percent=81.2, sm_percent=20.0,
    occupancy_percent=88.8, registers=24.0, l2_hit_percent=33.3,
    stalls=(Stall(reason="long_scoreboard", cycles=21.04), Stall(reason="wait", cycles=1.0)),
)  # fmt: skip


def test_a_kernel_has_three_lines_and_what_was_not_measured_none() -> None:
    bare = KernelProfile(kernel="k" * 100, launches=1)
    assert list(profile_lines(ProfileReport(kernels=(KERNEL, bare))))[1:] == [
        "    axpy(float *, int), 2 launches",
        "      12.35 µs, DRAM 81 %, SM 20 %, occupancy 89 %, 24 registers, L2 hits 33 %",
        "      cycles waited an instruction: long_scoreboard 21.0, wait 1.0",
        f"    {'k' * 79}…, 1 launch",
        "      nothing was measured",
    ]


def test_a_problem_is_one_line() -> None:
    report = ProfileReport(problem="no ncu")
    assert list(profile_lines(report)) == ["  ncu        not profiled: no ncu"]
    assert profile_summary(report) == {"kernels": [], "problem": "no ncu"}


def test_what_a_submission_wrote_moves_no_cursor() -> None:
    (line,) = profile_lines(ProfileReport(problem="a\x1b[2J\nb"))
    assert line == "  ncu        not profiled: a?[2J b"
    name = list(profile_lines(ProfileReport(kernels=(KernelProfile(kernel="k\x1b[A", launches=1),))))[1]
    assert name == "    k?[A, 1 launch"


def test_the_summary_is_the_record_with_a_null_problem() -> None:
    found = profile_summary(ProfileReport(kernels=(KERNEL,)))
    assert found["problem"] is None and found["kernels"][0]["l1_hit_percent"] is None
    assert found["kernels"][0]["stalls"][0] == {"reason": "long_scoreboard", "cycles": 21.04}


def test_neither_kernels_nor_a_reason_is_no_report() -> None:
    with pytest.raises(ValidationError):
        ProfileReport()
    with pytest.raises(ValidationError):
        ProfileReport(kernels=(KERNEL,), problem="both")
