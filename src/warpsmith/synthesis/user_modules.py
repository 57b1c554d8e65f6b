"""A user's own modules as operators: a folder of Python files joins the pipeline like a model library.

Each file defines `torch.nn.Module` classes and `EXAMPLES`, a list of one entry a case:

    EXAMPLES = [
        {"module": "GatedMLP", "init": {"hidden_dim": 1024}, "inputs": {"x": "torch.randn(batch_size, 128, 1024)"},
         "sizes": {"batch_size": 32}},
    ]

`init` are keyword arguments of numbers and strings, `inputs` expressions over `sizes`. A file that is a task already
(`Model`, `get_inputs`, `get_init_inputs`) is taken as it is.
"""

import ast
import random
import re
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from warpsmith.errors import TaskUnreadableError, UsageError
from warpsmith.synthesis.blocks import render_block
from warpsmith.synthesis.records import (
    ComposedTask,
    Family,
    InputTemplate,
    Operator,
    OperatorKind,
    Origin,
    Parameter,
    Provenance,
)
from warpsmith.tasks.user_file import check_source, read_source
from warpsmith.types import Record, sha256_hex

LIBRARY = "user"
EXAMPLES = "EXAMPLES"
_FORM = f"define {EXAMPLES}, a list of module, init, inputs and sizes; see docs/synthesis.md"


class Example(Record):
    """One case of a module."""

    module: str
    init: dict[str, int | float | bool | str | None] = Field(default_factory=dict)
    inputs: dict[str, str] = Field(min_length=1)
    sizes: dict[str, int] = Field(default_factory=dict)


def read_folder(
    folder: Path, *, licence: str = "LicenseRef-Proprietary"
) -> tuple[list[Operator], list[ComposedTask]]:
    """Operators of the folder's examples, and its files that are tasks already. Nothing of them is executed.

    Raises UsageError for a folder without Python files, TaskUnreadableError for a file of neither form.
    """
    files = sorted(path for path in folder.glob("*.py") if not path.name.startswith("_"))
    if not files:
        raise UsageError(f"{folder} holds no Python files", hint=f"put modules there that {_FORM}")
    operators: list[Operator] = []
    tasks: list[ComposedTask] = []
    for path in files:
        code = read_source(path)
        try:
            tree = ast.parse(code)
        except SyntaxError as error:
            raise TaskUnreadableError(
                f"{path}, line {error.lineno}: not valid Python", hint="correct it"
            ) from error
        found = _examples(tree, path)
        if found is None:
            check_source(code, str(path))
            tasks.append(_task(path.stem, code, licence))
        else:
            operators += _operators(tree, code, found, path, licence)
    return operators, tasks


def _examples(tree: ast.Module, path: Path) -> list[Example] | None:
    for node in tree.body:
        if isinstance(node, ast.Assign) and [t.id for t in node.targets if isinstance(t, ast.Name)] == [
            EXAMPLES
        ]:
            try:
                return [Example.model_validate(each) for each in ast.literal_eval(node.value)]
            except (ValidationError, ValueError, TypeError) as error:
                first = str(error).splitlines()[0]
                raise TaskUnreadableError(
                    f"{path}: {EXAMPLES} cannot be read: {first}", hint=_FORM
                ) from error
    return None


def _operators(
    tree: ast.Module, code: str, examples: list[Example], path: Path, licence: str
) -> list[Operator]:
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    source = "\n".join(
        ast.get_source_segment(code, node) or ""
        for node in tree.body
        if not (isinstance(node, ast.Assign) and EXAMPLES in {getattr(t, "id", None) for t in node.targets})
    )
    operators = []
    for number, example in enumerate(examples):
        if example.module not in classes:
            raise TaskUnreadableError(f"{path}: there is no class {example.module}", hint=_FORM)
        arguments = ", ".join(f"{name}={value!r}" for name, value in example.init.items())
        operators.append(Operator(
            name=f"{LIBRARY}.{path.stem}.{example.module}", kind=OperatorKind.BLOCK, variant=str(number),
            family=Family.OTHER, library=LIBRARY, version=sha256_hex(code)[:12], licence=licence,
            parameters=tuple(
                Parameter(name=name, choices=(str(value),), size=True) for name, value in example.sizes.items()
            ),
            inputs=tuple(
                InputTemplate(name=name, shape=(), draw=_placed(draw, example.sizes))
                for name, draw in example.inputs.items()
            ),
            constructor=f"{example.module}({arguments})", code="{self}(" + ", ".join(example.inputs) + ")",
            source=source, entry=example.module, origin=f"{path.name}: {example.module}",
        ))  # fmt: skip
    return operators


def _placed(draw: str, sizes: dict[str, int]) -> str:
    """The expression with its sizes in braces, as templates have them."""
    for name in sizes:
        draw = re.sub(rf"\b{re.escape(name)}\b", "{" + name + "}", draw)
    return draw


def _task(name: str, code: str, licence: str) -> ComposedTask:
    return ComposedTask(
        name=f"{LIBRARY}_{name}", ops=(f"{LIBRARY}.{name}",), data_source=LIBRARY, code=code,
        provenance=Provenance(origin=Origin.USER, libraries=(LIBRARY,), licences=(licence,), mix=LIBRARY),
        key=sha256_hex(code)[:32],
    )  # fmt: skip


def as_it_is(op: Operator) -> ComposedTask:
    """The task of a user's operator at the sizes that its example states."""
    parameters: dict[str, Any] = {p.name: int(p.choices[0]) for p in op.parameters}
    return ComposedTask(
        name=f"{op.name.replace('.', '_')}_{op.variant}", ops=(op.name,), data_source=LIBRARY,
        code=render_block(op, parameters),
        provenance=Provenance(
            origin=Origin.USER, libraries=(f"{LIBRARY} {op.version}",), licences=(op.licence,), mix=LIBRARY
        ),
        key=sha256_hex(op.content_hash)[:32],
    )  # fmt: skip


def mixed_in(
    own: list[ComposedTask], others: list[ComposedTask], share: float, seed: int
) -> list[ComposedTask]:
    """So many others, drawn by the seed, that they are `share` of the whole; all where there are fewer."""
    wanted = min(len(others), round(len(own) * share / (1 - share)))
    places = sorted(random.Random(seed).sample(range(len(others)), wanted))
    return [others[place] for place in places]
