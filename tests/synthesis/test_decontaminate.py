import random

from tests.synthesis.planted import COPIES, NEAR_MISSES, TASK

from warpsmith.synthesis.decontaminate import Known, Likeness, contaminated, counts, duplicates
from warpsmith.synthesis.labels import not_run, spelling
from warpsmith.synthesis.structure import FingerprintKind, Structure, structures, syntax_structure


def _known(tasks: dict[str, str]) -> list[Known]:
    found = structures(list(tasks.values()), workers=2)
    return [Known(n, c, s) for (n, c), s in zip(tasks.items(), found, strict=True)]


def test_planted_copies_are_found_and_near_misses_stay() -> None:
    tasks = _known({"task": TASK, "same": TASK, **COPIES, **NEAR_MISSES})
    benchmark = tasks[:1]

    matches = contaminated(tasks[1:], benchmark)
    by_structure = [m for m in matches if m.likeness is not Likeness.NEAR_TEXT]
    assert [m.name for m in by_structure] == ["same", *COPIES]
    assert by_structure[0].likeness is Likeness.SAME_TEXT
    assert all(m.like == "task" for m in matches)

    assert counts(duplicates(tasks)) == {"same_text": 1, "same_structure": len(COPIES), "near_text": 0}
    assert {m.name for m in duplicates(tasks)}.isdisjoint(NEAR_MISSES)


def test_which_task_stays_does_not_depend_on_the_order() -> None:
    tasks = [Known(n, c, Structure(kind="graph", fingerprint="graph-1")) for n, c in COPIES.items()]
    dropped = {m.name for m in duplicates(tasks)}
    for seed in range(5):
        mixed = random.Random(seed).sample(tasks, len(tasks))
        assert {m.name for m in duplicates(mixed)} == dropped
    assert len(dropped) == len(tasks) - 1


def test_near_texts_count_where_a_task_was_not_traced() -> None:
    near = NEAR_MISSES["another operator"]
    untraced = [Known(str(n), code, syntax_structure(code)) for n, code in enumerate((TASK, near))]
    (match,) = duplicates(untraced)
    assert match.likeness is Likeness.NEAR_TEXT and 0.9 < match.similarity < 1
    traced = [Known(k.name, k.code, Structure(kind="graph", fingerprint=f"graph-{k.name}")) for k in untraced]
    assert duplicates(traced) == []
    assert [m.likeness for m in contaminated(traced[1:], traced[:1])] == [Likeness.NEAR_TEXT]


def test_labels_are_compared_in_one_spelling() -> None:
    assert spelling("torch.nn.GELU") == spelling("F.gelu") == spelling("torch.nn.functional.gelu") == "gelu"
    assert spelling("@") == spelling("torch.bmm") == spelling("torch.Tensor.matmul") == spelling("__matmul__")
    assert spelling("torch.nn.BatchNorm2d") == spelling("F.batch_norm")
    assert spelling("torch.nn.MSELoss") == spelling("F.mse_loss")
    assert spelling("torch.nn.Conv1d") != spelling("torch.nn.Conv2d")
    assert spelling("torch.add") == spelling("+") == spelling("torch.Tensor.__iadd__") == spelling("x.add_")


def test_mislabelled_rows_are_found_by_trace_and_by_text() -> None:
    right = ["torch.nn.Linear", "torch.sigmoid", "nn.LayerNorm", "F.leaky_relu", "torch.sum", "torch.mul"]
    for code in COPIES.values():  # one of them writes the linear layer out
        assert not_run(right, code) == ()
    functional, wrapped = structures([COPIES["functional"], COPIES["wrapped"]])
    assert not_run([*right[1:], "torch.matmul"], COPIES["functional"], functional) == ()
    assert not_run(right, COPIES["wrapped"], wrapped) == ()
    (structure,) = structures([TASK])
    assert structure.kind is FingerprintKind.GRAPH
    for known in (structure, None):
        assert not_run([*right, "torch.nn.Conv2d", "torch.tanh"], TASK, known) == (
            "torch.nn.Conv2d",
            "torch.tanh",
        )


def test_a_product_alone_is_no_linear_layer() -> None:
    code = "class Model:\n    def forward(self, x, w, b):\n        return {}\n"
    assert not_run(["torch.nn.Linear"], code.format("x @ w.T")) == ("torch.nn.Linear",)
    assert not_run(["torch.nn.Linear"], code.format("x @ w.T + b")) == ()


def test_a_function_of_several_names_is_known_by_each() -> None:
    code = TASK.replace(
        "a = self.first(x)", "a = torch.mm(x, self.first.weight.T)"
    )  # calls itself torch.spmm
    (structure,) = structures([code])
    assert structure.kind is FingerprintKind.GRAPH and not_run(["torch.mm"], code, structure) == ()


def test_what_is_made_and_never_called_does_not_run() -> None:
    code = TASK.replace("super().__init__()", "super().__init__()\n        self.act = nn.GELU()  # tanh")
    (structure,) = structures([code])
    for known in (structure, None):
        assert not_run(["torch.nn.GELU", "torch.tanh"], code, known) == ("torch.nn.GELU", "torch.tanh")
