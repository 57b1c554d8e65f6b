"""Random small graphs as task source, honest other ways to compute them, and ways to compute them wrongly.

`graphs()` draws a `Graph`: up to six operators, inputs of one float dtype beside masks and indices, one of several
output forms. `Graph.task()` is the task. `Graph.submission(way, planted)` computes the same in another honest way,
then spoils it with `planted`, statements that see `x` (the input as given), `y` (the result), `again` (the number of
the call, from 0) and `kept` (a dict that outlives the call).
"""

from dataclasses import dataclass

from hypothesis import strategies as st

HEAD = "import math\nimport torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"

HELPERS = '''
def copy(t):
    """Memory of its own, in order."""
    return t.contiguous().clone()


def tf32(t):
    """Rounded to TF32's ten bits of mantissa, to nearest."""
    if t.dtype != torch.float32:
        return t
    bits = t.contiguous().view(torch.int32)
    return torch.where(torch.isfinite(t), (bits + 0x0FFF + ((bits >> 13) & 1)) & ~0x1FFF, bits).view(torch.float32)


def online_softmax(y):
    """One pass over blocks: running maximum, running sum."""
    top = torch.full_like(y[..., :1], -math.inf)
    total = torch.zeros_like(top)
    for part in y.split(5, -1):
        new = torch.maximum(top, part.amax(-1, True))
        total = total * (top - new).exp() + (part - new).exp().sum(-1, True)
        top = new
    return (y - top).exp() / total


def shifted(y):
    """The sum of exponentials, without overflow."""
    return (y - y.amax(-1, True)).exp().sum(-1, True)


def welford(y):
    """Mean and variance in one pass."""
    mean = torch.zeros_like(y[..., :1])
    m2 = torch.zeros_like(mean)
    for i, v in enumerate(y.split(1, -1)):
        delta = v - mean
        mean = mean + delta / (i + 1)
        m2 = m2 + delta * (v - mean)
    return mean, m2 / y.shape[-1]
'''


@dataclass(frozen=True)
class Operator:
    """`plain`: how the task says it. `others`: honest ways of no less accuracy. Each is an expression of `y`.

    `width`: of the result's last dimension, None for the operand's; 1 where it is reduced.
    `weight`: a parameter {w} of shape [width of y, 8] ("matrix") or [width of y] ("vector").
    """

    plain: str
    others: tuple[str, ...]
    width: int | None = None
    weight: str = ""
    least: int = 1


OPERATORS = {
    "scale": Operator("y * 1.5", ("y + 0.5 * y", "y / (1 / 1.5)")),
    "shift": Operator("y - 0.25", ("-(0.25 - y)",)),
    "relu": Operator("torch.relu(y)", ("torch.where(y > 0, y, torch.zeros_like(y))", "(y + y.abs()) / 2")),
    "leaky": Operator("F.leaky_relu(y, 0.1)", ("torch.where(y > 0, y, y * 0.1)", "torch.maximum(y, 0.1 * y)")),
    "tanh": Operator("torch.tanh(y)", ("y.sign() * -torch.expm1(-2 * y.abs()) / (1 + (-2 * y.abs()).exp())",)),
    "sigmoid": Operator("torch.sigmoid(y)", ("1 / (1 + (-y).exp())",)),
    "gelu": Operator("F.gelu(y)", ("0.5 * y * (1 + torch.erf(y * 0.7071067811865476))",)),
    "silu": Operator("F.silu(y)", ("y * torch.sigmoid(y)", "y / (1 + (-y).exp())")),
    "softsign": Operator("F.softsign(y)", ("y * (1 / (1 + y.abs()))",)),
    "decay": Operator("torch.exp(-y.abs())", ("1 / y.abs().exp()", "torch.exp2(y.abs() * -1.4426950408889634)")),
    "root": Operator("(y.abs() + 0.1).sqrt()", ("(y.abs() + 0.1) * (y.abs() + 0.1).rsqrt()",)),
    "square": Operator("y * y", ("y.abs() ** 2",)),
    "masked": Operator("torch.where(mask, y, y * 0.5)", ("torch.where(~mask, y / 2, y)",)),
    "add": Operator("y + z", ("z + y",)),
    "times": Operator("y * z.sigmoid()", ("y / (1 + (-z).exp())",)),
    "bias": Operator("y + {w}", ("{w}.expand_as(y) + y",), weight="vector"),
    "product": Operator("y @ {w}", ("(y.unsqueeze(-1) * {w}).flip(-2).sum(-2)", "({w}.mT @ y.mT).mT"),
                        width=8, weight="matrix"),
    "softmax": Operator("torch.softmax(y, -1)",
                        ("online_softmax(y)", "(y - y.amax(-1, True)).exp() / shifted(y)")),
    "log_softmax": Operator("torch.log_softmax(y, -1)",
                            ("y - y.amax(-1, True) - shifted(y).log()",)),
    "layer_norm": Operator("F.layer_norm(y, y.shape[-1:])",
                           ("(y - welford(y)[0]) * (welford(y)[1] + 1e-5).rsqrt()",
                            "(y - y.mean(-1, True)) / (y.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()")),
    "rms_norm": Operator("y * (y.square().mean(-1, True) + 1e-6).rsqrt()",
                         ("y / (y.flip(-1).square().sum(-1, True) / y.shape[-1] + 1e-6).sqrt()",)),
    "normalize": Operator("F.normalize(y, dim=-1)", ("y / y.square().sum(-1, True).sqrt().clamp_min(1e-12)",)),
    "centre": Operator("y - y.mean(-1, True)", ("y - y.flip(-1).sum(-1, True) / y.shape[-1]", "y - welford(y)[0]")),
    "cumsum": Operator("y.cumsum(-1)", ("y @ torch.ones(y.shape[-1], y.shape[-1], dtype=y.dtype).triu()",
                                         "y.double().cumsum(-1).to(y.dtype)")),
    "sort": Operator("y.sort(-1).values", ("y.topk(y.shape[-1]).values.flip(-1)",)),
    "gather": Operator("y[..., at % y.shape[-1]]", ("y.index_select(-1, at % y.shape[-1])",), width=6, least=5),
    "sum": Operator("y.sum(-1, True)",
                    ("y.flip(-1).cumsum(-1)[..., -1:]", "y.double().sum(-1, True).to(y.dtype)"), width=1),
    "mean": Operator("y.mean(-1, True)", ("y.flip(-1).sum(-1, True) / y.shape[-1]", "welford(y)[0]"), width=1),
    "variance": Operator("y.var(-1, correction=0, keepdim=True)",
                         ("welford(y)[1]", "(y - y.mean(-1, True)).square().mean(-1, True)"), width=1, least=2),
    "maximum": Operator("y.amax(-1, True)", ("y.sort(-1).values[..., -1:]",), width=1),
    "logsumexp": Operator("torch.logsumexp(y, -1, True)",
                          ("y.amax(-1, True) + shifted(y).log()",), width=1),
}  # fmt: skip

CHOICES = {
    "argmax": ("{s}.argmax(-1)", "{s}.shape[-1] - 1 - {s}.flip(-1).argmax(-1)"),
    "argmin": ("{s}.argmin(-1)", "{s}.shape[-1] - 1 - {s}.flip(-1).argmin(-1)"),
    "max": ("{s}.max(-1).indices", "{s}.argmax(-1)"),
    "sort": ("{s}.sort(-1).indices", "{s}.shape[-1] - 1 - {s}.flip(-1).argsort(stable=True, dim=-1)"),
    "topk": (
        "{s}.topk(2).indices",
        "({s}.shape[-1] - 1 - {s}.flip(-1).argsort(stable=True, dim=-1, descending=True))[..., :2]",
    ),
}
"""Operators that choose an index: torch's own choice, and one that takes the last of equals."""

FORMS = {
    "tensor": "y",
    "tuple": "(y, {i})",
    "dict": "{{'y': y, 'none': None, 'i': {i}}}",
    "number": "(y, float(y.double().sum()), 3)",
    "scalar": "[y, y.sum()]",
    "empty": "(y, y.reshape(-1)[:0], y.reshape(-1)[0])",
    "input": "(y, x)",
    "bool": "(y, mask ^ (x > 0))",
}
SHAPES = [(1,), (7,), (257,), (1, 1), (3, 5), (1, 17), (9, 16), (64, 33), (2, 3, 7), (2, 1, 9), (40, 1)]
DTYPES = ["float32", "float32", "float32", "float16", "bfloat16", "float64"]
DRAWS = {
    "normal": "torch.randn{shape}",
    "uniform": "torch.rand{shape}",
    "ties": "torch.randn{shape}.mul(4).round().div(4).add(0.125)",
    "offset": "torch.randn{shape} + 20",
    "sparse": "torch.randn{shape} * (torch.rand{shape} > 0.7)",
}
WAYS = ["formulas", "float64", "tf32"]


@dataclass(frozen=True)
class Graph:
    """One task. `choice`: an operator of CHOICES and its operand, `x` or `y`."""

    steps: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str
    drawn: str
    form: str
    choice: tuple[str, str]
    in_place: bool
    broadcast: bool

    def task(self, probe: bool = False) -> str:
        """Source of the task; with `probe`, forward returns (output, operand of `choice`)."""
        lines = self._lines([OPERATORS[s].plain for s in self.steps], "")
        shape, z = self.shape, self.shape[-1:] if self.broadcast else self.shape
        draw = DRAWS[self.drawn].replace("{shape}", str(shape))
        result = self._result(0)
        inputs = (
            f"[({draw}).to(torch.{self.dtype}), torch.randn{z}.to(torch.{self.dtype}), "
            f"torch.rand{shape} > 0.5, torch.randint(0, 999, (6,))]"
        )
        return (
            self._module(
                "Model", [*lines, f"return ({result}, {self.choice[1]})" if probe else f"return {result}"]
            )
            + f"\n\ndef get_inputs():\n    return {inputs}\n\n\ndef get_init_inputs():\n    return []\n"
        )

    def submission(self, way: str, which: int, planted: str = "") -> str:
        """Source of a submission: `way` of WAYS, `which` of each operator's other formulas, then `planted`."""
        expressions = []
        for name in self.steps:
            op = OPERATORS[name]
            text = op.others[which % len(op.others)] if way == "formulas" or which % 2 else op.plain
            expressions.append("tf32(y) @ tf32({w})" if way == "tf32" and name == "product" else text)
        wide = "double" if way == "float64" else "float" if self.dtype in ("float16", "bfloat16") else ""
        # A kernel either keeps every intermediate in registers, or rounds each as the task does.
        lines = self._lines(expressions, wide, each=way == "formulas" and which % 2 == 0)
        lines = ["again, kept = self.again, self.kept", "self.again += 1", *lines, *planted.splitlines()]
        return self._module("ModelNew", [*lines, f"return {self._result(1)}"], HELPERS, counting=True)

    def _result(self, other: int) -> str:
        chosen = CHOICES[self.choice[0]][other].format(s=self.choice[1])
        return FORMS[self.form].format(i=chosen)

    def _lines(self, expressions: list[str], wide: str, each: bool = False) -> list[str]:
        """Statements of forward. `wide`: the dtype to compute in; with `each`, rounded after every operator."""
        lines = ["x.mul_(0.75)"] if self.in_place else []
        lines += [f"z = z.{wide}()"] if wide else []
        lines += [f"y = x.{wide}()" if wide else "y = x"]
        for i, text in enumerate(expressions):
            weight = f"self.w{i}.{wide}()" if wide else f"self.w{i}"
            lines.append("y = " + text.replace("{w}", weight))
            if wide and (each or i == len(expressions) - 1):
                lines.append(
                    f"y = y.to(torch.{self.dtype})" + (f".{wide}()" if i < len(expressions) - 1 else "")
                )
        return lines

    def _module(self, name: str, forward: list[str], helpers: str = "", counting: bool = False) -> str:
        init, width = ["super().__init__()"], self.shape[-1]
        for i, step in enumerate(self.steps):
            op = OPERATORS[step]
            if op.weight:
                sizes = (width, op.width) if op.weight == "matrix" else (width,)
                init.append(
                    f"self.w{i} = nn.Parameter((torch.randn{sizes} / {width}**0.5).to(torch.{self.dtype}))"
                )
            width = op.width or width
        init += ["self.again, self.kept = 0, {}"] if counting else []
        text = f"{HEAD}{helpers}\n\nclass {name}(nn.Module):\n    def __init__(self):\n"
        text += "".join(f"        {line}\n" for line in init)
        text += "\n    def forward(self, x, z, mask, at):\n"
        return text + "".join(f"        {line}\n" for line in forward)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Graphs whose shapes fit: operands of the first shape stand only where the width is still that."""
    shape = draw(st.sampled_from(SHAPES))
    steps, width = [], shape[-1]
    for _ in range(draw(st.integers(1, 6))):
        fits = [
            n for n, op in OPERATORS.items()
            if width >= op.least
            and (n not in ("masked", "add", "times") or width == shape[-1])
            and (n != "product" or len(shape) > 1)
        ]  # fmt: skip
        steps.append(draw(st.sampled_from(fits)))
        width = OPERATORS[steps[-1]].width or width
    chosen = draw(st.sampled_from(["x", "y"]))
    many = (shape[-1] if chosen == "x" else width) > 1
    return Graph(
        steps=tuple(steps),
        shape=shape,
        dtype=draw(st.sampled_from(DTYPES)),
        drawn=draw(st.sampled_from(sorted(DRAWS))),
        form=draw(st.sampled_from(sorted(FORMS))),
        choice=(draw(st.sampled_from(sorted(CHOICES) if many else ["argmax"])), chosen),
        in_place=draw(st.booleans()) and draw(st.booleans()),
        broadcast=draw(st.booleans()),
    )
