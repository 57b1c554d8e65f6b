import torch
from torch import nn

from warpsmith.judge.reference import weights


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(4, 4))
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("mask", torch.ones(4, 4).tril())


def two() -> tuple[Model, weights.State, weights.State]:
    torch.manual_seed(1)
    model, other = Model(), Model()
    return model, weights.copied(model.state_dict()), weights.copied(other.state_dict())


def test_what_no_seed_changes_is_varied_and_the_rest_is_not():
    model, first, second = two()
    varied = weights.varied(first, second, model, 7)
    assert varied.keys() == second.keys()
    for name in ("w", "mask", "norm.num_batches_tracked"):
        assert torch.equal(varied[name], second[name])
    for name in ("norm.weight", "norm.running_var"):
        assert ((varied[name] >= 0.75) & (varied[name] <= 1.25)).all() and varied[name].unique().numel() == 4
    for name in ("norm.bias", "norm.running_mean"):
        assert (varied[name].abs() <= 0.05).all() and (varied[name] != 0).all()
    assert torch.equal(second["norm.weight"], torch.ones(4))


def test_a_state_of_its_own():
    model, first, _ = two()
    model.w.data.zero_()
    assert first["w"].abs().sum() > 0


def test_tensors_that_no_state_dict_carries():
    model = Model()
    assert not weights.unsaved(model)
    model.norm.hidden = torch.randn(3)
    assert weights.unsaved(model)
    model = Model()
    model.register_buffer("table", torch.randn(3), persistent=False)
    assert weights.unsaved(model)
    tied = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    tied[1].weight = tied[0].weight
    assert not weights.unsaved(tied)


def test_outputs_that_are_the_models_own_memory():
    model = Model()
    model.plain = torch.ones(5)
    x = torch.randn(4)
    out = {
        "x": x,
        "w": model.w[1:],
        "sum": model.w + 1,
        "rest": [model.norm.running_mean, model.plain],
        "n": 3,
    }
    assert weights.returned(out, model) == frozenset({1, 3, 4})
    assert weights.returned((x, torch.empty(0)), model) == frozenset()
