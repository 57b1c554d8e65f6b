"""Globs, and which files a search reads."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.agent.search import Glob, Selection, compiled


@pytest.mark.parametrize(
    ("pattern", "fits", "not_"),
    [
        ("*.py", ["a.py", ".py"], ["a.pyc", "d/a.py", "a"]),
        ("**/*.py", ["a.py", "d/e/a.py"], ["a.pyx"]),
        ("src/**", ["src/a", "src/b/c"], ["src", "a/src/b"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["a/xb", "ab"]),
        ("?.[ch]", ["a.c", "b.h"], ["ab.c", "a.cc", "/.c"]),
        ("[!a-c]x", ["dx"], ["ax", "x"]),
        ("[]x]", ["]", "x"], ["[]"]),
        ("*.{h,cpp,{cu,cuh}}", ["a.h", "a.cpp", "a.cu", "a.cuh"], ["a.c", "a.{h"]),
        ("x{,y}", ["x", "xy"], ["xx"]),
        (r"a\*", ["a*"], ["ab"]),
        ("a.b", ["a.b"], ["axb"]),
        ("**", ["a", "a/b"], []),
    ],
)
def test_globs(pattern: str, fits: list[str], not_: list[str]) -> None:
    glob = Glob(pattern)
    assert [path for path in [*fits, *not_] if glob.match(path)] == fits


@pytest.mark.parametrize("pattern", ["[a", "{a", "[z-a]", "{a,b}" * 9, "{" * 20 + "}" * 20])
def test_wrong_globs(pattern: str) -> None:
    with pytest.raises(ValueError):
        Glob(pattern)


@given(st.text("*?[]{}!,/ab\\-", max_size=30), st.text("ab/", min_size=1, max_size=10))
def test_any_glob_is_read_or_refused(pattern: str, path: str) -> None:
    try:
        glob = Glob(pattern)
    except ValueError:
        return
    assert glob.match(path) in (True, False)


def test_no_glob_takes_for_ever() -> None:
    assert not Glob("*a" * 200 + "b").match("a" * 255)
    assert not Glob("**/a/" * 100 + "b").match("/".join("a" * 200))


def test_selection_is_ripgreps() -> None:
    files = ["a.cu", "d/a.cu", "d/b.py", ".git", "build/x.cu"]

    def chosen(globs: list[str], suffixes: list[str]) -> list[str]:
        selection = Selection(globs, suffixes)
        return [
            path
            for path in files
            if selection.file(path) and all(selection.folder(p) for p in [path.rpartition("/")[0]] if p)
        ]

    assert chosen([], []) == ["a.cu", "d/a.cu", "d/b.py", "build/x.cu"]
    assert chosen([], ["*.py"]) == ["d/b.py"]
    assert chosen(["*.cu"], []) == ["a.cu", "d/a.cu", "build/x.cu"]
    assert chosen(["/*.cu"], []) == ["a.cu"]
    assert chosen(["!build"], ["*.cu"]) == ["a.cu", "d/a.cu"]
    assert chosen(["*.cu", "!build/"], []) == ["a.cu", "d/a.cu"]
    assert chosen(["d/*"], []) == ["d/a.cu", "d/b.py"]


@pytest.mark.parametrize("pattern", [r"(a)\1", "(?=a)", "(?<!a)b", "(?P=x)", "(?>a)"])
def test_what_ripgrep_lacks_is_refused(pattern: str) -> None:
    with pytest.raises(re.error):
        compiled(pattern, ignore_case=False, multiline=False)


def test_what_ripgrep_has_is_taken() -> None:
    for pattern in [r"(?i)a", r"(?:a|b)+", r"(?P<x>a)", r"\\1", r"\(?=a"]:
        compiled(pattern, ignore_case=True, multiline=True)
