"""Journals and episodes made by hand."""

from collections.abc import Sequence

from warpsmith.types import Device, Episode, Rules, StopReason, Turn
from warpsmith.types.llm import Entry, Finish, Message, Reply, Role, Tokens, ToolCall, Usage


def told(text: str, role: Role = Role.USER, call_id: str | None = None) -> Entry:
    return Entry(turn=0, at="", message=Message(role=role, text=text, call_id=call_id))


def said(
    text: str = "",
    *calls: tuple[str, str, str],
    prompt: Sequence[int] | None = None,
    ids: Sequence[int] = (),
    logprobs: Sequence[float] | None = None,
) -> Entry:
    """A reply; calls are (id, name, arguments)."""
    tokens = None
    if prompt is not None:
        drawn = tuple(-0.1 * at for at in ids) if logprobs is None else tuple(logprobs)
        tokens = Tokens(prompt_ids=tuple(prompt), ids=tuple(ids), logprobs=drawn)
    asked = tuple(ToolCall(id=i, name=n, arguments=a) for i, n, a in calls)
    message = Message(role=Role.ASSISTANT, text=text, calls=asked)
    return Entry(
        turn=0,
        at="",
        reply=Reply(message=message, finish=Finish.STOP, usage=Usage(), model="m", tokens=tokens),
    )


def called(number: int, name: str, arguments: str, output: str) -> list[Entry]:
    """One call with its answer."""
    return [said("", (f"c{number}", name, arguments)), told(output, Role.TOOL, f"c{number}")]


def episode(*turns: Turn, stop: StopReason = StopReason.FINISHED, **fields: object) -> Episode:
    values: dict[str, object] = {
        "episode_id": "e",
        "policy": "agent:m",
        "task_hash": "t",
        "task_name": "tiny",
        "device": Device.SIM,
        "rules": Rules.PRACTICAL,
        "turns": turns,
        "stop": stop,
        "started_at": "",
        "seconds": 0.0,
    }
    return Episode.model_validate(values | fields)
