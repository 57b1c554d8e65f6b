from warpsmith.report.evidence_text import evidence_line, evidence_lines, evidence_section
from warpsmith.types import (
    Device,
    Evidence,
    KernelKind,
    KernelSeen,
    OperatorSource,
    Phase,
    Rules,
    Status,
    Verdict,
)

SEEN = Evidence(
    brackets=2, calls=4, operators_source=OperatorSource.NATIVE,
    kernels=(
        KernelSeen(name="mine|float", kind=KernelKind.OWN, count=8, share=0.75, brackets=2),
        KernelSeen(name="ampere_sgemm_128x64_tn", kind=KernelKind.CUBLAS, count=4, share=0.25, brackets=2),
    ),
    own_share=0.75, launches_per_call=3.0, device_ms=0.125, consistent=True, operators={"aten.view.default": 4},
)  # fmt: skip
UNKNOWN = Evidence(brackets=1, calls=1, kernels_problem="no CUPTI", operators_source=OperatorSource.NONE)


def verdict(device: Device, evidence: Evidence | None) -> Verdict:
    return Verdict(
        status=Status.WRONG, device=device, rules=Rules.PAPER, task_hash="0", submission_hash="0",
        phase=Phase.CORRECTNESS, evidence=evidence,
    )  # fmt: skip


def test_one_line_says_where_the_time_went() -> None:
    assert evidence_line(SEEN) == "own 75%, cublas 25%, 3 launches a call, 0.125 ms of device time by CUPTI"
    assert list(evidence_lines(verdict(Device.CUDA, SEEN))) == [f"  what ran   {evidence_line(SEEN)}"]


def test_what_is_not_known_is_said_to_be_so() -> None:
    assert evidence_line(UNKNOWN) == "evidence: unavailable (no CUPTI)"
    assert list(evidence_lines(verdict(Device.SIM, UNKNOWN))) == []
    assert list(evidence_lines(verdict(Device.CUDA, None))) == []
    assert list(evidence_section(verdict(Device.CUDA, None)))[-1] == "Nothing was observed."


def test_the_section_has_a_row_a_kernel() -> None:
    lines = list(evidence_section(verdict(Device.CUDA, SEEN)))
    assert "| `mine\\|float` | own | 2 | 75.0% |" in lines
    assert "| `ampere_sgemm_128x64_tn` | cublas | 1 | 25.0% |" in lines
    assert lines[-1] == "Torch operators, in every call: `aten.view.default` × 4."


def test_a_record_survives_the_disk() -> None:
    told = verdict(Device.CUDA, SEEN)
    assert Verdict.model_validate_json(told.model_dump_json()) == told
