"""One turn of the agent: ask the model, do what it calls for, judge whether there is a next turn."""

from warpsmith.agent.base import Answer, ImageBlock
from warpsmith.agent.conversation import Conversation, Repetition
from warpsmith.agent.failures import no_answer
from warpsmith.agent.prompt import CUT, EMPTY, NO_ANSWER, NO_ANSWER_COMPACT, REPEATED, best_text
from warpsmith.agent.settings import AgentSettings
from warpsmith.agent.text_calls import as_text, read_calls, without_calls
from warpsmith.agent.toolbox import Toolbox
from warpsmith.agent.window import Window
from warpsmith.errors import ContextFullError, ModelReplyError, ModelUnavailableError, RequestRefusedError
from warpsmith.types import StopReason
from warpsmith.types.llm import LLM, Finish, Image, Message, Question, Reply, Role, ToolCall, ToolSpec
from warpsmith.types.protocols import Environment

_NOTE_CHARS = 200
_MAX_CALLS = 32
"""Of one reply; the others are answered, not run."""
_MAX_NUDGES = 2
_TOO_MANY = f"Not run: at most {_MAX_CALLS} calls a turn. Make it again."


class Session:
    """The turns of one episode, of which `turn` takes the next. `note` tells of the last one in a line."""

    def __init__(
        self,
        llm: LLM,
        settings: AgentSettings,
        env: Environment,
        conversation: Conversation,
        toolbox: Toolbox,
    ):
        self.conversation = conversation
        self.note = ""
        self._llm = llm
        self._settings = settings
        self._env = env
        self._toolbox = toolbox
        self._native = llm.native_tools and not settings.text_tools
        self._tools: tuple[ToolSpec, ...] = toolbox.specs if self._native else ()
        limit = min(settings.context_tokens, llm.context_tokens)
        self._answer_tokens = min(settings.max_output_tokens, max(16, limit // 4))
        self._window = Window(limit, self._answer_tokens)
        self._repetition = Repetition()
        self._nudges = self._cuts = 0

    def turn(self) -> StopReason | None:
        """Takes a turn, or what is left of one that was interrupted; why the episode ends, if it does."""
        reply = self.conversation.reply
        results: list[str] = []
        if reply is None:
            try:
                reply = self._ask()
            except (ModelUnavailableError, RequestRefusedError) as error:
                stop, self.note = no_answer(error)
                return stop
            except ModelReplyError as error:
                self.note = f"the answer of the model's service cannot be read: {error}"
                return StopReason.MODEL_UNREADABLE
            if reply is None:
                self.note = "the conversation no longer fits the model's context"
                return StopReason.CONTEXT_LIMIT
            results = [self._run(call, at) for at, call in enumerate(reply.message.calls)]
        calls = reply.message.calls
        self.conversation.calls = len(calls)
        self.conversation.bad_calls = sum(not self._toolbox.fits(call) for call in calls)
        self.note = _note(reply)
        times = self._repetition.seen(calls, reply.message.text, results)
        if times >= self._settings.max_repeats:
            return StopReason.REPEATED
        if calls:
            self._nudges = self._cuts = 0
            if times > 1:
                self._tell(REPEATED)
            return None
        return self._without_calls(reply)

    def _seed(self) -> int | None:
        """The turn's own, so that a resumed episode asks as an undisturbed one would."""
        return None if self._env.seed is None else (self._env.seed + self.conversation.turn) % (1 << 31)

    def _ask(self) -> Reply | None:
        """The model's reply, its calls read from the text where they stand there; None: the context is full."""
        for narrower in (False, True):
            if narrower:
                self._window.narrow()
            messages = self._shown()
            if messages is None:
                return None
            shown = messages if self._native else as_text(messages)
            question = Question(
                messages=shown,
                tools=self._tools,
                max_output_tokens=self._answer_tokens,
                temperature=self._settings.temperature,
                seed=self._seed(),
                keep_tokens=self._settings.keep_tokens,
            )
            try:
                reply = self._llm.complete(question, self._env.hear)
            except RequestRefusedError as error:
                is_full = isinstance(error, ContextFullError)
                if is_full and (narrower or not self._settings.trim):
                    return None
                # a service that counts otherwise may find too long what was thought to fit
                if narrower or (
                    not is_full and self._window.tokens(shown, self._tools) < self._window.room // 2
                ):
                    raise
                continue
            if reply.usage.counted:
                self._window.learn(shown, self._tools, reply.usage.input_tokens)
            if not reply.message.calls:
                reply = reply.model_copy(update={"message": self._with_calls(reply.message)})
            self.conversation.hear(reply)
            return reply
        return None

    def _with_calls(self, said: Message) -> Message:
        """With the calls that stand in its text: servers let those through whose form they do not know."""
        files = self._settings.compact and not self._native
        calls = read_calls(said.text, self.conversation.turn, files=files)
        if not calls:
            return said
        # where tools are native a call is shown again as one, not in the text too
        text = without_calls(said.text) if self._native else said.text
        return said.model_copy(update={"calls": calls, "text": text})

    def _shown(self) -> tuple[Message, ...] | None:
        """What the model is shown of the conversation; None: it no longer fits."""
        whole = tuple(self.conversation.messages)
        if self._settings.trim:
            return self._window.fit(whole, self._tools, self._best())
        return whole if self._window.tokens(whole, self._tools) <= self._window.room else None

    def _best(self) -> str | None:
        found = self._env.best()
        verdict = self._env.verdict(found) if found else None
        submission = self._env.submission(found) if found else None
        if found is None or verdict is None or submission is None:
            return None
        judged = sum(1 for entry in self._env.journal if entry.judged)
        return best_text(judged, verdict, submission.files)

    def _run(self, call: ToolCall, at: int) -> str:
        if at >= _MAX_CALLS:
            answered = Message(role=Role.TOOL, text=_TOO_MANY, is_error=True)
        else:
            answered = _message(self._toolbox.run(call))
        self.conversation.say(answered.model_copy(update={"call_id": call.id}))
        return answered.text

    def _without_calls(self, reply: Reply) -> StopReason | None:
        if reply.finish is Finish.LENGTH:
            self._cuts += 1
            if self._cuts >= self._settings.max_repeats:
                return StopReason.REPEATED
            return self._tell(CUT)
        if self._nudges >= _MAX_NUDGES:
            return StopReason.FINISHED
        self._nudges += 1
        if not reply.message.text.strip():
            return self._tell(EMPTY)
        if not any(entry.judged for entry in self._env.journal):
            return self._tell(NO_ANSWER_COMPACT if self._settings.compact and not self._native else NO_ANSWER)
        return StopReason.FINISHED

    def _tell(self, text: str) -> None:
        self.conversation.say(Message(role=Role.USER, text=text))


def _message(answer: Answer) -> Message:
    images = tuple(
        Image(media_type=block.source.media_type, data=block.source.data)
        for block in answer.content
        if isinstance(block, ImageBlock)
    )
    return Message(role=Role.TOOL, text=answer.text, images=images, is_error=answer.is_error)


def _note(reply: Reply) -> str:
    """What the model said and called for, in a line."""
    names = ", ".join(call.name or "?" for call in reply.message.calls[:_MAX_CALLS])
    said = " ".join(reply.message.text.split())
    parts = [said[:_NOTE_CHARS] + ("…" if len(said) > _NOTE_CHARS else ""), f"[{names}]" if names else ""]
    return " ".join(part for part in parts if part) or "nothing"
