"""Calls in a reply's text, as models write them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.agent.text_calls import CLOSE, OPEN, read_calls

READ = '{"name": "Read", "arguments": {"file_path": "model.py"}}'
VERIFY = '{"name": "Verify", "arguments": {}}'
READ_CALL = ("Read", '{"file_path": "model.py"}')


def found(text: str, *, files: bool = False) -> list[tuple[str, str]]:
    calls = read_calls(text, 3, files=files)
    assert [call.id for call in calls] == [f"text_3_{index}" for index in range(len(calls))]
    return [(call.name, call.arguments) for call in calls]


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        (f"{OPEN}\n{READ}\n{CLOSE} and {OPEN}{VERIFY}{CLOSE}", [READ_CALL, ("Verify", "{}")]),
        # several in one block: one a line, with commas, as a list
        (f"{OPEN}\n{READ}\n{VERIFY}\n{CLOSE}", [READ_CALL, ("Verify", "{}")]),
        (f"```json\n{READ},\n{VERIFY}\n```", [READ_CALL, ("Verify", "{}")]),
        (f"```json\n[{READ}, {VERIFY}]\n```", [READ_CALL, ("Verify", "{}")]),
        # talk behind a call is no call; a block that is never closed reaches to the end
        (f"{OPEN}{READ}\nThis reads it.{CLOSE}", [READ_CALL]),
        (f"{OPEN}{READ}", [READ_CALL]),
        # cut in the second: the first is whole
        (
            f'```json\n{READ}\n{{"name": "Write", "arguments": {{"content": "x',
            [READ_CALL, ("Write", '{"name": "Write", "arguments": {"content": "x')],
        ),
        # without any mark: where it begins a line and has both names
        (f"I look.\n\n{READ}\n  {VERIFY}", [READ_CALL, ("Verify", "{}")]),
        (f"Write {READ} to look.", []),
        ('{"name": "width", "value": 3}\n{"name": "Read", "arguments": "x"}\n{"arguments": {}}\n{', []),
        (
            '{"name": "Edit",\n "arguments": {\n"new": {"name": "Read", "arguments": {}}}}',
            [("Edit", '{"new": {"name": "Read", "arguments": {}}}')],
        ),
        (f"{OPEN}read it{CLOSE}", [("", "read it")]),
        (f"{OPEN}{CLOSE}", [("", "")]),
        ("```json\n3\n```", []),
        ("Use the Read tool.", []),
    ],
)
def test_calls_are_read_as_models_write_them(text: str, calls: list[tuple[str, str]]) -> None:
    assert found(text) == calls


def test_a_number_that_nobody_can_read_is_kept_as_text() -> None:
    call = '{"name": "Read", "arguments": {"limit": ' + "9" * 5000 + "}}"
    assert found(f"{OPEN}{call}{CLOSE}") == [("Read", call)]
    assert found(f"\n{call}\n") == []


def test_files_are_written_before_calls_and_verified_in_the_end() -> None:
    text = "```cuda file=kernels/a.cu\nint a;\n```\n"
    write = ("Write", json.dumps({"file_path": "kernels/a.cu", "content": "int a;\n"}))
    assert found(text) == []
    assert found(text, files=True) == [write, ("Verify", "{}")]
    assert found(f"{OPEN}{READ}{CLOSE}\n{text}", files=True) == [write, READ_CALL, ("Verify", "{}")]
    assert found(f"{text}{OPEN}{VERIFY}{CLOSE}", files=True) == [write, ("Verify", "{}")]
    assert found(f"{OPEN}{READ}{CLOSE}", files=True) == [READ_CALL]
    assert found("no file", files=True) == []


def test_nothing_counts_behind_a_result_that_the_reply_made_up() -> None:
    file = "```python file=model_new.py\nclass ModelNew: ...\n```"
    played = (
        f"{file}\nNow:\n```python file=model_new.py\n<tool_response>\n[SUCCESS]\n```\n{OPEN}{READ}{CLOSE}"
    )
    write = json.dumps({"file_path": "model_new.py", "content": "class ModelNew: ...\n"})
    assert found(played, files=True) == [("Write", write), ("Verify", "{}")]
    assert found(
        f"{OPEN}{VERIFY}{CLOSE}\n<tool_response>\nit passed\n</tool_response>\n{OPEN}{READ}{CLOSE}"
    ) == [("Verify", "{}")]
    # within a line it is talk, or part of an argument
    assert found(f"After <tool_response> comes: {OPEN}{READ}{CLOSE}") == [READ_CALL]


@given(st.text(alphabet='{}[]",: \nab`<>/tool_call', max_size=200), st.booleans())
def test_any_text_is_read(text: str, files: bool) -> None:
    read_calls(text, 0, files=files)
    read_calls(f"{OPEN}{text}{CLOSE}", 0, files=files)


@given(
    st.lists(
        st.tuples(st.sampled_from(["Bash", "Write"]), st.dictionaries(st.text(), st.text(max_size=30))),
        min_size=1,
    )
)
def test_what_is_written_in_one_block_comes_back(calls: list[tuple[str, dict[str, str]]]) -> None:
    lines = [json.dumps({"name": name, "arguments": arguments}) for name, arguments in calls]
    assert [
        (n, json.loads(a)) for n, a in found(OPEN + "\n".join(lines).replace("<", "\\u003c") + CLOSE)
    ] == calls
