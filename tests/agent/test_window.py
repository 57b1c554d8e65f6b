"""What is shown of a conversation that no longer fits."""

from warpsmith.agent.window import Window
from warpsmith.types.llm import Message, Role, ToolCall

HEAD = [Message(role=Role.SYSTEM, text="skill " * 200), Message(role=Role.USER, text="task " * 200)]


def turns(count: int, size: int = 4000, written: int = 100) -> list[Message]:
    said = list(HEAD)
    for n in range(count):
        call = ToolCall(id=f"c{n}", name="Write", arguments='{"content": "' + "x" * written + '"}')
        said.append(Message(role=Role.ASSISTANT, text=f"turn {n}", calls=(call,)))
        said.append(Message(role=Role.TOOL, text=f"{n} " + "o" * size, call_id=call.id))
    return said


def test_what_fits_is_left_alone() -> None:
    messages = turns(3)
    assert Window(131_072, 8192).fit(messages, (), "best") == tuple(messages)


def test_old_output_goes_first_and_the_last_turn_never() -> None:
    messages = turns(10)
    window = Window(10_000, 1000)
    shown = window.fit(messages, (), "BEST")
    assert shown is not None and len(shown) == len(messages)
    assert shown[0] == messages[0] and shown[1].text.startswith(messages[1].text) and "BEST" in shown[1].text
    assert len(shown[3].text) < 1000 and shown[-1] == messages[-1] and shown[2].calls == messages[2].calls
    # what was trimmed stays as it was, so that a prompt cache keeps its prefix
    again = window.fit([*messages, *turns(1)[2:]], (), "BEST")
    assert again is not None and again[: len(shown)] == shown


def test_turns_are_left_out_whole_where_nothing_else_helps() -> None:
    messages = turns(60, written=4000)
    shown = Window(8000, 500).fit(messages, (), "BEST")
    assert shown is not None and len(shown) < 40 and shown[0] == HEAD[0] and "BEST" in shown[1].text
    calls = {call.id for message in shown for call in message.calls}
    assert {message.call_id for message in shown if message.role is Role.TOOL} == calls
    assert shown[-2].calls == messages[-2].calls


def test_no_fit_and_learning_the_servers_rate() -> None:
    window = Window(1200, 200)
    assert window.fit(HEAD, (), None) is not None
    window.learn(HEAD, (), 2200)
    assert window.fit(HEAD, (), None) is None
