"""How alike two tasks' texts are, and which texts of a set are near each other.

A text is its bag of pq-grams (Augsten, Böhlen, Gamper, "Approximate matching of hierarchical data using pq-grams",
VLDB 2005) with p = 2 and q = 2: of every node of the normalised syntax tree its parent, itself and each pair of
neighbouring children. Similarity is Dice's coefficient of the bags, `2 |A ∩ B| / (|A| + |B|)`: symmetric, in [0, 1],
and 1 for texts that are equal once normalised. Normalised means

- only classes and functions count, `get_inputs` and `get_init_inputs` not among them: imports, module-level sizes,
  comments, docstrings, annotations, decorators and `super().__init__()` are what every task has;
- names that the text chooses (variables, attributes of `self`, classes, functions) are all one word, and names that
  an import brings are written in full: `F.relu` and `torch.nn.functional.relu` are the same;
- integers are one word, since they are sizes; other constants stay.
"""

import ast
import builtins
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

NEAR = 0.9
"""Texts that are more alike than this are the same task written again."""

_OWN = "·"
_NONE = "*"
_TASK_FUNCTIONS = ("get_inputs", "get_init_inputs")

Bag = Counter[tuple[str, str, str, str]]


def similarity(first: str, second: str) -> float:
    """How alike two task sources are, from 0 to 1. Raises SyntaxError for text that is no Python."""
    return dice(bag(first), bag(second))


def dice(first: Bag, second: Bag) -> float:
    """`2 |A ∩ B| / (|A| + |B|)`; two empty bags are equal."""
    total = first.total() + second.total()
    return 2 * (first & second).total() / total if total else 1.0


def bag(code: str) -> Bag:
    """The pq-grams of a task's text. Raises SyntaxError for text that is no Python."""
    module = ast.parse(code)
    names = imported_names(module)
    found: Bag = Counter()
    for node in module.body:
        is_part = isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if is_part and node.name not in _TASK_FUNCTIONS:
            _grams(_tree(node, names), _NONE, found)
    return found


class Near(NamedTuple):
    """Two texts, by their places, and how alike they are."""

    first: int
    second: int
    similarity: float


def near_pairs(
    first: Sequence[Bag], second: Sequence[Bag] | None = None, *, above: float = NEAR
) -> Iterator[Near]:
    """Every pair of `first` and `second` that is more alike than `above`; without `second`, pairs within `first`.

    Exact: bags are compared only where they share one of their rarest elements, which bags that are so alike must
    (prefix filtering: Bayardo, Ma, Srikant, "Scaling up all pairs similarity search", WWW 2007).
    """
    others = first if second is None else second
    within = second is None
    rarity: Counter[tuple] = Counter()
    for each in (*first, *(() if within else others)):
        rarity.update(_elements(each))
    index: dict[tuple, list[int]] = defaultdict(list)
    if not within:
        for place, other in enumerate(others):
            for element in _prefix(other, rarity, above):
                index[element].append(place)
    for place, each in enumerate(first):
        size = each.total()
        prefix = _prefix(each, rarity, above)
        for other in sorted({other for element in prefix for other in index.get(element, ())}):
            smaller, larger = sorted((size, others[other].total()))
            if 2 * smaller > above * (smaller + larger):
                alike = dice(each, others[other])
                if alike > above:
                    yield Near(other, place, alike) if within else Near(place, other, alike)
        if within:
            for element in prefix:
                index[element].append(place)


def _elements(each: Bag) -> Iterator[tuple]:
    """A bag as a set: the second of two equal grams is another element."""
    return ((*gram, number) for gram, count in each.items() for number in range(count))


def _prefix(each: Bag, rarity: Counter[tuple], above: float) -> list[tuple]:
    """The rarest elements, as many as a bag alike enough cannot all lack."""
    size = each.total()
    needed = math.ceil(above * size / (2 - above))
    return sorted(_elements(each), key=lambda element: (rarity[element], element))[: size - needed + 1]


# --- the normalised tree: (label, children)

_Tree = tuple[str, list["_Tree"]]


def imported_names(module: ast.Module) -> dict[str, str]:
    """Full names of what imports bring: `F` → `torch.nn.functional`."""
    names: dict[str, str] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname:
                    names[alias.asname] = alias.name
                else:
                    names[alias.name.split(".")[0]] = alias.name.split(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def full_name(node: ast.expr, names: dict[str, str]) -> str | None:
    """`F.relu` → `torch.nn.functional.relu` where `F` is imported; None for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in names:
        return None
    return ".".join([names[node.id], *reversed(parts)])


def _tree(node: ast.AST, names: dict[str, str]) -> _Tree:
    """A node with its label and the children that count."""
    kind = type(node).__name__
    match node:
        case ast.Name(id=name):
            known = names.get(name) or (name if hasattr(builtins, name) else None)
            return (known or _OWN, [])
        case ast.Attribute(value=value, attr=attribute):
            if name := full_name(node, names):
                return (name, [])
            if isinstance(value, ast.Name) and value.id == "self":
                return (f"self.{_OWN}", [])
            return (f".{attribute}", [_tree(value, names)])
        case ast.Constant(value=value):
            return ("int" if type(value) is int else repr(value), [])
        case ast.ClassDef(bases=bases, body=body):
            return (kind, [_tree(part, names) for part in [*bases, *_statements(body)]])
        case ast.FunctionDef(args=arguments, body=body) | ast.AsyncFunctionDef(args=arguments, body=body):
            return (kind, [_tree(arguments, names), *(_tree(part, names) for part in _statements(body))])
        case ast.AnnAssign(target=target, value=value):
            return ("Assign", [_tree(part, names) for part in (target, value) if part is not None])
        case ast.arg():
            return (_OWN, [])
        case ast.keyword(arg=name, value=value):
            return (f"{name}=", [_tree(value, names)])
    children = [_tree(child, names) for child in ast.iter_child_nodes(node) if not _is_context(child)]
    return (kind, children)


def _is_context(node: ast.AST) -> bool:
    return isinstance(node, ast.expr_context)


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that count: no docstrings, `pass`, imports or `super().__init__()`."""
    for statement in body:
        match statement:
            case ast.Pass() | ast.Import() | ast.ImportFrom():
                continue
            case ast.Expr(value=ast.Constant()):
                continue
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name(id="super"))))):
                continue
        yield statement


def _grams(tree: _Tree, parent: str, found: Bag) -> None:
    label, children = tree
    left = _NONE
    for child in children:
        found[(parent, label, left, child[0])] += 1
        left = child[0]
    found[(parent, label, left, _NONE)] += 1
    for child in children:
        _grams(child, label, found)
