"""The policy without a loop: a language model answers once, and the files of its reply are judged."""

import ast
from collections.abc import Generator

from pydantic import ValidationError

from warpsmith.agent.failures import no_answer
from warpsmith.agent.prompt import single_turn_system, single_turn_task
from warpsmith.agent.replay import as_it_was
from warpsmith.agent.settings import AgentSettings
from warpsmith.agent.text_files import MODEL_FILE, read_files
from warpsmith.errors import ContextFullError, ModelReplyError, ModelUnavailableError, RequestRefusedError
from warpsmith.types import StopReason, Submission, Verdict
from warpsmith.types.llm import LLM, Finish, Message, Question, Reply, Role
from warpsmith.types.protocols import Environment, PolicyStep


class SingleTurnPolicy:
    """Asks `llm` once for whole files. It calls no tool and hears no verdict, so it needs no workspace."""

    def __init__(self, llm: LLM, settings: AgentSettings | None = None):
        self.name = f"single_turn:{llm.name}"
        self._llm = llm
        self._settings = settings or AgentSettings(loop=False)
        self.settings = self._settings.model_dump(mode="json")

    def solve(self, env: Environment) -> Generator[PolicyStep, Verdict | None, StopReason | None]:
        """One step. A reply that an interrupted process had kept is not asked for again.

        Behind turns without a reply, in which the model's service had given none, it is the next.
        """
        yield from (as_it_was(env, turn) for turn in env.past_turns if turn.usage is None)
        reply = next((entry.reply for entry in env.journal if entry.reply is not None), None)
        if reply is None:
            try:
                reply = self._ask(env)
            except ModelReplyError as error:
                yield PolicyStep(note=f"the answer of the model's service cannot be read: {error}")
                return StopReason.MODEL_UNREADABLE
            except ContextFullError as error:
                yield PolicyStep(note=f"the question does not fit the model's context: {error}")
                return StopReason.CONTEXT_LIMIT
            except (ModelUnavailableError, RequestRefusedError) as error:
                stop, note = no_answer(error)
                yield PolicyStep(note=note)
                return stop
        submission, note = _submission(reply)
        yield PolicyStep(note=note, submission=submission, answer=submission, usage=reply.usage)
        return StopReason.FINISHED

    def _ask(self, env: Environment) -> Reply:
        messages = [message for entry in env.journal if (message := entry.message) is not None]
        if not messages:
            messages = [
                Message(role=Role.SYSTEM, text=single_turn_system(env.rules)),
                Message(role=Role.USER, text=single_turn_task(env.task)),
            ]
            for message in messages:
                env.keep(0, message)
        limit = min(self._settings.context_tokens, self._llm.context_tokens)
        question = Question(
            messages=tuple(messages),
            max_output_tokens=min(self._settings.max_output_tokens, max(16, limit // 2)),
            temperature=self._settings.temperature,
            seed=env.seed,
            keep_tokens=self._settings.keep_tokens,
        )
        reply = self._llm.complete(question, env.hear)
        env.keep(0, reply)
        return reply


def _is_python(text: str) -> bool:
    """Whether the whole text is a program: an answer of the file alone."""
    try:
        return bool(ast.parse(text).body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _submission(reply: Reply) -> tuple[Submission | None, str]:
    """The files of the reply, and a line on them; None where they are no submission."""
    text = reply.message.text
    files = read_files(text) or ({MODEL_FILE: text} if _is_python(text) else {})
    cut = " (cut at its maximum length)" if reply.finish is Finish.LENGTH else ""
    try:
        return Submission(files=files), f"gave {', '.join(sorted(files))}{cut}"
    except ValidationError as error:
        return None, f"handed in nothing: {error.errors()[0]['msg']}{cut}"
