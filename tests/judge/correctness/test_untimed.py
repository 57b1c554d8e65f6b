"""Correctness through the whole judge on the simulator: neither lax nor unfair, case by case."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.judge.inprocess import Outcome, forward, judged, own
from tests.judge.samples import MODEL_NEW, TASK, submission, task

from warpsmith.types import Status, Verdict

Judge = Callable[..., Verdict]
Look = Callable[..., Outcome]


@pytest.fixture
def look(tmp_path: Path) -> Callable[[str, str], Outcome]:
    """`look(task, submission)`: the judge's session, in this process."""
    return lambda code, submitted, **settings: judged(tmp_path, code, submitted, **settings)


def detail(verdict: Verdict, check: str) -> str:
    """What one check of a verdict says."""
    return next(c.detail for c in verdict.checks if c.check == check)


def broken(honest: tuple[str, str], old: str, new: str) -> tuple[str, str]:
    """The task, and the submission with one part replaced."""
    assert old in honest[1]
    return honest[0], honest[1].replace(old, new)


EVERYTHING = """
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(8)
        self.table = nn.Parameter(torch.randn(4, 8))

    def forward(self, x, same, half, brain, wide, where, mask, scale, count):
        x.add_(1.0)  # the same tensor is passed twice: `same` sees it
        normed = self.norm(x)
        return {
            "pair": (same * scale, None),
            "nested": [{"half": half * 2, "brain": brain + half.bfloat16()}, wide.cumsum(1)],
            "chosen": x.argmax(1),
            "mask": (x > 0) & mask,
            "picked": where + count,
            "row": normed.sum(0).expand(3, 8),
            "turned": normed.t(),
            "input": x,
            "table": self.table,
            "view": self.table[1:, ::2],
            "number": count * 2,
            "text": "done",
            "sum": normed.abs().sum(),
            "empty": x[:0],
            "complex": torch.complex(normed, wide.float()).conj(),
        }
"""
EVERY_INPUT = (
    "*[torch.randn(6, 8)] * 2, torch.randn(6, 8).half(), torch.randn(6, 8).bfloat16(), torch.randn(6, 8).double(),"
    " torch.randint(0, 9, (6,)), torch.rand(6, 8) > 0.5, torch.tensor(1.5) + torch.rand(()), 3"
)


def test_every_form_of_value_passes_when_right(look: Look) -> None:
    found = look(*own(EVERYTHING, EVERY_INPUT))
    assert found.status is Status.PASSED, found.detail
    assert found.findings.error.rel < 1e-6
    assert "right on" in found.check("distributions")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("x.add_(1.0)", "x = x + 1.0; same = x", "out['input']"),
        ('"picked": where + count', '"picked": where + count + (where == 8)', "out['picked']"),
        ("normed = self.norm(x)", "normed = x * (1 + 1e-5) ** -0.5", "gate"),
        ('"pair": (same * scale, None)', '"pair": (same * scale, 0)', "out['pair'][1]"),
    ],
)
def test_every_form_of_value_is_wrong_when_it_is(look: Look, old: str, new: str, said: str) -> None:
    honest = own(EVERYTHING, EVERY_INPUT)
    found = look(*broken(honest, old, new))
    assert found.status is Status.WRONG, found.detail
    assert said in found.detail or "input 0" in found.detail


def test_ties_are_judged_by_value(look: Look) -> None:
    model = forward("x.argmax(1), x.sort(1)[1], x.topk(3, 1)")
    honest = own(model, "torch.randint(0, 4, (8, 16)).float()")
    other = (
        "15 - x.flip(1).argmax(1), 15 - x.flip(1).sort(1)[1], (x.topk(3, 1)[0], 15 - x.flip(1).topk(3, 1)[1])"
    )
    others = broken(honest, "x.argmax(1), x.sort(1)[1], x.topk(3, 1)", other)
    assert look(*others).status is Status.PASSED
    wrong = broken(honest, "x.argmax(1),", "x.argmax(1) // 2,")
    assert look(*wrong).status is Status.WRONG


LSTM = """
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 8, batch_first=True)

    def forward(self, x):
        state = torch.randn(1, x.size(0), 8, device=x.device), torch.randn(1, x.size(0), 8, device=x.device)
        return self.lstm(x, state)[0]
"""


def test_a_recurrent_state_drawn_in_forward_is_drawn_alike(look: Look) -> None:
    honest = own(LSTM, "torch.randn(3, 5, 4)")
    found = look(*honest)
    assert found.status is Status.PASSED, found.detail
    assert any("draws a state" in note for note in found.notes)
    zeros = broken(honest, "torch.randn(1, x.size(0), 8, device=x.device)", "torch.zeros(1, x.size(0), 8)")
    assert look(*zeros).status is Status.WRONG


def test_a_state_drawn_in_the_constructor_is_drawn_alike(look: Look) -> None:
    model = (
        "    def __init__(self):\n        super().__init__()\n        self.w = nn.Linear(8, 8)\n"
        "        self.hidden = torch.randn(4, 8)\n"
    ) + forward("torch.tanh(self.w(x) + self.hidden.to(x.device))")
    assert look(*own(model, "torch.randn(4, 8)")).status is Status.PASSED


def test_prepare_runs_for_every_set_of_weights_and_is_timed_apart(judge: Judge) -> None:
    folded = (
        MODEL_NEW.replace(
            "    def forward",
            "    def prepare(self):\n        import time; time.sleep(0.05); self.kept = self.shift.clone()\n\n"
            "    def forward",
        ).replace("x, self.shift,", "x, self.kept,")
    )  # fmt: skip
    verdict = judge(task(), submission(folded))
    assert verdict.status is Status.PASSED, verdict.detail
    (note,) = [note for note in verdict.notes if note.startswith("prepare() took")]
    times = [float(word) for word in note.split() if word.replace(".", "").isdigit()]
    assert len(times) == 2 and all(50 <= ms < 5000 for ms in times)


def test_a_parameter_made_in_another_order_passes(judge: Judge) -> None:
    two = TASK.replace(
        "self.shift = nn.Parameter(torch.randn(24))",
        "self.shift = nn.Parameter(torch.randn(24)); self.gain = nn.Parameter(torch.randn(24))",
    ).replace("x * self.scale", "x * self.scale * self.gain")
    swapped = MODEL_NEW.replace(
        "self.shift = nn.Parameter(torch.empty(24))",
        "self.gain = nn.Parameter(torch.randn(24)); self.shift = nn.Parameter(torch.randn(24))",
    ).replace("out, x, self.shift", "out, x * self.gain, self.shift")
    assert judge(task(two), submission(swapped)).status is Status.PASSED


NORM = """
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(24)

    def forward(self, x):
        return self.norm(x)
"""


def test_weights_that_construction_sets_to_constants_must_be_read(look: Look) -> None:
    honest = own(NORM, "torch.randn(6, 24)")
    assert look(*honest).status is Status.PASSED
    ignoring = broken(honest, "return self.norm(x)", "return F.layer_norm(x, (24,))")
    assert look(*ignoring).status is Status.WRONG


FITTED = {
    "positive inputs": ("torch.relu(x) + x", "torch.rand(64, 32)", "x + x", "zero-mean"),
    "small inputs": ("torch.softmax(x, 1)", "torch.rand(64, 32)", "x.exp() / x.exp().sum(1, True)", "large"),
    "no zeros": ("x * x.sign().abs()", "torch.rand(64, 32) + 1", "torch.clamp(x, min=0.5)", "zero-mean"),
}


@pytest.mark.parametrize("what", FITTED)
def test_what_is_fitted_to_the_drawn_values_is_wrong(look: Look, what: str) -> None:
    right, inputs, fitted, where = FITTED[what]
    honest = own(forward(right), inputs)
    found = look(*broken(honest, right, fitted))
    assert found.status is Status.WRONG
    assert found.detail.startswith(f"on {where} inputs"), found.detail
    assert found.findings.paper_gate and found.findings.scale_gate is False


def test_structure_of_inputs_is_kept_and_may_be_used(look: Look) -> None:
    model = "    def forward(self, a, b):\n        return (a + 0.0) @ b\n"
    honest = own(model, "torch.rand(16, 16).tril(), torch.rand(16, 16)")
    lower = broken(honest, "(a + 0.0) @ b", "a.tril() @ b")
    found = look(*lower)
    assert found.status is Status.PASSED, found.detail


def test_zeros_for_a_wide_softmax_are_wrong(look: Look) -> None:
    honest = own(forward("torch.softmax(x, 1)"), "torch.rand(2, 300000)")
    found = look(*broken(honest, "torch.softmax(x, 1)", "torch.zeros_like(x)"))
    assert found.status is Status.WRONG
    assert found.findings.paper_gate and found.findings.scale_gate is False


def test_other_shapes_and_layouts_are_told_and_do_not_count(judge: Judge) -> None:
    fixed = MODEL_NEW.replace("x.numel(), x.shape[1])", "144 if x.shape[0] == 6 else 1, 24)")
    verdict = judge(task(), submission(fixed))
    assert verdict.status is Status.PASSED
    assert detail(verdict, "held_out_shape").startswith("shape (3, 24): differs (")
    assert detail(verdict, "held_out_layout").startswith("transposed in memory: not supported")
    dies = MODEL_NEW.replace(
        "        out =", "        import os; x.shape[0] == 6 or os._exit(1)\n        out ="
    )
    verdict = judge(task(), submission(dies))
    assert verdict.status is Status.PASSED
    assert "not supported" in detail(verdict, "held_out_shape")


def test_rounding_noise_is_judged_by_the_references_own(look: Look) -> None:
    model = forward("F.group_norm(x, 1).mean((1, 2))")
    honest = own(model, "torch.randn(4, 8, 64)")
    other = "F.group_norm(x, 1).flip(2).transpose(1, 2).reshape(4, 64, 8).sum(1).sum(1) / 512"
    found = look(*broken(honest, "F.group_norm(x, 1).mean((1, 2))", other))
    assert found.status is Status.PASSED, found.detail
    assert any("both gates were widened" in note for note in found.notes)
    wrong = broken(honest, "mean((1, 2))", "mean((1, 2)) + 1e-4")
    assert look(*wrong).status is Status.WRONG


REFUSED = {
    "memory that nothing wrote": ("x + torch.empty_like(x)", "nothing has written"),
    "only memory that nothing wrote": ("torch.empty_like(x)", ""),
    "a mean over a softmax axis": ("torch.softmax(x, 1).mean(1)", "ignores its inputs"),
    "a weight of zeros": ("F.linear(x, torch.zeros(4, 24), torch.ones(4))", "ignores its inputs"),
    "random": ("x + torch.randn_like(x)", "random reference"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_references_that_prove_nothing_are_refused(look: Look, what: str) -> None:
    expression, said = REFUSED[what]
    found = look(*own(forward(expression), "torch.randn(6, 24)"))
    assert found.status is Status.TASK_REFUSED, found.detail
    assert said in found.detail


def test_too_little_memory_is_told_apart_from_a_wrong_result(look: Look, judge: Judge) -> None:
    found = look(*own(forward("x * 2"), "torch.rand(1 << 20, 1 << 20)"))
    assert found.status is Status.UNSUPPORTED and "GiB" in found.detail
    greedy = MODEL_NEW.replace("        out =", "        torch.empty(1 << 48)\n        out =")
    verdict = judge(task(), submission(greedy))
    assert verdict.status is Status.CRASHED and "memory" in verdict.detail


def test_the_scale_gate_is_no_finer_than_tf32_and_no_looser(look: Look) -> None:
    model = (
        "    def __init__(self):\n        super().__init__()\n        self.w = nn.Parameter(torch.randn(1, 64) / 8)\n"
        "        self.b = nn.Parameter(torch.ones(1))\n"
    ) + forward("F.linear(x, self.w, self.b)")
    honest = own(model, "1 + 1e-3 * torch.rand(32, 64)")
    rounded = "F.linear(x, ((self.w.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32), self.b)"
    found = look(*broken(honest, "F.linear(x, self.w, self.b)", rounded))
    assert found.status is Status.PASSED, found.detail
    assert any("TF32 resolves no more" in note for note in found.notes)
    off = broken(honest, "F.linear(x, self.w, self.b)", "F.linear(x, self.w, self.b) + 8e-3")
    found = look(*off)
    assert found.status is Status.WRONG and found.findings.paper_gate
