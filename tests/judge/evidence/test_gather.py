"""What many brackets showed, as one record and as outcomes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.judge.evidence.gather import CHECK, Gathered, shares
from warpsmith.types import KernelKind, OperatorSource

OWN = frozenset({"mine(float*)"})
NAMES = {"0": "mine(float*)", "1": "ampere_sgemm_128x64_tn", "2": "triton_poi_fused_add_0", "3": "DtoD"}
FINE = {"kernels": "", "operators": ""}


def said(*kernels: tuple[int, int, int], **more: Any) -> dict:
    """An answer of the runner: kernels of (name, count, nanoseconds)."""
    entries = [[i, "C" if i == 3 else "K", count, ns, 0] for i, count, ns in kernels]
    answer = {"problems": FINE, "blind": [], "ops": {}, "kernels": entries, "names": NAMES, "lost": 0}
    return answer | more


def gathered(*answers: dict, calls: int = 1) -> Gathered:
    found = Gathered(own=OWN)
    for answer in answers:
        found.add(calls, answer)
    return found


def test_shares_times_and_counts() -> None:
    found = gathered(
        said((0, 4, 6000), (1, 2, 3000), (3, 2, 1000)),
        said((0, 4, 8000), (1, 2, 4000), (3, 2, 2000)),
        calls=2,
    )
    evidence = found.evidence()
    assert [(k.name, k.kind, k.count, k.brackets) for k in evidence.kernels] == [
        ("mine(float*)", KernelKind.OWN, 8, 2),
        ("ampere_sgemm_128x64_tn", KernelKind.CUBLAS, 4, 2),
        ("DtoD", KernelKind.MEMCPY, 4, 2),
    ]
    assert [k.share for k in evidence.kernels] == pytest.approx([14 / 24, 7 / 24, 3 / 24])
    assert evidence.own_share == pytest.approx(14 / 24)
    assert evidence.launches_per_call == 4 and evidence.device_ms == pytest.approx(0.006)
    assert evidence.consistent and evidence.differences == () and evidence.calls == 4
    assert shares(evidence) == "device time: own 58.3%, cublas 29.2%, memcpy 12.5%"


def test_the_device_time_is_that_of_the_timed_brackets() -> None:
    found = Gathered(own=OWN)
    found.add(1, said((0, 1, 90_000)))
    for ns in (64_000, 128_000, 192_000):
        found.add(64, said((0, 64, ns)))
    assert found.evidence().device_ms == pytest.approx(0.002)


def test_a_kernel_of_some_calls_and_a_bracket_without_any_are_told() -> None:
    evidence = gathered(said((0, 1, 10)), said((0, 1, 10), (1, 1, 10)), said()).evidence()
    assert not evidence.consistent and evidence.brackets_without_kernel == 1
    assert evidence.differences == (
        "ampere_sgemm_128x64_tn ran in 1 of 3 brackets", "mine(float*) ran in 2 of 3 brackets",
    )  # fmt: skip
    assert gathered(said((0, 1, 10)), said((0, 3, 10))).evidence().differences == (
        "mine(float*) ran 1 to 3 times a call",
    )


def test_without_kernels_observed_there_is_a_reason_and_no_number() -> None:
    answer = {"problems": {"kernels": "no CUPTI on this machine", "operators": ""}, "blind": [], "ops": {}}
    found = gathered(answer)
    evidence = found.evidence()
    assert evidence.kernels_problem == "no CUPTI on this machine" and found.kernels_outcome() is None
    fields = (evidence.device_ms, evidence.own_share, evidence.launches_per_call, evidence.consistent)
    assert fields == (None, None, None, None)
    assert evidence.operators_source is OperatorSource.NATIVE
    assert Gathered().evidence() is None


def test_one_that_goes_blind_gives_no_number_either() -> None:
    found = gathered(said((0, 1, 10)), said(blind=["kernels"]))
    assert found.evidence().kernels_problem == "CUPTI no longer saw kernels in 1 of 2 brackets"
    assert found.kernels_outcome() is None and found.operators_outcome().passed
    off = gathered(said(), said(blind=["operators"]))
    assert off.operators_outcome().detail == "the observer of operators was switched off before 1 brackets"


def test_a_record_without_time_takes_every_time_away() -> None:
    answer = said((0, 1, 10))
    answer["kernels"].append([1, "K", 1, 0, 1])
    evidence = gathered(answer).evidence()
    assert evidence.own_share is None and evidence.device_ms is None
    assert [k.share for k in evidence.kernels] == [None, None] and evidence.launches_per_call == 2


def test_no_time_at_all_is_not_zero() -> None:
    evidence = gathered(said()).evidence()
    assert evidence.device_ms is None and evidence.own_share is None and evidence.kernels == ()
    assert shares(evidence) == "no kernel ran"


def test_the_rule_on_libraries_kernels() -> None:
    passed = gathered(said((0, 1, 60), (1, 1, 40))).kernels_outcome()
    assert (passed.check, passed.passed) == (CHECK, True)
    assert passed.detail == "device time: own 60.0%, cublas 40.0%"
    # a kernel of others in one call of many
    refused = gathered(*[said((0, 1, 99))] * 4, said((0, 1, 3), (2, 1, 1))).kernels_outcome()
    assert not refused.passed and "triton_poi_fused_add_0 (triton, 0.2%)" in refused.detail


def test_names_are_one_line_of_plain_characters() -> None:
    forged = {"0": "mine(float*)\nampere_sgemm", "1": "\x1b[2Jgone\u2028", "2": "k" * 20_000, "3": "DtoD"}
    found = gathered(said((0, 1, 3), (1, 1, 2), (2, 1, 1), names=forged, ops={"aten.\x1b": 1}))
    evidence = found.evidence()
    assert [k.name for k in evidence.kernels] == ["mine(float*)?ampere_sgemm", "?[2Jgone?", "k" * 300]
    assert all(k.kind is KernelKind.UNKNOWN for k in evidence.kernels)
    assert list(evidence.operators) == ["aten.?"]


def test_operators_are_summed_over_calls() -> None:
    found = gathered(*[said(ops={"aten.view.default": 2})] * 4, said(ops={"aten.add.Tensor": 1}))
    assert found.evidence().operators == {"aten.add.Tensor": 1, "aten.view.default": 8}
    assert found.operators_outcome().detail == "forward computes with torch operators: aten.add.Tensor"


def test_operators_of_one_call_are_said_to_be_of_one_call() -> None:
    problems = {"kernels": "", "operators": "no C++ compiler found"}
    bare = said(problems=problems)
    del bare["ops"]
    found = gathered(said(problems=problems), bare, bare)
    evidence = found.evidence()
    assert (evidence.operators_source, evidence.operators_problem) == (
        OperatorSource.ONE_CALL,
        "no C++ compiler found",
    )
    assert found.operators_outcome().passed
    nothing = gathered(bare)
    assert (
        nothing.evidence().operators_source is OperatorSource.NONE and not nothing.operators_outcome().passed
    )


FORGED = [
    {},
    {"problems": FINE},
    {"problems": [], "blind": []},
    {"problems": FINE, "blind": ["gpu"]},
    said(ops=[]),
    said(ops={"aten.view.default": -1}),
    said(ops={"aten.view.default": True}),
    said(lost="0"),
    said(names=[]),
    said(names={"a": "b"}),
    said(kernels=[[0, "K", 1]]),
    said(kernels=[[0, "K", 1, 1 << 60, 0]]),
    said(kernels=[[0, "K", 1, 2.5, 0]]),
    said(kernels={"a": 1}),
]


@pytest.mark.parametrize("answer", FORGED)
def test_a_message_of_the_wrong_form_never_counts_for_the_candidate(answer: dict) -> None:
    found = gathered(said((0, 1, 10)), answer)
    assert found.malformed == 1
    assert not found.operators_outcome().passed and found.kernels_outcome() is None
    assert "gave no list" in found.evidence().kernels_problem


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)


@given(st.sampled_from(sorted(said())), JSON)
def test_no_message_ends_the_referee(key: str, value: Any) -> None:
    found = gathered(said((0, 1, 10)), said((0, 1, 10)) | {key: value})
    found.evidence()
    found.outcomes()
