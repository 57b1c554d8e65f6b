"""Whole judgements on the simulator: what ran is known of every call."""

from collections.abc import Callable
from pathlib import Path

from tests.judge.inprocess import forward, judged, own
from tests.judge.samples import MODEL_NEW, submission, task

from warpsmith.types import OperatorSource, Rules, Status, Verdict

Judge = Callable[..., Verdict]


def test_an_honest_submission_meets_the_papers_rules_in_every_call(judge: Judge) -> None:
    found = judge(task(), submission(), rules=Rules.PAPER)
    assert found.status is Status.PASSED, found.detail
    seen = found.evidence
    assert seen.operators_source is OperatorSource.NATIVE and seen.operators_problem == ""
    assert seen.calls >= 6 and seen.operators == {"aten.empty_like.default": seen.calls}
    assert (
        seen.kernels_problem == "kernels run on the CPU here"
        and seen.kernels == ()
        and seen.device_ms is None
    )


def test_torch_in_one_call_of_many_is_cheating_on_paper(judge: Judge) -> None:
    sly = MODEL_NEW.replace("self.scale = scale", "self.scale = scale\n        self.calls = 0")
    sly = sly.replace("return out", "self.calls += 1\n        return out if self.calls != 4 else out + 0.0")
    found = judge(task(), submission(sly), rules=Rules.PAPER)
    assert found.status is Status.CHEATED
    assert found.detail == "forward computes with torch operators: aten.add.Tensor"
    assert found.evidence.operators["aten.add.Tensor"] == 1


def test_a_wrong_submission_tells_what_ran_too(judge: Judge) -> None:
    found = judge(task(), submission(MODEL_NEW.replace("return out", "return torch.relu(out)")))
    assert found.status is Status.WRONG
    assert found.evidence.operators["aten.relu.default"] == found.evidence.calls


def test_a_torch_profiler_in_forward_hides_no_operator(judge: Judge) -> None:
    profiled = MODEL_NEW.replace(
        "        return out", "        with torch.profiler.profile():\n            return out * 1.0"
    )
    found = judge(task(), submission(profiled), rules=Rules.PAPER)
    assert found.status is Status.CHEATED and "aten.mul" in found.detail


def test_without_the_native_observer_one_call_is_recorded_and_said_to_be(tmp_path: Path) -> None:
    code, candidate = own(forward("torch.relu(x)"), "torch.randn(4, 8)")
    found = judged(tmp_path, code, candidate, rules=Rules.PRACTICAL)
    seen = found.findings.ran.evidence()
    assert found.status is Status.PASSED and seen.calls > 5
    assert (seen.operators_source, seen.operators_problem) == (OperatorSource.ONE_CALL, "not started")
    assert seen.operators == {"aten.relu.default": 1}
    assert found.check("torch_compute") == "forward computes with torch operators: aten.relu.default"
    on_paper = judged(tmp_path, code, candidate, rules=Rules.PAPER)
    assert on_paper.status is Status.CHEATED
