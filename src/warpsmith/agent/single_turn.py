"""The policy that a language model plays without tools: one question, one answer with all files in it.

What training warms up on, and the ablation without an agent loop.
"""

import re
from collections.abc import Generator

from pydantic import ValidationError

from warpsmith.agent.prompt import task_listing
from warpsmith.agent.settings import AgentSettings
from warpsmith.errors import ContextFullError, ModelReplyError, ModelUnavailableError
from warpsmith.types import StopReason, Submission, Verdict
from warpsmith.types.llm import LLM, Message, Question, Reply, Role
from warpsmith.types.protocols import Environment, PolicyStep

_SYSTEM = """\
You write fast CUDA kernels for a PyTorch model. Answer with the whole of every file, each in a fenced block that
names it behind the language:

```python model_new.py
...
```

```cpp kernels/name.cu
...
```

model_new.py defines ModelNew: the same results with the same constructor, parameters and inputs as Model, computed by
kernels of your own. It calls cuda_extension.NAME(...), which is bound for you to a launcher in a .cu file:
extern "C" void NAME_launcher(T* ..., scalars ..., cudaStream_t). Outputs are allocated in Python with torch.empty."""
_MODEL_FILE = "model_new.py"
_BLOCK = re.compile(
    r"^```(?P<language>\w*)[ \t]*(?P<path>\S*)[ \t]*\n(?P<text>.*?)^```", re.DOTALL | re.MULTILINE
)


class SingleTurnPolicy:
    """Asks `llm` once. An interrupted episode takes the answer that the journal holds."""

    def __init__(self, llm: LLM, settings: AgentSettings | None = None):
        self.name = f"single_turn:{llm.name}"
        self._llm = llm
        self._settings = settings or AgentSettings(loop=False)
        self.settings = self._settings.model_dump(mode="json")

    def solve(self, env: Environment) -> Generator[PolicyStep, Verdict | None, StopReason | None]:
        """One step, whose submission is the answer's files."""
        reply = next((entry.reply for entry in env.journal if entry.reply is not None), None)
        if reply is None:
            asked = (
                Message(role=Role.SYSTEM, text=_SYSTEM),
                Message(role=Role.USER, text=task_listing(env.task)),
            )
            for message in asked[len(env.journal) :]:
                env.keep(0, message)
            try:
                reply = self._ask(asked, env)
            except (ModelUnavailableError, ModelReplyError, ContextFullError) as error:
                yield PolicyStep(note=f"no answer came from the model: {error}")
                return _STOPS[type(error)]
            env.keep(0, reply)
        files = read_files(reply.message.text)
        submission = _submission(files)
        note = f"answered with {', '.join(files) or 'no file'}"
        yield PolicyStep(note=note, submission=submission, answer=submission, usage=reply.usage)
        return None

    def _ask(self, messages: tuple[Message, ...], env: Environment) -> Reply:
        limit = min(self._settings.context_tokens, self._llm.context_tokens)
        question = Question(
            messages=messages,
            max_output_tokens=min(self._settings.max_output_tokens, max(16, limit // 2)),
            temperature=self._settings.temperature,
            seed=env.seed,
            keep_tokens=self._settings.keep_tokens,
        )
        return self._llm.complete(question, env.hear)


_STOPS = {
    ModelUnavailableError: StopReason.MODEL_UNAVAILABLE,
    ModelReplyError: StopReason.MODEL_UNREADABLE,
    ContextFullError: StopReason.CONTEXT_LIMIT,
}


def read_files(text: str) -> dict[str, str]:
    """The files of an answer by path. Python without a path is `model_new.py`, as is a text without blocks."""
    blocks = list(_BLOCK.finditer(text))
    if not blocks:
        return {_MODEL_FILE: text} if text.strip() and "```" not in text else {}
    files = {}
    for block in blocks:
        named = block["path"] or (_MODEL_FILE if block["language"] in ("python", "py") else "")
        if named:
            files[named] = block["text"]
    return files


def _submission(files: dict[str, str]) -> Submission | None:
    try:
        return Submission(files=files)
    except ValidationError:
        return None
