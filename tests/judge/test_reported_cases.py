"""Cases that users of such judges have reported, each with the outcome that is right.

Those that only a GPU can show are in test_on_gpu.py.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError
from tests.judge.inprocess import Outcome, forward, judged, own
from tests.judge.samples import KERNEL, MODEL_NEW, submission, task

from warpsmith.judge.timing.baselines import BaselineIdentity, BaselineStore, measured
from warpsmith.judge.timing.clock import Samples, time_stats
from warpsmith.rollout.scripted import scripted_verdict
from warpsmith.types import (
    BaselineKind,
    Device,
    PaperSpeedup,
    Rules,
    Speedup,
    Status,
    Submission,
    Timings,
    Verdict,
)
from warpsmith.types.protocols import JudgeSettings

Look = Callable[[str, str], Outcome]


@pytest.fixture
def look(tmp_path: Path) -> Look:
    """Judges a task and a submission, both in torch, in this process."""
    return lambda code, text: judged(tmp_path, code, text)


def test_zeros_for_a_softmax_over_300000_columns_are_wrong(look: Look) -> None:
    code, _ = own(forward("torch.softmax(x, 1)"), "torch.randn(2, 300_000)")
    _, zeros = own(forward("torch.zeros_like(x)"), "")
    found = look(code, zeros)
    assert found.status is Status.WRONG
    assert found.findings.paper_gate is True and found.findings.scale_gate is False
    assert "task: zeros pass the paper gate" in found.notes


def test_a_mean_over_the_softmax_axis_is_refused(look: Look) -> None:
    found = look(*own(forward("torch.softmax(x, 1).mean(1)"), "torch.randn(64, 32)"))
    assert found.status is Status.TASK_REFUSED and "constant" in found.detail


ZERO_WEIGHT = """    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 16)
        nn.init.zeros_(self.linear.weight)

    def forward(self, x):
        return RESULT
"""


def test_a_linear_with_zero_weight_is_refused(look: Look) -> None:
    found = look(*own(ZERO_WEIGHT.replace("RESULT", "self.linear(x)"), "torch.randn(8, 16)"))
    assert found.status is Status.TASK_REFUSED and "constant" in found.detail


def test_a_zero_weight_that_is_skipped_is_wrong_once_the_weights_change(look: Look) -> None:
    code, honest = own(ZERO_WEIGHT.replace("RESULT", "x + self.linear(x)"), "torch.randn(8, 16)")
    assert look(code, honest).status is Status.PASSED
    assert look(code, honest.replace("x + self.linear(x)", "x + self.linear.bias")).status is Status.WRONG


PARAMETERS = """    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.randn(8))
        self.b = nn.Parameter(torch.randn(8))

    def forward(self, x):
        return x * self.a + self.b
"""


def test_parameters_drawn_in_another_order_under_the_right_names_pass(look: Look) -> None:
    code, honest = own(PARAMETERS, "torch.randn(4, 8)")
    lines = honest.splitlines()
    at = next(i for i, line in enumerate(lines) if "self.a = " in line)
    lines[at], lines[at + 1] = lines[at + 1], lines[at]
    assert look(code, "\n".join(lines)).status is Status.PASSED
    renamed = look(code, honest.replace("self.b", "self.shift"))
    assert renamed.status is Status.WRONG and renamed.detail.startswith("interface")


def test_a_baseline_from_another_gpu_is_refused(tmp_path: Path) -> None:
    store = BaselineStore(tmp_path)
    here = BaselineIdentity(
        task_hash="t", mode="default", kind=BaselineKind.EAGER, gpu_uuid="GPU-1", driver="580", torch="2.11"
    )
    there = here.model_copy(update={"gpu_uuid": "GPU-2"})
    store.put(measured(there, time_stats(Samples(1, (1.0, 1.0, 1.0)), 0.1)))
    assert store.get(here) is None
    (file,) = tmp_path.iterdir()
    store.put(measured(here, time_stats(Samples(1, (9.0, 9.0, 9.0)), 0.1)))
    (mine,) = set(tmp_path.iterdir()) - {file}
    mine.write_bytes(file.read_bytes())
    assert store.get(here) is None, "copied under the right name"


def test_inputs_from_a_generator_are_checked_as_often_as_any(look: Look) -> None:
    code, honest = own(forward("torch.relu(x)"), "torch.randn(8, 8)")
    code = code.replace("    return [torch.randn(8, 8)]", "    yield torch.randn(8, 8)")
    found = look(code, honest)
    assert found.status is Status.PASSED and found.findings.calls >= 5
    assert look(code, honest.replace("relu(x)", "relu(x) + 1")).status is Status.WRONG


def test_a_generator_that_gives_nothing_is_refused(look: Look) -> None:
    code, honest = own(forward("torch.relu(x)"), "torch.randn(8, 8)")
    code = code.replace("    return [torch.randn(8, 8)]", "    yield from ()")
    assert look(code, honest).status is Status.TASK_REFUSED


@pytest.mark.parametrize("noise", ["torch.rand_like(x)", "x + 0.1 * torch.randn_like(x)", "F.dropout(x)"])
def test_a_random_reference_is_refused(look: Look, noise: str) -> None:
    found = look(*own(forward(noise), "torch.randn(8, 8)"))
    assert found.status is Status.TASK_REFUSED and "random reference" in found.detail


RECURRENT = """    def __init__(self):
        super().__init__()
        self.cells = nn.KIND(4, 8, batch_first=True)

    def forward(self, x):
        state = torch.randn(1, x.size(0), 8, device=x.device)
        return self.cells(x, STATE)[0]
"""


@pytest.mark.parametrize(("kind", "state"), [("LSTM", "(state, state * 0.5)"), ("GRU", "state")])
def test_a_recurrent_task_that_draws_its_state_in_forward_is_handled(
    look: Look, kind: str, state: str
) -> None:
    model = RECURRENT.replace("KIND", kind).replace("STATE", state)
    code, honest = own(model, "torch.randn(3, 5, 4)")
    found = look(code, honest)
    assert found.status is Status.PASSED, found.detail
    assert any("draws a state" in note for note in found.notes)
    assert look(code, honest.replace("torch.randn(1, x", "torch.zeros(1, x")).status is Status.WRONG


@pytest.mark.parametrize("empty", ["torch.empty_like(x)", "torch.empty(8, 8)", "x + 0 * torch.empty_like(x)"])
def test_memory_that_nothing_wrote_as_a_reference_is_refused(look: Look, empty: str) -> None:
    assert look(*own(forward(empty), "torch.randn(8, 8)")).status is Status.TASK_REFUSED


@pytest.mark.parametrize("missing", ["error", "paper_gate", "scale_gate"])
def test_a_verdict_without_a_field_of_correctness_is_invalid(missing: str) -> None:
    whole = scripted_verdict(task(), submission(), JudgeSettings(device=Device.SIM)).model_dump(mode="json")
    assert Verdict.model_validate(whole).status is Status.PASSED
    for lacking in ({k: v for k, v in whole.items() if k != missing}, whole | {missing: None}):
        with pytest.raises(ValidationError):
            Verdict.model_validate_json(json.dumps(lacking))


@pytest.mark.parametrize("status", [Status.CRASHED, Status.TIMED_OUT, Status.WRONG])
def test_what_ends_while_it_is_timed_has_no_speedup(status: Status) -> None:
    stats = time_stats(Samples(1, (1.0, 1.0, 1.0)), 0.1)
    times = {
        "timings": Timings(candidate=stats, eager=stats),
        "speedup": Speedup(paper=PaperSpeedup(eager=1.0)),
    }
    settings = JudgeSettings(device=Device.CUDA)
    scripted_verdict(task(), submission(), settings, Status.PASSED, **times)
    with pytest.raises(ValidationError, match="has no speed-up"):
        scripted_verdict(task(), submission(), settings, status, **times)


def test_a_crash_in_a_late_call_is_a_crash(judge: Callable[..., Verdict]) -> None:
    late = MODEL_NEW.replace(
        "        out = torch.empty_like(x)",
        "        self.calls = getattr(self, 'calls', 0) + 1\n        if self.calls > 4: raise MemoryError('late')\n"
        "        out = torch.empty_like(x)",
    )
    verdict = judge(task(), submission(late))
    assert verdict.status is Status.CRASHED and "late" in verdict.detail
    assert verdict.speedup is None and verdict.timings is None


MEMSET = KERNEL.replace(
    "    affine_kernel<<<",
    "    cudaMemsetAsync(out, 0, n * sizeof(float), stream);\n    if (scale != 0) affine_kernel<<<",
)


def test_work_that_is_a_memset_is_work(judge: Callable[..., Verdict]) -> None:
    """Before a kernel it is right; in place of one its result is compared like any other: no run counts as empty."""
    assert judge(task(), submission(kernel=MEMSET)).status is Status.PASSED
    only = MEMSET.replace("if (scale != 0)", "if (false)")
    verdict = judge(task(), submission(kernel=only))
    assert verdict.status is Status.WRONG and verdict.notes == ()


def test_one_candidate_under_two_rule_sets_has_two_verdicts(judge: Callable[..., Verdict]) -> None:
    with_torch: Submission = submission(MODEL_NEW.replace("return out", "return torch.add(out, 0.0)"))
    found = {rules: judge(task(), with_torch, rules=rules) for rules in Rules}
    assert {rules: v.status for rules, v in found.items()} == {
        Rules.PRACTICAL: Status.PASSED,
        Rules.PAPER: Status.CHEATED,
    }
    assert {v.rules for v in found.values()} == set(Rules)
    settings = [JudgeSettings(device=Device.SIM, rules=rules) for rules in Rules]
    assert len({s.content_hash for s in settings}) == 2, "neither answers for the other"


@pytest.mark.parametrize(
    "command",
    [
        ("check", "kernelbench:empty.jsonl", "--device", "sim"),
        ("check", "kernelbench:folder", "--device", "sim"),
        ("check", "file:folder", "--device", "sim"),
        ("regrade", "folder"),
        ("judge", "kernelbench:empty.jsonl#1/1", "folder", "--device", "sim"),
    ],
)
def test_nothing_to_look_at_is_an_error(tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "folder").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "warpsmith", *command], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1 and done.stderr.startswith("warpsmith: ")
