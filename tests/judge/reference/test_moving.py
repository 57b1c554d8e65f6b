"""Moved weights: values stay the tensor's own, both sides move alike, and all is put back."""

import copy
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.judge.inprocess import judged, own

from warpsmith.judge.reference.moving import MOST, MOST_BYTES, MovingWeights, drawn
from warpsmith.types import Status

FOLDED = """    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(64, 64) / 8)

    def forward(self, x):
        return x @ (self.weight @ self.weight)
"""


def _model() -> torch.nn.Module:
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 4), torch.nn.Linear(4, 4, bias=False), torch.nn.BatchNorm1d(4)
    )
    model[1].weight = model[0].weight
    for parameter in model[2].parameters():
        torch.nn.init.normal_(parameter)
    return model


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**62))
def test_both_sides_move_alike_and_put_all_back(seed: int) -> None:
    model = _model()
    other = copy.deepcopy(model)
    # not tied there, and in another order in memory
    other[1].weight = torch.nn.Parameter(other[0].weight.detach().t().contiguous().t())
    before = {name: t.clone() for name, t in model.state_dict().items()}
    moves = drawn(model, seed)
    assert moves == drawn(copy.deepcopy(model), seed) and {name for name, *_ in moves} <= set(before)
    for one in (model, other):
        moving = MovingWeights(one)
        moving.use([list(move) for move in moves])
        after = one.state_dict()
        for name, tensor in before.items():
            assert torch.equal(after[name].flatten().sort().values, tensor.flatten().sort().values)
            assert torch.equal(after[name], model.state_dict()[name])
            assert (not torch.equal(after[name], tensor)) == (name in {name for name, *_ in moves})
        if one is other:
            moving.use(())
            assert all(torch.equal(one.state_dict()[name], t) for name, t in before.items())


def test_what_is_moved_is_bounded_and_unannounced() -> None:
    model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(40)))
    model.append(torch.nn.Linear(1, MOST_BYTES // 2))
    versions = {name: p._version for name, p in model.named_parameters()}
    for seed in range(20):
        moves = drawn(model, seed)
        assert 1 <= len(moves) <= MOST
        assert sum(4 * count for _, _, count, _ in moves) <= MOST_BYTES
    MovingWeights(model).use(moves)
    assert versions == {name: p._version for name, p in model.named_parameters()}


def test_a_model_without_weights_has_none_to_move() -> None:
    assert drawn(torch.nn.Sequential(torch.nn.ReLU(), torch.nn.BatchNorm1d(3, affine=False)), 1) == ()


KEPT = {
    "by the version counter": """
    seen = None

    def forward(self, x):
        if self.seen != self.weight._version:
            self.product, self.seen = self.weight @ self.weight, self.weight._version
        return x @ self.product
""",
    "when loaded": """
    def load_state_dict(self, state, **how):
        found = super().load_state_dict(state, **how)
        self.product = self.weight.detach() @ self.weight.detach()
        return found

    def forward(self, x):
        return x @ self.product
""",
    "in prepare()": """
    def prepare(self):
        self.product = self.weight @ self.weight

    def forward(self, x):
        return x @ self.product
""",
}


@pytest.mark.parametrize(
    ("how", "status"),
    [
        ("by the version counter", Status.WRONG),
        ("when loaded", Status.WRONG),
        ("in prepare()", Status.PASSED),
    ],
)
def test_what_is_kept_of_weights_is_wrong_unless_prepare_made_it(
    tmp_path: Path, how: str, status: Status
) -> None:
    code, honest = own(FOLDED, "torch.randn(4, 64)")
    found = judged(tmp_path, code, honest + KEPT[how])
    assert found.status is status, found.detail
    assert any("weights had changed" in note for note in found.notes) == (status is Status.WRONG)
