"""The table, the schemas, and calls that fit none of them."""

import json
import subprocess
import sys
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.agent.conftest import Caller

from warpsmith.agent.tools import TOOLS, ToolContext, call, describe

NAMES = "Bash BashOutput KillBash Read Write Edit MultiEdit Glob Grep NotebookEdit TodoWrite".split()
TOLD = [tool for tool in NAMES if tool != "Bash"]


def test_the_table() -> None:
    assert [tool.name for tool in TOOLS] == NAMES
    for tool in TOOLS:
        told = describe(tool)
        assert json.loads(json.dumps(told)) == told
        assert told["input_schema"]["type"] == "object" and not told["input_schema"]["additionalProperties"]
        assert len(told["description"]) > 100
        assert all("description" in field for field in told["input_schema"]["properties"].values())


def test_names_that_agents_know() -> None:
    fields = {tool.name: list(describe(tool)["input_schema"]["properties"]) for tool in TOOLS}
    assert fields["Bash"] == ["command", "timeout", "description", "run_in_background"]
    assert fields["Read"] == ["file_path", "offset", "limit"]
    assert fields["Edit"] == ["file_path", "old_string", "new_string", "replace_all"]
    assert set(fields["Grep"]) == set(
        "pattern path glob output_mode -B -A -C -n -i type head_limit multiline".split()
    )
    assert fields["NotebookEdit"] == ["notebook_path", "new_source", "cell_id", "cell_type", "edit_mode"]


def test_calls_that_do_not_fit(context: ToolContext) -> None:
    for name, arguments, answer in [
        ("bash", {}, "There is no tool 'bash'. Did you mean Bash? The tools are: "),
        ("WebSearch", {}, "There is no tool 'WebSearch'."),
        ("", {}, "There is no tool ''."),
        ("Read", '{"file_path": "a', "Read was not called: the arguments are not JSON (Unterminated string"),
        (
            "Read",
            "[1]",
            "Read was not called: the arguments must be a JSON object. It takes {file_path: string, ",
        ),
        ("Read", None, "Read was not called: the arguments must be a JSON object."),
        (
            "Read",
            {"path": "a"},
            "Read was not called: file_path: Field required; path: Extra inputs are not permitted.",
        ),
        (
            "Read",
            {"file_path": "a", "limit": "x"},
            "Read was not called: limit: Input should be a valid integer",
        ),
        ("Read", {"file_path": "\ud800"}, "Read was not called: the arguments hold half a surrogate pair"),
        (
            "Edit",
            '{"file_path": "f", "old_string": "a", "new_string": "\\udc80"}',
            "Edit was not called: the arg",
        ),
        ("Read", "[" * 100_000, "Read was not called: "),
        (
            "Read",
            '{"limit": ' + "9" * 5000 + "}",
            "Read was not called: the arguments hold a number of thousands",
        ),
        (
            "Bash",
            {"command": "x", "timeout": 10**9},
            "Bash was not called: timeout: Input should be less than",
        ),
        (
            "MultiEdit",
            {"file_path": "a", "edits": [{}]},
            "MultiEdit was not called: edits.0.old_string: Field required",
        ),
    ]:
        said = call(name, arguments, context)
        assert said.is_error and said.text.startswith(answer), said.text
        assert len(said.text) < 1500


def test_json_text_is_taken(context: ToolContext, root: Path) -> None:
    (root / "f").write_text("x")
    assert call("Read", '{"file_path": "f", "limit": "5"}', context).text == "     1\tx"


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.text(max_size=8)
    | st.sampled_from(["f", "..", "/", "*", "["]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), name=st.sampled_from([name for name in TOLD if name not in ("Grep", "BashOutput")]))
def test_whatever_is_asked_is_answered(context: ToolContext, data: st.DataObject, name: str) -> None:
    known = next(tool for tool in TOOLS if tool.name == name)
    fields = list(known.arguments.model_json_schema(by_alias=True)["properties"])
    arguments = data.draw(st.dictionaries(st.sampled_from([*fields, "other"]), VALUES, max_size=5) | VALUES)
    assert call(name, arguments, context).text


def test_todo_list(ask: Caller, context: ToolContext) -> None:
    todos = [
        {"content": c, "status": s} for c, s in [("a", "completed"), ("b", "in_progress"), ("c", "pending")]
    ]
    assert ask("TodoWrite", todos=todos).text == "The list is now:\n[x] a\n[>] b\n[ ] c"
    assert context.todos == ("[x] a", "[>] b", "[ ] c")
    todos[0]["status"] = "in_progress"
    assert "one at a time" in ask("TodoWrite", todos=todos).text
    assert (
        "todos.0.status: Input should be 'pending'"
        in ask("TodoWrite", todos=[{"content": "a", "status": "?"}]).text
    )
    assert ask("TodoWrite", todos=[]).text == "The list is now empty."


def test_no_torch() -> None:
    code = "import sys, warpsmith.agent.tools; print([m for m in ('torch', 'numpy') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
