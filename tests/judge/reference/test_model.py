import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from warpsmith.errors import TaskRefusedError, TaskUnreadableError, TaskUnsupportedError
from warpsmith.judge import task_mark
from warpsmith.judge.reference.model import Reference
from warpsmith.types.arguments import Arguments

TASK = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, n, k=4):
        super().__init__()
        self.linear = nn.Linear(n, k)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        return self.dropout(self.linear(x))

def get_inputs():
    return [torch.rand(2, 3)]

def get_init_inputs():
    return [3]
"""

NO_ARGUMENTS = Arguments((), {})


@pytest.fixture
def load(tmp_path: Path) -> Callable[[str], Reference]:
    return lambda code: Reference.load(code, tmp_path / "task.py", "cpu")


def with_inputs(body: str, forward: str = "return x", args: str = "*x") -> str:
    return (
        "import torch\nimport random\n"
        f"class Model(torch.nn.Module):\n    def forward(self, {args}):\n        {forward}\n"
        f"def get_inputs():\n    {body}\n"
        "def get_init_inputs():\n    return []\n"
    )


def test_a_task_runs(load):
    ref = load(TASK)
    assert ref.init_args() == Arguments((3,), {})
    model = ref.new_model(1, Arguments((3,), {}))
    assert not model.training and model.linear.weight.shape == (4, 3)
    (x,) = ref.draw_inputs(5)
    assert x.shape == (2, 3)
    out = ref.forward(model, [x], seed=0)
    assert torch.equal(out, x @ model.linear.weight.T + model.linear.bias) or out.allclose(model.linear(x))
    assert not out.requires_grad


def test_seeds_decide_weights_and_inputs(load):
    ref = load(TASK)
    weights = [ref.new_model(seed, Arguments((3,), {})).linear.weight for seed in (1, 1, 2, 2**61)]
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])
    draws = [ref.draw_inputs(seed)[0] for seed in (1, 1, 2)]
    assert torch.equal(draws[0], draws[1]) and not torch.equal(draws[0], draws[2])


def test_every_generator_is_seeded(load):
    ref = load(
        with_inputs(
            "import numpy; return [torch.rand(1), torch.tensor(random.random()), torch.tensor(numpy.random.rand())]"
        )
    )
    assert torch.equal(torch.stack([t.reshape(()) for t in ref.draw_inputs(7)]),
                       torch.stack([t.reshape(()) for t in ref.draw_inputs(7)]))  # fmt: skip


def test_state_drawn_inside_forward_repeats_under_one_seed(load):
    ref = load(with_inputs("return [torch.ones(3)]", "return x[0] + torch.randn(3) + random.random()"))
    model, inputs = ref.new_model(0, NO_ARGUMENTS), ref.draw_inputs(0)
    outs = [ref.forward(model, inputs, seed=seed) for seed in (4, 4, 5, None, None)]
    assert torch.equal(outs[0], outs[1])
    assert not torch.equal(outs[0], outs[2]) and not torch.equal(outs[3], outs[4])


@pytest.mark.parametrize(
    "body",
    [
        "return torch.rand(2)",
        "return (torch.rand(2), 3, 'sum', None)",
        "return (torch.rand(n) for n in (1, 2))",
        "yield torch.rand(1); yield 2.5",
        "return [[torch.rand(1), torch.rand(2)], {'mask': torch.ones(1)}]",
        "return [torch.nn.Parameter(torch.rand(2))]",
    ],
)
def test_forms_of_inputs(load, body):
    ref = load(with_inputs(body))
    inputs = ref.draw_inputs(0)
    assert type(inputs) is list
    first = inputs[0][0] if isinstance(inputs[0], list) else inputs[0]
    assert type(first) is torch.Tensor and not first.requires_grad
    ref.forward(ref.new_model(0, NO_ARGUMENTS), inputs, seed=0)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("return []", "get_inputs() gives no tensor"),
        ("return [1, 2.0]", "get_inputs() gives no tensor"),
        ("return {'x': torch.rand(2)}", "get_inputs() gives a dict, not a list of forward's arguments"),
        ("return None", "get_inputs() gives a NoneType, not a list of forward's arguments"),
        ("return [torch.rand(2).numpy()]", "get_inputs(): inputs[0] is a ndarray, which the judge cannot take"),
        ("return [object()]", "get_inputs(): inputs[0] is a object, which the judge cannot take"),
        ("return [1 / 0]", "get_inputs() raised ZeroDivisionError at line 7 of the task: division by zero"),
        ("while True: yield torch.rand(1)", "get_inputs() gives more than 1000 inputs"),
        ("raise SystemExit(0)", "get_inputs() raised SystemExit at line 7 of the task: 0"),
    ],
)  # fmt: skip
def test_unfit_inputs_are_refused(load, body, text):
    with pytest.raises(TaskRefusedError) as caught:
        load(with_inputs(body)).draw_inputs(0)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("raise SystemExit\n", "import raised SystemExit at line 1 of the task: (no message)"),
        ("\nraise ValueError('first\\nsecond')\n", "import raised ValueError at line 2 of the task: first"),
    ],
)  # fmt: skip
def test_failing_imports_are_refused(load, code, text):
    with pytest.raises(TaskRefusedError) as caught:
        load(code)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("x = (\n", "line 1: not valid Python"),
        ("def get_inputs(): pass\n", "the task does not define Model, get_init_inputs"),
        (TASK.replace("class Model", "class Net"), "the task does not define Model"),
    ],
)
def test_what_is_no_task_is_unreadable(load, code, text):
    with pytest.raises(TaskUnreadableError, match=text):
        load(code)


def test_failures_name_phase_and_line(load):
    ref = load(TASK)
    with pytest.raises(TaskRefusedError, match=r"Model\(\) raised TypeError at line 8 of the task: "):
        ref.new_model(0, Arguments(("y",), {}))
    model = ref.new_model(0, Arguments((3,), {}))
    with pytest.raises(
        TaskRefusedError, match=r"forward raised RuntimeError at line 12 of the task: mat1 and mat2"
    ):
        ref.forward(model, [torch.ones(2, 9)], seed=0)


def test_memory_is_no_fault_of_the_task(load):
    for error in ("MemoryError()", "torch.OutOfMemoryError('full')"):
        ref = load(with_inputs("return [torch.ones(1)]", f"raise {error}"))
        with pytest.raises(TaskUnsupportedError, match="forward needs more memory"):
            ref.forward(ref.new_model(0, NO_ARGUMENTS), ref.draw_inputs(0), seed=0)


def test_interrupts_pass(load):
    with pytest.raises(KeyboardInterrupt):
        load("raise KeyboardInterrupt\n")


def test_what_is_no_module_is_refused(load):
    with pytest.raises(TaskRefusedError, match=r"not a torch\.nn\.Module"):
        load(
            TASK.replace("class Model(nn.Module)", "class Model(object)").replace("self.", "self.__class__.")
        ).new_model(0, Arguments((3,), {}))


def test_source_can_be_inspected(load):
    ref = load(
        "import inspect, dataclasses\nimport torch\n"
        "@dataclasses.dataclass\nclass Config:\n    n: 'int' = 3\n"
        "class Model(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
        "def get_inputs():\n    return [torch.ones(len(inspect.getsource(Model)))]\n"
        "def get_init_inputs():\n    return Config()\n"
    )
    assert ref.draw_inputs(0)[0].numel() > 50
    assert ref.init_args().args[0].n == 3


def test_bytes_count_every_byte_once(load):
    ref = load(TASK)
    x = torch.ones(100, 10)
    assert ref.read_bytes([x], {}) == 4000
    assert ref.read_bytes([x, x, x.T], {"w": torch.ones(5)}) == 4020
    assert ref.read_bytes([x[:, :3]], {}) == 1200
    assert ref.read_bytes([x[:50], x[25:75]], {}) == 3000
    assert ref.read_bytes(list(x.chunk(4)), {}) == 4000
    assert ref.read_bytes([torch.ones(1, 10).expand(1000, 10)], {}) == 40
    assert ref.read_bytes([torch.ones(12).as_strided((10, 3), (1, 1))], {}) == 48
    assert ref.read_bytes([torch.ones(0)], {}) == 0
    assert ref.written_bytes({"a": (torch.ones(3), torch.ones(2).double()), "b": 1}) == 28


def test_output_buffer_holds_the_outputs(load):
    ref = load(with_inputs("return [torch.ones(300)]", "x[0].mul_(2); return x[0], x[0].double()"))
    inputs = ref.draw_inputs(0)
    assert ref.output_bytes(ref.new_model(0, NO_ARGUMENTS), inputs) >= 300 * 12
    assert torch.equal(inputs[0], torch.ones(300))


def test_global_randomness_of_the_caller_is_not_needed(load):
    ref = load(TASK)
    torch.manual_seed(1)
    random.seed(1)
    first = ref.draw_inputs(9)[0]
    torch.rand(5)
    assert torch.equal(first, ref.draw_inputs(9)[0])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_on_a_gpu(tmp_path):
    ref = Reference.load(TASK, tmp_path / "task.py", "cuda")
    model = ref.new_model(1, Arguments((3,), {}))
    (x,) = ref.draw_inputs(1)
    assert x.is_cuda and model.linear.weight.is_cuda
    assert ref.forward(model, [x], seed=0).is_cuda
    host = Reference.load(
        with_inputs("return [torch.from_numpy(torch.rand(3).numpy())]"), tmp_path / "b.py", "cuda"
    )
    assert host.draw_inputs(1)[0].is_cuda and torch.equal(host.draw_inputs(1)[0], host.draw_inputs(1)[0])


KEYWORDS = """
import torch
class Model(torch.nn.Module):
    def __init__(self, features, *, scale):
        super().__init__()
        self.linear = torch.nn.Linear(features, 4)
        self.scale = scale
    def forward(self, x):
        return self.linear(x) * self.scale
def get_inputs():
    return [torch.ones(2, 3)]
def get_init_inputs():
    return [[3], {"scale": 2.0}]
"""


def test_positional_and_named_arguments_are_a_pair(load):
    ref = load(KEYWORDS)
    assert ref.init_args() == Arguments((3,), {"scale": 2.0})
    assert ref.new_model(0, ref.init_args()).scale == 2.0


def test_the_tasks_code_is_marked_while_it_runs_where_that_is_asked_for(tmp_path, load):
    code = KEYWORDS.replace(
        "        return self.linear",
        "        open(MARK).read().strip() == 'forward' or 1 / 0\n        return self.linear",
    )
    mark = tmp_path / "in_task"
    ref = load(f"MARK = {str(mark)!r}\n" + code)
    model = ref.new_model(0, ref.init_args())
    with pytest.raises(TaskRefusedError, match="FileNotFoundError"):
        ref.forward(model, ref.draw_inputs(0), seed=0)
    task_mark.lay(tmp_path)
    ref.forward(model, ref.draw_inputs(0), seed=0)
    assert mark.read_text().strip() == ""


LACKS = {
    "package": (
        "import nowhere_to_be_found",
        "import needs the Python package nowhere_to_be_found, which is not",
    ),
    "package, wrapped": (
        "try:\n    import nowhere_to_be_found\nexcept ImportError as e:\n    raise RuntimeError('no') from e",
        "import needs the Python package nowhere_to_be_found, which is not installed here",
    ),
    "network": ("import socket; raise socket.gaierror(-2, 'unknown')", "import needs the network"),
    "hub": (
        "class NotCached(OSError):\n    __module__ = 'huggingface_hub.errors'\nraise NotCached('no file')",
        "import needs files of a model hub that are not in this machine's cache",
    ),
}


@pytest.mark.parametrize("what", LACKS)
def test_what_this_machine_lacks_makes_no_task_unfit(load, what):
    code, said = LACKS[what]
    with pytest.raises(TaskUnsupportedError) as caught:
        load(code + "\n" + TASK)
    assert str(caught.value).startswith(said)
    assert caught.value.hint


def test_a_handled_lack_is_none(load):
    guarded = "try:\n    import nowhere_to_be_found\nexcept ImportError:\n    pass\n"
    assert load(guarded + TASK).init_args() == Arguments((3,), {})
    with pytest.raises(TaskRefusedError, match="ValueError"):
        load(guarded + "raise ValueError('other')\n" + TASK)
