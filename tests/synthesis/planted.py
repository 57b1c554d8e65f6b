"""A small task, the ways in which somebody may plant it again, and tasks that only look like it."""

TASK = '''
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """A linear layer, a gate, a scaled sum."""

    def __init__(self, width, out):
        super().__init__()
        self.first = nn.Linear(width, out)
        self.norm = nn.LayerNorm(out)

    def forward(self, x, y):
        a = self.first(x)
        b = torch.sigmoid(y)
        c = self.norm(a * b)
        d = F.leaky_relu(c, negative_slope=0.2)
        return (d * 1.5).sum(dim=-1)


batch, width, out = 64, 128, 256


def get_inputs():
    return [torch.randn(batch, width), torch.randn(batch, out)]


def get_init_inputs():
    return [width, out]
'''


def _swap(*pairs: tuple[str, str]) -> str:
    text = TASK
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text


RENAMED = _swap(
    ("self.first", "self.projection"),
    ("self.norm", "self.n1"),
    (" a ", " hidden "),
    ("(a * b)", "(hidden * b)"),
)
RESIZED = _swap(("64, 128, 256", "32, 1000, 17"))
REORDERED = _swap(
    (
        "        a = self.first(x)\n        b = torch.sigmoid(y)\n",
        "        b = y.sigmoid()\n        a = self.first(x)\n",
    ),
    ("a * b", "b * a"),
)
HELPERS = _swap(
    (
        "class Model(nn.Module):",
        "def gated(layer, x, y):\n    return layer(x) * torch.sigmoid(y)\n\n\nclass Model(nn.Module):",
    ),
    (
        "        a = self.first(x)\n        b = torch.sigmoid(y)\n        c = self.norm(a * b)\n",
        "        c = self.norm(gated(self.first, x, y))\n        unused = c.exp()\n",
    ),
)
WRAPPED = _swap(
    ("class Model(nn.Module):", "class Inner(nn.Module):"),
    (
        "batch, width, out",
        "class Model(nn.Module):\n    def __init__(self, *sizes):\n        super().__init__()\n"
        "        self.inner = nn.ModuleList([Inner(*sizes)])\n\n    def forward(self, y, x):\n"
        "        return self.inner[0](x.clone(), y.contiguous())\n\n\nbatch, width, out",
    ),
    (
        "[torch.randn(batch, width), torch.randn(batch, out)]",
        "[torch.randn(batch, out), torch.randn(batch, width)]",
    ),
)
FUNCTIONAL = _swap(
    (
        "        self.first = nn.Linear(width, out)\n        self.norm = nn.LayerNorm(out)\n",
        "        self.weight = nn.Parameter(torch.randn(out, width))\n"
        "        self.bias = nn.Parameter(torch.zeros(out))\n"
        "        self.gain = nn.Parameter(torch.ones(out))\n        self.shift = nn.Parameter(torch.zeros(out))\n"
        "        self.act = nn.LeakyReLU(0.2)\n",
    ),
    ("self.first(x)", "x @ self.weight.T + self.bias"),
    ("self.norm(a * b)", "F.layer_norm(a.mul_(b), (a.shape[-1],), self.gain, self.shift, 1e-6)"),
    ("F.leaky_relu(c, negative_slope=0.2)", "self.act(c)"),
    ("(d * 1.5).sum(dim=-1)", "torch.sum(1.5 * d, 1)"),
)
COPIES = {
    "renamed": RENAMED,
    "resized": RESIZED,
    "reordered": REORDERED,
    "helpers": HELPERS,
    "wrapped": WRAPPED,
    "functional": FUNCTIONAL,
}

NEAR_MISSES = {
    "another operator": _swap(("torch.sigmoid(y)", "torch.tanh(y)")),
    "another axis": _swap(("sum(dim=-1)", "sum(dim=0)")),
    "another constant": _swap(("d * 1.5", "d * 2.5")),
    "another slope": _swap(("negative_slope=0.2", "negative_slope=0.3")),
    "another order": _swap(("self.norm(a * b)", "self.norm(a) * b")),
    "the same input twice": _swap(
        ("torch.sigmoid(y)", "torch.sigmoid(a)"), ("forward(self, x, y)", "forward(self, x, y=None)")
    ),
    "columns scaled": _swap(("(d * 1.5).sum(dim=-1)", "(d * 1.5).sum(dim=-1, keepdim=True) * d")),
}
