from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from warpsmith.errors import TaskRefusedError, TaskUnsupportedError
from warpsmith.judge.admission.fitness import Admission, admit, examine
from warpsmith.judge.reference.model import Reference
from warpsmith.types import Weakness


@pytest.fixture
def look(tmp_path: Path) -> Callable[..., Admission]:
    """Examines a task given by its forward, its arguments and its inputs."""

    def build(
        forward: str, args: str = "x", inputs: str = "torch.rand(64, 32)", init: str = "pass"
    ) -> Admission:
        code = (
            "import torch, itertools\nimport torch.nn.functional as F\nticks = itertools.count()\n"
            "class Model(torch.nn.Module):\n    calls = 0\n    def __init__(self):\n        super().__init__()\n"
            f"        {init}\n"
            f"    def forward(self, {args}):\n        type(self).calls += 1\n        {forward}\n"
            f"def get_inputs():\n    return [{inputs}]\n"
            "def get_init_inputs():\n    return []\n"
        )
        reference = Reference.load(code, tmp_path / "task.py", "cpu")
        model = reference.new_model(0, reference.init_args())
        build.reference, build.model = reference, model
        return examine(reference, model)

    return build


def test_a_fit_task(look):
    found = look(
        "return torch.relu(self.w(x))", init="self.w = torch.nn.Linear(32, 16)", inputs="torch.randn(64, 32)"
    )
    assert found == Admission((), (), inputs_matter=(True,))
    assert look.model.calls == 5
    assert admit(look.reference, look.model) == found


def test_every_input_is_tried_alone(look):
    found = look(
        "return a @ b + 0 * c", "a, b, c, n", "torch.randn(8, 8), torch.randn(8, 8), torch.randn(8, 8), 3"
    )
    assert found.problems == () and found.inputs_matter == (True, True, False)
    assert found.flags == ("input[2] does not matter",)
    assert look.model.calls == 8


def test_inputs_equal_in_every_draw_are_altered(look):
    found = look(
        "return torch.where(m, a, b) * s + t[i]",
        "a, b, m, s, t, i",
        "torch.randn(9), torch.randn(9), torch.ones(9) > 0, torch.ones(1), torch.randn(9), torch.arange(9)",
    )
    assert found.problems == ()
    # Under a mask of ones the second branch shows nowhere.
    assert found.inputs_matter == (True, False, True, True, True, True)


def test_nested_inputs_are_named(look):
    found = look("return xs[0].exp() + d['w'] * 0", "xs, d", "[torch.randn(30)], {'w': torch.randn(30)}")
    assert found.flags == ("input[1]['w'] does not matter",)


@pytest.mark.parametrize(
    ("forward", "inputs", "problem"),
    [
        ("return torch.randn(64)", "torch.rand(64, 32)", "random reference: two runs on the same inputs differ"),
        ("return x + 1e-2 * torch.randn(32)", "torch.rand(64, 32)", "random reference"),
        ("return x * 1e-6 + 1e-7 * torch.randn(32)", "torch.rand(64, 32)", "random reference"),
        ("return x + next(ticks)", "torch.rand(64, 32)", "random reference"),
        ("return torch.ones(64)", "torch.rand(64, 32)", "the reference ignores its inputs"),
        ("return torch.softmax(x, 1).mean(1)", "torch.rand(64, 32)", "the reference ignores its inputs"),
        ("return torch.softmax(x, 1).sum(1).bfloat16()", "torch.rand(64, 32)", "the reference ignores its inputs"),
        ("return torch.arange(5)", "torch.rand(64, 32)", "the reference ignores its inputs"),
        ("return x - x", "torch.rand(64, 32)", "the output is zero throughout"),
        ("return torch.relu(-x), x * 0", "torch.rand(64, 32)", "the output is zero throughout"),
        ("return x / 0", "torch.rand(64, 32)", "the output is NaN or infinite throughout"),
        ("return torch.log(-x - 1)", "torch.rand(64, 32)", "the output is NaN or infinite throughout"),
        ("return None", "torch.rand(64, 32)", "the output has no tensor with elements and no number"),
        ("return x[:0]", "torch.rand(64, 32)", "the output has no tensor with elements and no number"),
        ("return 'done'", "torch.rand(64, 32)", "the output has no tensor with elements and no number"),
        ("return x.to_sparse()", "torch.rand(64, 32)", "the output cannot be judged: out is a Tensor"),
        ("return x.nosuch", "torch.rand(64, 32)", "forward raised AttributeError at line 11 of the task"),
        ("raise SystemExit(0)", "torch.rand(64, 32)", "forward raised SystemExit"),
        ("return x", "torch.rand(0, 32)", "inputs[0] has no elements (shape [0, 32])"),
        ("return x[:3]", "torch.rand(3 + next(ticks))", "get_inputs() gives another structure or other shapes"),
        ("return x", "3", "get_inputs() gives no tensor"),
    ],
)  # fmt: skip
def test_unfit_tasks_are_refused(look, forward, inputs, problem):
    found = look(forward, inputs=inputs)
    assert len(found.problems) == 1
    assert found.problems[0].startswith(problem)
    with pytest.raises(TaskRefusedError):
        admit(look.reference, look.model)


@pytest.mark.parametrize(
    ("forward", "inputs", "flags"),
    [
        ("return x * 1e-4", "torch.rand(64, 32)",
         ("zeros pass the paper gate", "outputs for different inputs lie within the paper gate")),
        ("return 1 + 1e-3 * x", "torch.rand(64, 32)", ("outputs for different inputs lie within the paper gate",)),
        ("return x.view(32, 64).view(64, 32)", "torch.randn(64, 32)", ("an input handed back unchanged passes",)),
        ("return (x > 1.5).float() + 1", "torch.rand(64, 32)", ("outputs for different draws are interchangeable",)),
        ("return F.layer_norm(x, (32,)).mean(1)", "torch.rand(64, 32)",
         ("zeros pass the paper gate", "outputs for different inputs lie within the paper gate",
          "the output is rounding noise: it turns over with the inputs' last bits")),
        ("return torch.where(x > 0, x, float('-inf'))", "torch.randn(64, 32)",
         ("the output is NaN or infinite in places",)),
    ],
)  # fmt: skip
def test_weak_tasks_are_flagged(look, forward, inputs, flags):
    found = look(forward, inputs=inputs)
    assert found.problems == ()
    assert found.flags == flags
    assert found.rounding_noise == any("rounding noise" in flag for flag in flags)


def test_a_reference_may_change_its_inputs(look):
    found = look("x.mul_(2); return x + y", "x, y", "torch.randn(64), torch.randn(64)")
    assert found.problems == () and found.inputs_matter == (True, True)


def test_outputs_that_are_numbers(look):
    assert look("return x.sum().item()", inputs="torch.randn(64)").problems == ()
    assert look("return int(x.sum() * 1000)", inputs="torch.randn(64)").problems == ()


def test_integer_outputs(look):
    assert look("return x.argmax(1)", inputs="torch.randn(64, 32)").problems == ()


def test_too_little_memory_is_no_refusal(look):
    with pytest.raises(TaskUnsupportedError):
        look("raise torch.OutOfMemoryError('full')")


def test_large_inputs_stay_few(tmp_path):
    """Never more than two sets of inputs at once."""
    code = (
        "import torch, weakref\nalive, most = [], 0\n"
        "def note(t):\n    global most\n    alive.append(weakref.ref(t.untyped_storage()))\n"
        "    most = max(most, sum(r() is not None for r in alive))\n    return t\n"
        "class Model(torch.nn.Module):\n    def forward(self, a, b):\n        return (a @ b).sum(0)\n"
        "def get_inputs():\n    return [note(torch.randn(64, 64)), note(torch.randn(64, 64))]\n"
        "def get_init_inputs():\n    return []\n"
    )
    reference = Reference.load(code, tmp_path / "task.py", "cpu")
    assert examine(reference, reference.new_model(0, reference.init_args())).problems == ()
    assert 2 <= reference._module.most <= 4


def test_nothing_is_left_behind(look):
    torch.manual_seed(3)
    look("return x * 2", inputs="torch.randn(64)")
    assert torch.is_grad_enabled()


LSTM = "self.lstm = torch.nn.LSTM(4, 8, batch_first=True)"
STATE = "torch.randn(1, 3, 8), torch.randn(1, 3, 8)"


def test_a_state_drawn_in_forward_is_seeded(look):
    found = look(f"return self.lstm(x, ({STATE}))[0]", inputs="torch.randn(3, 5, 4)", init=LSTM)
    assert found.draws and found.problems == ()
    assert any("draws a state" in flag for flag in found.flags)
    forgotten = look(
        f"return self.lstm(x, ({STATE}))[0][:, -1] * 0 + x.sum(1, True)[:, 0, :1]",
        inputs="torch.randn(3, 5, 4)", init=LSTM,
    )  # fmt: skip
    assert forgotten.draws and forgotten.problems == () and forgotten.flags == ()


def test_a_recurrent_model_that_no_seed_repeats_is_refused(look):
    found = look(
        "return self.lstm(x)[0] + next(ticks) + 0 * torch.randn(1)", inputs="torch.randn(3, 5, 4)", init=LSTM
    )
    assert found.problems[0].startswith("random reference: two runs from the same seed differ")


@pytest.mark.parametrize(
    "forward",
    [
        "return x + torch.empty_like(x)",
        "return torch.cat([x, torch.empty(1, 32)])",
        "return x.new_empty(64, 32)",
    ],
)
def test_memory_that_nothing_has_written_is_refused(look, forward):
    assert len(look(forward, inputs="torch.randn(64, 32)").problems) == 1
    assert not torch.are_deterministic_algorithms_enabled()


def test_memory_that_is_written_is_none_of_it(look):
    found = look(
        "out = torch.empty_like(x); torch.mul(x, 2, out=out); return out", inputs="torch.randn(64, 32)"
    )
    assert found.problems == () and not found.draws


def test_outputs_that_are_the_models_own_are_known(look):
    found = look("return x @ self.w, self.w[3:]", inputs="torch.randn(64, 32)",
                 init="self.w = torch.nn.Parameter(torch.randn(32, 8))")  # fmt: skip
    assert found.problems == () and found.returns_state == frozenset({1})


CLOSE = "1 - (torch.stack([torch.randperm(64) for _ in range(32)]) + 1) * 2.0**-24"


def test_an_index_that_rounding_lets_turn_over_is_no_noise(look):
    """Numbers below one, an ulp apart: scaled beyond one, the two largest are equal, and the first is chosen."""
    assert look("return x.argmax(1)", inputs=CLOSE).flags == ()
    assert look("return x.topk(3).indices", inputs=CLOSE).flags == ()


def test_inputs_at_the_end_of_what_a_function_takes_are_no_noise(look):
    """Scaled beyond one, an arc cosine is NaN; scaled the other way, an inverse hyperbolic one would be."""
    assert (
        look("return torch.acos(x)", inputs="torch.cat([torch.rand(64) * 2 - 1, torch.ones(1)])").flags == ()
    )
    assert look("return torch.acosh(x)", inputs="torch.cat([torch.rand(64) + 1, torch.ones(1)])").flags == ()
    noise = look(
        "return torch.where(x > 1, x / 0, x.floor())", inputs="torch.ones(64) - torch.rand(64).round() / 2"
    )
    assert any("rounding noise" in flag for flag in noise.flags)


def test_a_number_that_rounding_turns_over_still_is(look):
    assert any("rounding noise" in flag for flag in look("return torch.sin(1e8 * x)").flags)


@pytest.mark.parametrize(
    ("forward", "inputs", "kinds"),
    [
        ("return x.exp()", "torch.randn(64, 32)", ()),
        ("return x.exp() * 1e-4", "torch.randn(64, 32)", (Weakness.ZEROS_PASS, Weakness.INDISTINGUISHABLE)),
        ("return x * 1.0", "torch.randn(64, 32)", (Weakness.COPY_PASSES,)),
        ("return x - x", "torch.randn(64, 32)", (Weakness.ZERO_OUTPUT,)),
        ("return x / 0", "torch.rand(64, 32)", (Weakness.NOT_FINITE,)),
        ("return torch.ones(64)", "torch.rand(64, 32)", (Weakness.CONSTANT_OUTPUT,)),
        ("return torch.randn(64)", "torch.rand(64, 32)", (Weakness.RANDOM,)),
        ("return None", "torch.rand(64, 32)", (Weakness.NOT_JUDGEABLE,)),
        ("return x.nosuch", "torch.rand(64, 32)", (Weakness.RAISES,)),
    ],
)
def test_what_is_found_has_a_kind(look, forward, inputs, kinds):
    assert look(forward, inputs=inputs).weaknesses == kinds
