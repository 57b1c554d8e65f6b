import pytest

from warpsmith.errors import MissingExtraError
from warpsmith.synthesis.blocks import render_block
from warpsmith.synthesis.crawl_library import TIMM, Crawled, ModelLibrary, crawl_installed, crawl_library
from warpsmith.synthesis.records import Catalogue, Family, LeftOut
from warpsmith.synthesis.structure import FingerprintKind, Outcome, structures

MODELING = '''
# Copyright 2031 The Example Authors.
from typing import Optional

import torch
from torch import nn

from ...activations import ACT2FN
from ...helpers import halves, missing_library
from .configuration_example import ExampleConfig

logger = get_logger(__name__)


def rotate(x):
    """Halves change places."""
    a, b = halves(x)
    return torch.cat((-b, a), dim=-1)


@use_kernel("norm")
class ExampleRMSNorm(nn.Module):
    """A norm."""

    def __init__(self, hidden_size: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(hidden_size))
        self.eps: float = eps

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        scale = torch.rsqrt(hidden_states.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * rotate(hidden_states * scale)  # rotated


class OtherRMSNorm(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(hidden_size))
        self.eps = eps

    def forward(self, hidden_states):
        """The same as above."""
        scale = torch.rsqrt(hidden_states.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * rotate(hidden_states * scale)


class ExampleMLP(nn.Module):
    def __init__(self, config: ExampleConfig):
        super().__init__()
        self.up = nn.Linear(config.hidden_size, config.intermediate_size, bias=config.mlp_bias)
        self.down = nn.Linear(config.intermediate_size, config.hidden_size)
        self.act = ACT2FN[config.hidden_act]
        self.factor = config.special_factor

    def forward(self, hidden):
        return self.down(self.act(self.up(hidden))) * self.factor


class ExampleAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.mix = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, hidden_states, position_embeddings, attention_mask=None):
        cos, sin = position_embeddings
        return self.mix(hidden_states) * cos.repeat(1, 1, 8) + sin.repeat(1, 1, 8), None


class BrokenMLP(nn.Module):
    def __init__(self, dim):
        super().__init__()

    def forward(self, x):
        return x @ x @ x.mT @ missing(x)


class StrangeMLP(nn.Module):
    def __init__(self, dim, flux_capacitor):
        super().__init__()

    def forward(self, x):
        return x


class ConstantMLP(nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)


class FarMLP(nn.Module):
    def forward(self, x):
        return missing_library(x)


class ExampleModel(nn.Module):
    pass
'''
HELPERS = """
import einops
import torch


def halves(x):
    return x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]


def missing_library(x):
    return einops.rearrange(x, "a b c -> a c b")
"""
CONFIGURATION = """
class ExampleConfig:
    def __init__(self, hidden_act="gelu", special_factor=0.25, mlp_bias=True):
        pass
"""


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Crawled:
    root = tmp_path_factory.mktemp("library") / "example"
    folder = root / "models" / "example"
    folder.mkdir(parents=True)
    (folder / "modeling_example.py").write_text(MODELING)
    (folder / "configuration_example.py").write_text(CONFIGURATION)
    (root / "helpers.py").write_text(HELPERS)
    return crawl_library(root, "9.9")


def test_classes_become_operators_that_stand_alone(crawled: Crawled) -> None:
    found = {operator.entry: operator for operator in crawled.operators}
    assert list(found) == ["ExampleRMSNorm", "ExampleMLP", "ExampleAttention"]
    assert [op.family for op in found.values()] == [Family.NORM, Family.MLP, Family.ATTENTION]

    norm = found["ExampleRMSNorm"]
    assert norm.constructor == "ExampleRMSNorm(hidden_size={hidden})"
    assert norm.code == "{self}(hidden_states={hidden_states})"
    assert norm.source.startswith("# ExampleRMSNorm of transformers 9.9, models/example/modeling_example.py.")
    assert "Apache License" in norm.source and "# Copyright 2031 The Example Authors." in norm.source
    assert "def halves" in norm.source and "def rotate" in norm.source and "use_kernel" not in norm.source
    # memory that nobody writes would be random
    assert "torch.empty" not in norm.source

    mlp = found["ExampleMLP"]
    for word in (
        "hidden_act='gelu'",
        "special_factor=0.25",
        "intermediate_size=4 * {hidden}",
        "mlp_bias=True",
    ):
        assert word in mlp.constructor
    assert mlp.code == "{self}(hidden={hidden_input})"  # `hidden` is a size
    attention = found["ExampleAttention"]
    assert attention.code == (
        "{self}(hidden_states={hidden_states}, position_embeddings=({cosines}, {sines}))[0]"
    )
    assert [template.name for template in attention.inputs] == ["hidden_states", "cosines", "sines"]


def test_what_is_left_out_has_its_reason(crawled: Crawled) -> None:
    reasons = {o.name.rsplit(".", 1)[-1]: (o.reason, o.detail) for o in crawled.omitted}
    assert reasons["OtherRMSNorm"] == (
        LeftOut.DUPLICATE,
        "transformers.models.example.modeling_example.ExampleRMSNorm",
    )
    assert reasons["BrokenMLP"] == (LeftOut.NOT_STANDALONE, "missing is defined nowhere")
    assert reasons["StrangeMLP"] == (LeftOut.NO_TEMPLATE, "its constructor takes flux_capacitor")
    assert reasons["ConstantMLP"][0] is LeftOut.FAILS
    assert reasons["FarMLP"] == (LeftOut.NOT_STANDALONE, "it imports einops")
    assert len(reasons) == 5 and crawled.classes == 9
    assert crawled.by_family["norm"] == {"duplicate": 1, "listed": 1}


def test_operators_make_tasks_that_run(crawled: Crawled) -> None:
    empty = Catalogue(libraries={"torch": "2"}, licences={"torch": "BSD-3-Clause"}, operators=())
    catalogue = crawled.added_to(empty)
    assert catalogue.libraries == {"torch": "2", "transformers": "9.9"}
    assert catalogue.licences["transformers"] == "Apache-2.0"
    sizes = {"batch": 2, "length": 32, "hidden": 64}
    tasks = [render_block(operator, sizes) for operator in catalogue.operators]
    found = structures(tasks, run=True)
    assert [(s.kind, s.run) for s in found] == [(FingerprintKind.GRAPH, Outcome.OK)] * 3


# --- another library: layers that share helpers

NORMS = """
from .helpers import pair
import torch
import torch.nn as nn


def half(size):
    return pair(size)[0] // 2


class SmoothNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x / (1 + x.square().mean(-1, keepdim=True)) * self.weight
"""
ATTENTION = """
import torch
import torch.nn as nn
import torch.nn.functional as F

from .config import use_fused_attn
from .helpers import pair
from .norms import SmoothNorm, half


class PairedAttention(nn.Module):
    fused: torch.jit.Final[bool]

    def __init__(self, dim: int, num_heads: int = 8) -> None:
        super().__init__()
        self.fused = use_fused_attn()
        self.norm = SmoothNorm(dim)
        self.heads, self.window = num_heads, pair(half(4))
        self.qkv = nn.Linear(dim, 3 * dim)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        x = F.scaled_dot_product_attention(q, k, v) if self.fused else q
        return x.transpose(1, 2).reshape(b, n, c)
"""


def test_layers_of_another_library_that_share_a_helper(tmp_path) -> None:
    root = tmp_path / "timm"
    (root / "layers").mkdir(parents=True)
    (root / "layers" / "norms.py").write_text(NORMS)
    (root / "layers" / "attention.py").write_text(ATTENTION)
    (root / "layers" / "config.py").write_text(
        "import os\n\nUSED = os.environ['NEVER_SET']\n\n\ndef use_fused_attn():\n    return USED\n"
    )
    (root / "layers" / "helpers.py").write_text("def pair(x):\n    return (x, x)\n")
    found = crawl_library(root, "7.0", TIMM)
    assert found.classes == 2 and found.omitted == ()
    attention, norm = found.operators
    assert (attention.name, norm.name) == (
        "timm.layers.attention.PairedAttention",
        "timm.layers.norms.SmoothNorm",
    )
    assert (attention.family, norm.family) == (Family.ATTENTION, Family.NORM)
    # the helper that both files import is there once, and the library's settings are not asked
    assert attention.source.count("def pair(") == 1 and "NEVER_SET" not in attention.source
    assert attention.source.startswith(
        "# PairedAttention of timm 7.0, layers/attention.py. Licensed under the Apache"
    )
    assert (attention.library, attention.version, attention.licence) == ("timm", "7.0", "Apache-2.0")


def test_a_library_that_is_not_installed_is_named() -> None:
    absent = ModelLibrary("warpsmith_no_such_library", "MIT", "*.py", "pip install it")
    with pytest.raises(MissingExtraError, match="needs warpsmith_no_such_library"):
        crawl_installed(absent)
