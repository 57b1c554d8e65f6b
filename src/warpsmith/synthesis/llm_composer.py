"""The composer that asks a language model; what it writes meets the same gates as everything else.

Nothing that it writes is executed here: its text is read, and the filter's processes run it.
"""

import random
import re
from importlib.resources import files

from warpsmith.errors import ModelReplyError, TaskUnreadableError
from warpsmith.gpu.devices import bandwidth_gb_s
from warpsmith.synthesis.labels import not_run
from warpsmith.synthesis.mixes import GIB, Mix
from warpsmith.synthesis.records import Catalogue, ComposedTask, Operator, OperatorKind, Origin, Provenance
from warpsmith.synthesis.sizing import CouldNotComposeError
from warpsmith.tasks.user_file import check_source
from warpsmith.types import sha256_hex
from warpsmith.types.llm import LLM, Message, Question, Role

_FENCED = re.compile(r"```(?:python|py)?\s*\n(.*?)```", re.DOTALL)
MAX_OUTPUT_TOKENS = 4096


class LLMComposer:
    """Task `index` asks for operators drawn from the catalogue, always the same; the answer is the model's."""

    def __init__(self, llm: LLM, catalogue: Catalogue, mix: Mix, seed: int, *, temperature: float = 0.8):
        self.mix, self.seed = mix, seed
        self._llm, self._catalogue, self._temperature = llm, catalogue, temperature
        by_name: dict[str, Operator] = {}
        for op in catalogue.operators:
            if op.kind is not OperatorKind.BLOCK and not op.ends and op.first is None:
                by_name.setdefault(op.name, op)
        self._operators = list(by_name.values())

    def compose(self, index: int) -> ComposedTask:
        """Raises CouldNotComposeError where the answer is no task of these operators, or there is none."""
        rng = random.Random(f"{self.mix.name}/{self.seed}/llm/{index}")
        counts = list(self.mix.operators)
        count = rng.choices(counts, [self.mix.operators[n] for n in counts])[0]
        chosen = rng.sample(self._operators, count)
        names = tuple(op.name for op in chosen)
        question = Question(
            messages=(Message(role=Role.USER, text=prompt(names, self.mix)),),
            max_output_tokens=MAX_OUTPUT_TOKENS,
            temperature=self._temperature,
        )
        try:
            reply = self._llm.complete(question)
        except ModelReplyError as error:
            raise CouldNotComposeError(f"the answer cannot be read: {error}") from error
        code = code_in(reply.message.text)
        try:
            check_source(code, "the answer")
        except TaskUnreadableError as error:
            raise CouldNotComposeError(str(error)) from error
        if missing := not_run(names, code):
            raise CouldNotComposeError(f"its code does not run {', '.join(missing)}")
        libraries = tuple(
            f"{name} {version}" for name, version in self._catalogue.libraries.items() if name == "torch"
        )
        return ComposedTask(
            name=f"{self.mix.name}_{self.seed}_llm_{index:06d}", ops=names, data_source=f"torch#{count}", code=code,
            provenance=Provenance(
                origin=Origin.LLM, libraries=libraries, licences=("Apache-2.0",), mix=self.mix.name, seed=self.seed,
                model=reply.model,
            ),
            index=index, key=sha256_hex(code)[:32],
        )  # fmt: skip


def prompt(names: tuple[str, ...], mix: Mix) -> str:
    """What the model is asked."""
    template = files("warpsmith.synthesis.prompts").joinpath("compose.md").read_text("utf-8")
    low, high = mix.drawn_ms
    rate = bandwidth_gb_s(mix.gpu) or 1000.0
    return template.format(
        operators="\n".join(f"{number}. `{name}`" for number, name in enumerate(names, 1)),
        low_ms=low, high_ms=high, gpu=mix.gpu, low_gb=low * rate / 1e3, high_gb=high * rate / 1e3,
        memory_gib=mix.peak_bytes / GIB,
    )  # fmt: skip


def code_in(text: str) -> str:
    """The longest fenced block of an answer. Raises CouldNotComposeError where there is none."""
    blocks = _FENCED.findall(text)
    if not blocks:
        raise CouldNotComposeError("the answer has no fenced Python block")
    return max(blocks, key=len).strip() + "\n"
