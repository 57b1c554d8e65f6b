"""Tasks of stand-alone operators: the class's own text, a `Model` that calls it, sizes for the wanted time."""

import math
import random
import re
from collections.abc import Sequence

from warpsmith.errors import TaskRefusedError
from warpsmith.synthesis.arithmetic import evaluate, substituted
from warpsmith.synthesis.cost import CostModel, look
from warpsmith.synthesis.mixes import Mix
from warpsmith.synthesis.probing import drawn_parameters
from warpsmith.synthesis.records import (
    ComposedTask,
    CostEstimate,
    InputTemplate,
    Operator,
    OperatorKind,
    Origin,
    Provenance,
)
from warpsmith.synthesis.sizing import CouldNotComposeError, nice
from warpsmith.types import sha256_hex

_ATTEMPTS = 12
_PLACEHOLDER = re.compile(r"{(\w+)}")


class BlockComposer:
    """Task `index` is of the `index`-th block, each block once."""

    def __init__(self, blocks: Sequence[Operator], mix: Mix, seed: int):
        self.mix, self.seed = mix, seed
        self._blocks = [op for op in blocks if op.kind is OperatorKind.BLOCK]
        random.Random(f"{seed}/blocks").shuffle(self._blocks)
        self._cost = CostModel.of(mix.gpu)

    def __len__(self) -> int:
        return len(self._blocks)

    def compose(self, index: int) -> ComposedTask:
        """Raises CouldNotComposeError where no sizes give a time that is wanted."""
        op = self._blocks[index]
        rng = random.Random(f"{self.mix.name}/{self.seed}/block/{op.name}")
        problem = "its requirements hold for no parameters"
        for _ in range(_ATTEMPTS):
            places = [rng.randrange(len(p.choices)) for p in op.parameters]
            parameters = drawn_parameters(op.parameters, op.requires, {}, places)
            if parameters is None:
                continue
            try:
                found = self._sized(rng, op, parameters)
            except TaskRefusedError as error:
                problem = str(error)
                continue
            if found:
                return self._task(op, index, *found)
            problem = "no size of it takes the wanted time"
        raise CouldNotComposeError(f"{op.name}: {problem}")

    def _sized(
        self, rng: random.Random, op: Operator, parameters: dict[str, object]
    ) -> tuple[str, CostEstimate, tuple[str, ...]] | None:
        low, high = self.mix.drawn_ms
        wanted = math.exp(rng.uniform(math.log(low), math.log(high)))
        scaled = _scaled_name(op)
        for _ in range(4):
            code = render_block(op, parameters)
            seen = look(code)
            cost = self._cost.estimate(seen)
            if low <= cost.eager_ms <= high and seen.trace.calls:
                return (code, cost, seen.trace.names) if self.mix.holds(cost, seen.input_bytes) else None
            size = parameters.get(scaled) if scaled else None
            if not isinstance(size, int) or not seen.trace.calls:
                return None
            parameters = {**parameters, scaled: nice(size * wanted / cost.eager_ms)}
            if parameters[scaled] == size or not all(evaluate(c, parameters) for c in op.requires):
                return None
        return None

    def _task(
        self, op: Operator, index: int, code: str, cost: CostEstimate, trace: tuple[str, ...]
    ) -> ComposedTask:
        return ComposedTask(
            name=f"{self.mix.name}_{self.seed}_block_{index:06d}", ops=(op.name,), data_source=op.library, code=code,
            provenance=Provenance(
                origin=Origin.USER if op.library == "user" else Origin.BLOCK,
                libraries=(f"{op.library} {op.version}".strip(),), licences=(op.licence,),
                mix=self.mix.name, seed=self.seed,
            ),
            cost=cost, index=index, key=sha256_hex(repr((op.name, trace)))[:32], trace=trace,
        )  # fmt: skip


def render_block(op: Operator, parameters: dict[str, object]) -> str:
    """The text of a task: the block's source, a `Model` around it, its sizes and inputs."""
    sizes = {p.name: parameters[p.name] for p in op.parameters if p.size}
    texts = {name: name if name in sizes else str(value) for name, value in parameters.items()}
    assert op.constructor is not None and op.source is not None
    constructed = _filled(op.constructor, texts)
    arguments = [name for name in sizes if re.search(rf"\b{name}\b", constructed)]
    names = [template.name for template in op.inputs]
    call = _filled(
        op.code, {**texts, **{n: n for n in names}, "self": "self.block", "x": names[0] if names else "x"}
    )
    missing = [
        line for line in ("import torch", "import torch.nn as nn") if line not in op.source.splitlines()
    ]
    lines = [
        *missing,
        op.source.strip(),
        "",
        "",
        "class Model(nn.Module):",
        f'    """{op.entry}, as it is."""',
        "",
    ]
    lines += [f"    def __init__({', '.join(['self', *arguments])}):", "        super().__init__()"]
    lines += [f"        self.block = {constructed}", ""]
    lines += [f"    def forward({', '.join(['self', *names])}):", f"        return {call}", "", ""]
    lines += [f"{name} = {value}" for name, value in sizes.items()]
    lines += ["", "", "def get_inputs():"]
    lines += [f"    {t.name} = {_drawn(t, texts)}" for t in op.inputs]
    lines += [f"    return [{', '.join(names)}]", "", "", "def get_init_inputs():"]
    return "\n".join([*lines, f"    return [{', '.join(arguments)}]"]) + "\n"


def _drawn(template: InputTemplate, texts: dict[str, str]) -> str:
    shape = ", ".join(substituted(expression, texts) for expression in template.shape)
    return _filled(template.draw, {**texts, "shape": shape})


def _scaled_name(op: Operator) -> str | None:
    """The size that the inputs state and the constructor does not: the batch, where there is one."""
    sizes = [p.name for p in op.parameters if p.size]
    constructed = set(_PLACEHOLDER.findall(op.constructor or ""))
    outer = [name for name in sizes if name not in constructed]
    return next((name for name in outer if "batch" in name), outer[0] if outer else None)


def _filled(template: str, texts: dict[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda match: texts.get(match[1], match[0]), template)
