"""Glob, and Grep with both engines."""

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agent.conftest import Caller

from warpsmith.agent.tools import ToolContext, call
from warpsmith.types.protocols import Sandbox

ENGINES = [
    pytest.param(None, id="python"),
    pytest.param("rg", id="rg", marks=pytest.mark.skipif(not shutil.which("rg"), reason="no ripgrep")),
]


@pytest.fixture(params=ENGINES)
def grep(request: pytest.FixtureRequest, root: Path, sandbox: Sandbox) -> Iterator[Caller]:
    with ToolContext(root, sandbox, ripgrep=request.param) as context:
        yield lambda pattern, **arguments: call("Grep", {"pattern": pattern, **arguments}, context)


def lay_out(root: Path) -> None:
    files = {
        "a.cu": b"__global__ void add()\n{\n}\nvoid main()\n",
        "src/b.py": b"import os\n\ndef add(x):\n    return x\n",
        "src/deep/c.cpp": b"int Add();\r\nint x;\n",
        ".hidden/d.txt": "größer add\n".encode(),
        ".gitignore": b"*.py\n",
        ".git/config": b"add\n",
        "latin": b"caf\xe9 add\n",
        "binary": b"add\n\0add\n",
        "no_newline": b"add",
        "empty": b"",
    }
    for age, (name, data) in enumerate(files.items()):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        os.utime(path, (1_000_000 + age, 1_000_000 + age))
    (root / "link").symlink_to("src")
    (root / "link.cu").symlink_to("a.cu")
    (root / "out").symlink_to("/etc")


def test_glob_newest_first(ask: Caller, root: Path) -> None:
    lay_out(root)
    assert ask("Glob", pattern="**/*.{py,cu,cpp}").text == "src/deep/c.cpp\nsrc/b.py\na.cu"
    assert ask("Glob", pattern="*.cu").text == "a.cu"
    assert ask("Glob", pattern="*.py", path="src").text == "src/b.py"
    assert ask("Glob", pattern=f"{root}/src/*", path=".").text == "src/b.py"
    assert ask("Glob", pattern="*.cpp").text == "No files found; **/*.cpp looks into the folders below too"
    assert ask("Glob", pattern="nowhere/*").text == "No files found"


def test_glob_errors(ask: Caller, root: Path) -> None:
    lay_out(root)
    assert ask("Glob", pattern="[a").text == "the pattern is wrong: a [ is not closed"
    assert "outside" in ask("Glob", pattern="*", path="..").text
    assert "outside" in ask("Glob", pattern="*", path="out").text
    assert "outside" in ask("Glob", pattern="/etc/*").text
    assert ask("Glob", pattern="../*").text == "No files found"
    assert "does not exist" in ask("Glob", pattern="*", path="none").text
    assert "should be a folder" in ask("Glob", pattern="*", path="a.cu").text


def test_glob_is_bounded(ask: Caller, root: Path) -> None:
    for n in range(150):
        (root / f"{n}.x").touch()
    (root / os.fsdecode(b"\xff.x")).touch()
    lines = ask("Glob", pattern="*.x").text.splitlines()
    assert len(lines) == 101 and lines[-1] == "[the first 100 of 151: give a narrower pattern]"


def test_files_newest_first(grep: Caller, root: Path) -> None:
    lay_out(root)
    assert grep("add").text.splitlines() == ["no_newline", "latin", ".hidden/d.txt", "src/b.py", "a.cu"]
    assert grep("add", head_limit=2).text.splitlines()[:2] == ["no_newline", "latin"]
    assert grep("add", path="src").text == "src/b.py"
    assert grep("add", **{"-i": True, "path": "./src/deep"}).text == "src/deep/c.cpp"
    assert grep("nothing like it").text == "No matches found"


def test_content(grep: Caller, root: Path) -> None:
    lay_out(root)
    assert grep("add", output_mode="content").text.splitlines() == [
        ".hidden/d.txt:1:größer add",
        "a.cu:1:__global__ void add()",
        "latin:1:caf\ufffd add",
        "no_newline:1:add",
        "src/b.py:3:def add(x):",
    ]
    assert grep("^int", output_mode="content", path="src", **{"-n": False}).text == (
        "src/deep/c.cpp:int Add();\r\nsrc/deep/c.cpp:int x;"
    )
    assert grep("void", output_mode="content", path="a.cu", **{"-A": 1}).text.splitlines() == [
        "a.cu:1:__global__ void add()",
        "a.cu-2-{",
        "--",
        "a.cu:4:void main()",
    ]
    assert grep("return", output_mode="content", **{"-B": 2, "-C": 1}).text.splitlines() == [
        "src/b.py-2-",
        "src/b.py:3:def add(x):".replace(":3:", "-3-").replace("py:", "py-"),
        "src/b.py:4:    return x",
    ]
    assert grep("add", output_mode="content", head_limit=1).text.splitlines() == [
        ".hidden/d.txt:1:größer add",
        "[cut after 1: narrow the pattern, path or glob, or raise head_limit]",
    ]


def test_counts(grep: Caller, root: Path) -> None:
    lay_out(root)
    assert grep("[a-z]+", output_mode="count", glob="*.{py,cu}").text.splitlines() == ["a.cu:2", "src/b.py:3"]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"glob": "*.py"}, {"src/b.py"}),
        ({"glob": "/*"}, {"no_newline", "latin", "a.cu"}),
        ({"glob": "src/**"}, {"src/b.py"}),
        ({"glob": "!src"}, {"no_newline", "latin", ".hidden/d.txt", "a.cu"}),
        ({"type": "cuda"}, {"a.cu"}),
        ({"type": "py"}, {"src/b.py"}),
        ({"type": "cpp", "-i": True}, {"src/deep/c.cpp"}),
        ({"type": "py", "path": "a.cu"}, {"a.cu"}),
    ],
)
def test_choosing_files(grep: Caller, root: Path, options: dict[str, object], found: set[str]) -> None:
    lay_out(root)
    assert set(grep("add", **options).text.splitlines()) == found


def test_multiline(grep: Caller, root: Path) -> None:
    lay_out(root)
    assert "set multiline" in grep(r"\{\n\}").text
    answer = grep(r"\(\)\n\{.\}", output_mode="content", path="a.cu", multiline=True, **{"-A": 1})
    assert answer.text.splitlines() == [
        "a.cu:1:__global__ void add()",
        "a.cu:2:{",
        "a.cu:3:}",
        "a.cu-4-void main()",
    ]
    assert grep("^add$", output_mode="content", multiline=True).text == "no_newline:1:add"


@pytest.mark.parametrize("pattern", ["(", "a{2,1}", "[z-a]", r"(a)\1", "(?=a)"])
def test_wrong_patterns(grep: Caller, root: Path, pattern: str) -> None:
    lay_out(root)
    answer = grep(pattern)
    assert answer.is_error and answer.text.startswith("the pattern or glob is wrong: ")


def test_other_errors(grep: Caller, root: Path) -> None:
    lay_out(root)
    assert "wrong" in grep("add", glob="[a").text
    assert grep("add", type="cobol").text.startswith("unknown type 'cobol': use glob, or one of c, cmake")
    assert "outside" in grep("root", path="out").text
    assert "outside" in grep("root", path="/etc/passwd").text
    assert "does not exist" in grep("root", path="none").text
    assert grep("-e", path="src").text == "No matches found"
    assert 'output_mode?: "content" or "files_with_matches" or "count"' in grep("a", output_mode="lines").text


def test_much_is_bounded(grep: Caller, root: Path) -> None:
    (root / "many").write_text("".join(f"match {n}\n" for n in range(30_000)))
    (root / "wide").write_text("match" + "x" * 300_000 + "\n")
    with (root / "huge").open("wb") as file:
        file.write(b"match\n" * 10)
        file.truncate(30 << 30)
    lines = grep("match", output_mode="content").text.splitlines()
    assert lines[0] == "many:1:match 0" and len(lines) == 251
    assert grep("match", output_mode="count").text.splitlines() == ["many:30000", "wide:1"]
    wide = grep("match", output_mode="content", path="wide").text
    assert len(wide) < 700 and "characters left out" in wide
    assert len(grep("match", output_mode="content", head_limit=9000, glob="many").text) < 31_000


def test_a_pattern_that_takes_for_ever(root: Path, sandbox: Sandbox) -> None:
    (root / "f").write_text("a" * 60 + "b\n")
    with ToolContext(root, sandbox, ripgrep=None, search_timeout_s=1.0) as context:
        answer = call("Grep", {"pattern": "(a+)+$"}, context)
        assert answer.is_error and answer.text.startswith("the search took more than 1 s")
        call("Bash", {"command": "cat f", "run_in_background": True}, context)
        while context.job("bash_1").running():
            time.sleep(0.02)
        answer = call("BashOutput", {"bash_id": "bash_1", "filter": "(a+)+$"}, context)
        assert answer.text.startswith("the search took more than 1 s")


@pytest.mark.skipif(not shutil.which("rg"), reason="no ripgrep")
@pytest.mark.parametrize(
    "options", [{}, {"-C": 1}, {"multiline": True}, {"-i": True}, {"type": "c"}, {"glob": "*[12]"}]
)
def test_both_engines_agree(root: Path, sandbox: Sandbox, options: dict[str, object]) -> None:
    for n in range(12):
        folder = root / f"d{n % 3}" / f"e{n % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        text = "\n".join("ab"[(n * k) % 2] * (k % 5) + " B\t" + "xyz"[k % 3] for k in range(n * 3))
        (folder / f"f{n}").write_text(text)
        (folder / f"g{n}.c").write_text(text.upper())
    with ToolContext(root, sandbox) as ours, ToolContext(root, sandbox, ripgrep=None) as theirs:
        for mode, pattern in [
            *(("content", text) for text in ("a|^$", r"\bb+ B", r"(?i)Y$", r"a\s+B", r"\W")),
            ("count", "a*"),
            ("files_with_matches", r"[^\s]{3}"),
        ]:
            arguments = {"pattern": pattern, "output_mode": mode, "head_limit": 5000, **options}
            answer = call("Grep", arguments, ours)
            assert not answer.is_error
            assert call("Grep", arguments, theirs) == answer, (mode, pattern)
