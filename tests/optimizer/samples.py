"""Small models as task texts: (forward, inputs, what __init__ sets up)."""

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn

"""


def task(forward: str, inputs: str, init: str = "pass") -> str:
    """A task whose `Model.forward(*a)` runs `forward`."""
    return (
        HEAD + "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"        {init}\n\n    def forward(self, *a):\n        {forward}\n\n\n"
        f"def get_inputs():\n    return {inputs}\n\n\ndef get_init_inputs():\n    return []\n"
    )


MODELS = {
    "silu_bias_layernorm_gelu": (
        "x, b = a; return F.gelu(self.ln(x * torch.sigmoid(x) + b))",
        "[torch.randn(6, 132), torch.randn(132)]",
        "self.ln = nn.LayerNorm(132)",
    ),
    "layernorm_odd_row": ("return self.ln(a[0])", "[torch.randn(5, 37)]", "self.ln = nn.LayerNorm(37)"),
    "layernorm_two_stages": (
        "return self.ln(a[0])",
        "[torch.randn(2, 40, 1024) + 3]",
        "self.ln = nn.LayerNorm((40, 1024))",
    ),
    "layernorm_log_softmax": (
        "return torch.asinh(F.log_softmax(self.ln(a[0]), 1))",
        "[torch.rand(16, 1000) * 2 + 0.1]",
        "self.ln = nn.LayerNorm(1000, bias=False)",
    ),
    "softmax_across_rows": ("return torch.softmax(a[0], 1)", "[torch.randn(3, 17, 29)]"),
    "softmax_two_stages": ("return torch.softmax(a[0] * 2, 1)", "[torch.randn(2, 40000)]"),
    "log_softmax": ("return torch.log_softmax(a[0], -1)", "[torch.randn(7, 1000)]"),
    "group_norm_relu": (
        "return F.relu(self.gn(a[0])) * 2",
        "[torch.randn(2, 8, 5, 4)]",
        "self.gn = nn.GroupNorm(4, 8)",
    ),
    "instance_norm": ("return self.n(a[0])", "[torch.randn(2, 3, 9, 9)]", "self.n = nn.InstanceNorm2d(3)"),
    "batch_norm": ("return self.n(a[0])", "[torch.randn(2, 3, 9, 9)]", "self.n = nn.BatchNorm2d(3)"),
    "rms_over_channels": (
        "x = a[0]; return x / torch.sqrt(torch.mean(x**2, dim=1, keepdim=True) + 1e-5)",
        "[torch.randn(2, 64, 7, 9)]",
    ),
    "diagonal_matmul": ("return torch.diag(a[0]) @ a[1]", "[torch.randn(8), torch.randn(8, 12)]"),
    "matmul_sum_scale": (
        "return torch.sum((a[0] @ self.w.T) / 2, dim=1, keepdim=True) * 1.5",
        "[torch.rand(6, 40)]",
        "self.w = nn.Parameter(torch.rand(24, 40))",
    ),
    "linear_mean": ("return self.l(a[0]).mean(1)", "[torch.rand(6, 40)]", "self.l = nn.Linear(40, 9)"),
    "reductions": (
        "x = a[0]; return x.sum(0), x.mean((0, 2)), x.amax(1), x.min(2).values, x.prod(1)",
        "[torch.rand(6, 40, 5) + 0.5]",
    ),
    "norms": (
        "x = a[0]; return x / torch.norm(x, dim=1, keepdim=True), x / x.abs().mean(1, keepdim=True), x / x.norm()",
        "[torch.rand(6, 4000)]",
    ),
    "activations": (
        "x = a[0]; return [F.mish(x), F.softplus(x), F.elu(x), F.selu(x), F.hardswish(x), F.hardsigmoid(x),"
        " F.gelu(x, approximate='tanh'), F.leaky_relu(x), F.logsigmoid(x), x / (1 + x.abs())]",
        "[torch.randn(13, 7) * 5]",
    ),
    "convolution_tail": (
        "x = self.c(a[0]); return torch.tanh(F.mish(x) + self.b).mean((2, 3))",
        "[torch.randn(2, 3, 9, 9)]",
        "self.c = nn.Conv2d(3, 8, 3); self.b = nn.Parameter(torch.randn(8, 1, 1))",
    ),
    "views": (
        "x = a[0]; y = x.permute(0, 2, 1).reshape(2, -1)[:, 3:60:2]; "
        "return {'y': y * 2, 'z': (torch.flip(x, (1,)) + 1, torch.tril(x[0]), x.chunk(2, 1)[0].sigmoid())}",
        "[torch.randn(2, 8, 9)]",
    ),
    "not_contiguous": ("return a[0] * 2 + a[1]", "[torch.randn(8, 6).t(), torch.randn(6, 16)[:, ::2]]"),
    "masks": (
        "return a[0].masked_fill(a[1], -1.0), torch.where(a[0] > 0.5, a[0], a[2].float())",
        "[torch.rand(9, 5), torch.rand(9, 5) > 0.5, torch.arange(5)]",
    ),
    "halves": (
        "return F.gelu(a[0]) * 2, torch.softmax(a[1], -1)",
        "[torch.randn(8, 12).half(), torch.randn(8, 12).bfloat16()]",
    ),
    "shared_middle": (
        "y = torch.softmax(a[0], 1) + a[1]; z = torch.softmax(y, 1); return z * y, z.sum(0)",
        "[torch.randn(6, 50), torch.randn(6, 50)]",
    ),
    "losses": (
        "return F.mse_loss(*a), F.smooth_l1_loss(*a), torch.logsumexp(a[0], 1), a[1].var(1)",
        "[torch.rand(33, 100) + 0.1, torch.rand(33, 100) + 0.1]",
    ),
    "size_one": (
        "x = a[0]; return torch.logsumexp(torch.max(x.sum(1, keepdim=True), 1, keepdim=True)[0], 1), x.relu()",
        "[torch.randn(5, 1)]",
    ),
}
