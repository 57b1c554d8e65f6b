"""Read, Write, Edit, MultiEdit."""

import base64
import os
from pathlib import Path

import pytest
from tests.agent.conftest import Caller

from warpsmith.agent.tools import ImageBlock, ToolContext, call
from warpsmith.sandbox import LocalSandbox

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def test_read_numbers_lines(ask: Caller, root: Path) -> None:
    (root / "f").write_text("one\ntwo\r\n\n\x0cfour")
    assert ask("Read", file_path="f").text == "     1\tone\n     2\ttwo\n     3\t\n     4\t\x0cfour"
    assert ask("Read", file_path=f"{root}/f", offset=2, limit=1).text == (
        "     2\ttwo\n[more lines follow: go on with offset 3]"
    )
    assert ask("Read", file_path="f", offset=9).text == "[f has only 4 lines]"
    (root / "empty").touch()
    assert ask("Read", file_path="empty").text == "[empty is empty]"


def test_read_cuts_long_lines_and_files(ask: Caller, root: Path) -> None:
    (root / "wide").write_text("a" * 9000 + "\nshort\n")
    assert ask("Read", file_path="wide").text == (f"     1\t{'a' * 2000} [... line cut ...]\n     2\tshort")
    (root / "long").write_text("".join(f"{n}\n" for n in range(1, 5001)))
    lines = ask("Read", file_path="long").text.splitlines()
    assert lines[-2:] == ["  2000\t2000", "[more lines follow: go on with offset 2001]"]
    assert ask("Read", file_path="long", offset=5000, limit=5).text == "  5000\t5000"
    (root / "heavy").write_text(("b" * 1900 + "\n") * 100)
    answer = ask("Read", file_path="heavy").text
    assert len(answer) < 64_000 and answer.endswith("go on with offset 33]")


def test_read_huge_and_sparse_files(ask: Caller, root: Path) -> None:
    with (root / "huge").open("wb") as file:
        file.write(b"first\n" * 5000)
        file.truncate(20 << 30)
    assert ask("Read", file_path="huge", limit=1).text.startswith("     1\tfirst\n")
    assert "too large" in ask("Edit", file_path="huge", old_string="first", new_string="x").text
    assert "too large" in ask("Write", file_path="huge", content="x").text


def test_read_refuses_binary_files_and_folders(ask: Caller, root: Path) -> None:
    (root / "f.o").write_bytes(b"\x7fELF\0\0")
    assert ask("Read", file_path="f.o").text == "f.o is a binary file of 6 bytes: use file or xxd in Bash"
    assert "is a folder" in ask("Read", file_path=".").text
    assert ask("Read", file_path="none").text == "none does not exist: find files with Glob"
    assert "outside the workspace" in ask("Read", file_path="/etc/passwd").text
    (root / "link").symlink_to("/etc/passwd")
    assert "outside the workspace" in ask("Read", file_path="link").text


def test_read_images(ask: Caller, root: Path) -> None:
    (root / "dot.dat").write_bytes(PNG)
    (block,) = ask("Read", file_path="dot.dat").content
    assert isinstance(block, ImageBlock)
    assert (block.source.media_type, base64.b64decode(block.source.data)) == ("image/png", PNG)
    (root / "big.png").write_bytes(PNG + bytes(6 << 20))
    assert "make it smaller" in ask("Read", file_path="big.png").text


def test_invalid_utf8_is_shown_and_survives(ask: Caller, root: Path) -> None:
    (root / "f").write_bytes(b"caf\xe9 one\n\xff two\n")
    assert ask("Read", file_path="f").text == (
        "     1\tcaf\ufffd one\n     2\t\ufffd two\n[some bytes are not UTF-8 and are shown as \ufffd]"
    )
    assert not ask("Edit", file_path="f", old_string="one", new_string="1é").is_error
    assert (root / "f").read_bytes() == b"caf\xe9 1\xc3\xa9\n\xff two\n"


def test_write_makes_and_replaces(ask: Caller, root: Path) -> None:
    assert ask("Write", file_path="a/b/f.py", content="é\n").text == "a/b/f.py made: 3 bytes"
    assert ask("Write", file_path=f"{root}/a/b/f.py", content="").text.endswith("replaced: 0 bytes")
    assert (root / "a/b/f.py").read_bytes() == b""


def test_write_refuses_the_unread_and_the_changed(ask: Caller, root: Path) -> None:
    (root / "f").write_text("theirs")
    answer = ask("Write", file_path="f", content="mine")
    assert (answer.text, answer.is_error) == (
        "f has not been read yet: read it with Read, then change it",
        True,
    )
    ask("Read", file_path="f")
    (root / "f").write_text("others")
    assert "has changed since it was read" in ask("Write", file_path="f", content="mine").text
    assert (root / "f").read_text() == "others"
    ask("Read", file_path="f", offset=2)
    # the same file by another name
    (root / "g").symlink_to("f")
    assert not ask("Write", file_path="g", content="mine").is_error
    assert (root / "f").read_text() == "mine" and (root / "g").is_symlink()


def test_same_content_again_is_no_change(ask: Caller, root: Path) -> None:
    (root / "f").write_text("x")
    ask("Read", file_path="f")
    os.utime(root / "f", (1, 1))
    assert not ask("Write", file_path="f", content="y").is_error


def test_write_stays_inside(ask: Caller, root: Path, tmp_path: Path) -> None:
    (root / "out").symlink_to("..")
    for path in ("../x", "out/x", f"{tmp_path}/x", "/tmp/x", "a/../../x", f"{root}2/x"):
        assert "outside the workspace" in ask("Write", file_path=path, content="").text
    assert os.listdir(tmp_path) == ["workspace"]
    assert ask("Write", file_path="", content="").is_error
    assert "is a folder" in ask("Write", file_path=".", content="").text
    assert ask("Write", file_path="a\0b", content="").is_error


def test_protected_files(root: Path) -> None:
    (root / "model.py").write_text("x")
    with ToolContext(root, LocalSandbox(), protected=("model.py", "new.py")) as context:
        call("Read", {"file_path": "model.py"}, context)
        for name, more in {"Write": {"content": "y"}, "Edit": {"old_string": "x", "new_string": "y"}}.items():
            answer = call(name, {"file_path": "./model.py", **more}, context)
            assert answer.text == "./model.py belongs to the task and must stay as it is: change other files"
        assert call("Write", {"file_path": "new.py", "content": ""}, context).is_error
        assert call("Edit", {"file_path": "new.py", "old_string": "", "new_string": "x"}, context).is_error
    assert os.listdir(root) == ["model.py"] and (root / "model.py").read_text() == "x"


def test_edit(ask: Caller, root: Path) -> None:
    (root / "f").write_text("".join(f"line {n}\n" for n in range(1, 21)))
    assert "has not been read" in ask("Edit", file_path="f", old_string="line 7", new_string="x").text
    ask("Read", file_path="f")
    answer = ask("Edit", file_path="f", old_string="line 7\n", new_string="seven\nand more\n")
    assert answer.text == (
        "f: 1 replaced. The lines around the last change:\n"
        "     3\tline 3\n     4\tline 4\n     5\tline 5\n     6\tline 6\n     7\tseven\n"
        "     8\tand more\n     9\tline 8\n    10\tline 9\n    11\tline 10"
    )
    # known without reading it again
    assert ask("Edit", file_path="f", old_string="line", new_string="x").text == (
        "f: old_string is there 19 times (lines 1, 2, 3, 4, 5, 6, 9, 10, 11, 12): give more lines around it, or set "
        "replace_all. Nothing was changed"
    )
    assert ask("Edit", file_path="f", old_string="line", new_string="x", replace_all=True).text.startswith(
        "f: 19 replaced. The lines around the last change:\n    17\tx 16\n"
    )
    assert "line" not in (root / "f").read_text()


def test_edit_says_why_not(ask: Caller, root: Path) -> None:
    (root / "f").write_text("def f():\n    return 1\n")
    ask("Read", file_path="f")
    assert (
        "line 2 is the same but for white space"
        in ask("Edit", file_path="f", old_string="\treturn 1", new_string="x").text
    )
    assert "without the line numbers" in ask("Edit", file_path="f", old_string="1\tdef", new_string="x").text
    assert "are the same" in ask("Edit", file_path="f", old_string="def", new_string="def").text
    assert "but f exists" in ask("Edit", file_path="f", old_string="", new_string="x").text
    assert "does not exist" in ask("Edit", file_path="g", old_string="a", new_string="x").text
    assert not ask("Edit", file_path="g", old_string="", new_string="x\n").is_error
    assert (root / "g").read_text() == "x\n"


def test_windows_line_ends_stay(ask: Caller, root: Path) -> None:
    (root / "f").write_bytes(b"\xef\xbb\xbfa\r\nb\r\nc\r\n")
    ask("Read", file_path="f")
    assert not ask("Edit", file_path="f", old_string="a\nb", new_string="1\n2").is_error
    assert (root / "f").read_bytes() == b"\xef\xbb\xbf1\r\n2\r\nc\r\n"


def test_multi_edit_is_all_or_nothing(ask: Caller, root: Path) -> None:
    (root / "f").write_text("a b c")
    ask("Read", file_path="f")
    edits = [{"old_string": "a", "new_string": "b"}, {"old_string": "b", "new_string": "x"}]
    answer = ask("MultiEdit", file_path="f", edits=edits)
    assert answer.text.startswith("f, edit 2 of 2: old_string is there 2 times (lines 1, 1)")
    assert (root / "f").read_text() == "a b c"
    edits[1]["replace_all"] = True  # type: ignore[assignment]
    assert not ask("MultiEdit", file_path="f", edits=edits).is_error
    assert (root / "f").read_text() == "x x c"
    bomb = [{"old_string": " ", "new_string": " " * 3000, "replace_all": True}] * 3
    assert "would be larger" in ask("MultiEdit", file_path="f", edits=bomb).text
    assert (root / "f").read_text() == "x x c"
    assert "at least 1 item" in ask("MultiEdit", file_path="f", edits=[]).text
    new = [{"old_string": "", "new_string": "one\n"}, {"old_string": "one", "new_string": "two"}]
    assert not ask("MultiEdit", file_path="sub/new", edits=new).is_error
    assert (root / "sub/new").read_text() == "two\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_no_tool_writes_to_devices(ask: Caller, root: Path) -> None:
    (root / "full").symlink_to("/dev/full")
    assert "outside" in ask("Write", file_path="full", content="x").text
