"""No path string leads out of the workspace, whatever stands in it and whoever changes it meanwhile."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.agent.confine import MissingError, Workspace
from warpsmith.agent.failures import ToolError

SECRET = b"secret"


def laid_out(base: Path) -> Path:
    """A workspace full of links, beside a secret."""
    root = base / "workspace"
    (root / "a" / "b").mkdir(parents=True)
    (base / "outside").mkdir()
    (base / "outside" / "secret").write_bytes(SECRET)
    (base / "workspace2").mkdir()
    (base / "workspace2" / "secret").write_bytes(SECRET)
    (root / "a" / "file").write_bytes(b"inside")
    for name, target in {
        "out": "../outside",
        "a/up": "../..",
        "a/b/far": "../../../outside/secret",
        "abs": str(base / "outside"),
        "host": "/etc/passwd",
        "a/in": "b",
        "a/back": "../a/file",
        "self": ".",
        "loop": "loop",
        "a/b/full": str(root / "a" / "file"),
        "twin": str(base / "workspace2"),
        "dangling": "../outside/new",
    }.items():
        (root / name).symlink_to(target)
    return root


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("confine")
    laid_out(base)
    return base


NAMES = """
a b file up far out abs host in back self loop full twin dangling secret outside workspace workspace2 new
. .. ... ~ %2e%2e etc passwd proc self root
"""
PARTS = st.sampled_from([*NAMES.split(), "", " ", "\n", "\\", "..\\", "\x00", "é", "a" * 300])


@settings(max_examples=600, deadline=None)
@given(parts=st.lists(PARTS, max_size=8), start=st.sampled_from(["", "/", "ROOT", "ROOT/", "ROOT2/", "//"]))
def test_no_path_escapes(base: Path, parts: list[str], start: str) -> None:
    workspace = Workspace(base / "workspace")
    path = start.replace("ROOT", str(workspace.root)) + "/".join(parts)
    inside = os.path.join(workspace.root, "")
    try:
        data, real = workspace.read(path, 1 << 20)
    except ToolError:
        pass
    else:
        assert data == b"inside"
        assert os.path.realpath(workspace.root / real).startswith(inside)
    try:
        real = workspace.write(path + "/w", b"written")
    except ToolError:
        pass
    else:
        assert (workspace.root / real).read_bytes() == b"written"
        assert os.path.realpath(workspace.root / real) == str(workspace.root / real)
        assert str(workspace.root / real).startswith(inside)
    assert os.listdir(base / "outside") == os.listdir(base / "workspace2") == ["secret"]
    assert sorted(os.listdir(base)) == ["outside", "workspace", "workspace2"]


@settings(max_examples=300, deadline=None)
@given(path=st.text(max_size=40))
def test_any_text_is_answered(base: Path, path: str) -> None:
    workspace = Workspace(base / "workspace")
    try:
        real = workspace.relative(path)
    except ToolError as error:
        assert "\n" not in str(error) or "\n" in path
    else:
        assert (workspace.root / real).exists()


@pytest.mark.parametrize(
    "path", ["a/file", "a/back", "a/b/full", "self/self/a/file", "a/in/../file", "./a//file"]
)
def test_links_inside_are_followed(base: Path, path: str) -> None:
    workspace = Workspace(base / "workspace")
    assert workspace.read(path, 100) == (b"inside", "a/file")
    assert workspace.read(f"{workspace.root}/{path}", 100) == (b"inside", "a/file")


@pytest.mark.parametrize(
    "path",
    [
        "out/secret",
        "abs/secret",
        "host",
        "../outside/secret",
        "a/up/outside/secret",
        "a/b/far",
        "twin/secret",
    ],
)
def test_links_out_are_refused(base: Path, path: str) -> None:
    with pytest.raises(ToolError, match="outside the workspace"):
        Workspace(base / "workspace").read(path, 100)


def test_loops_and_missing(base: Path) -> None:
    workspace = Workspace(base / "workspace")
    with pytest.raises(ToolError, match="too many links"):
        workspace.read("loop", 100)
    with pytest.raises(MissingError):
        workspace.read("nothing", 100)
    with pytest.raises(ToolError, match="should be a folder"):
        workspace.read("a/file/x", 100)
    with pytest.raises(ToolError, match="empty"):
        workspace.read("", 100)
    with pytest.raises(ToolError, match="outside"):
        workspace.write("dangling", b"x")
    with pytest.raises(ToolError, match="File name too long"):
        workspace.write("x" * 300, b"x")


def test_special_files_do_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        workspace = Workspace(tmp_path)
        with pytest.raises(ToolError, match="not a regular file"):
            workspace.read("pipe", 100)
        with pytest.raises(ToolError):
            workspace.read("socket", 100)
        with pytest.raises(ToolError, match="not a regular file"):
            workspace.write("pipe", b"x")
    assert list(workspace.walk()) == []


def test_writing_is_whole_and_keeps_the_mode(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    assert workspace.write("new/folder/f.sh", b"1") == "new/folder/f.sh"
    (tmp_path / "new/folder/f.sh").chmod(0o755)
    workspace.write("new/folder/f.sh", b"2")
    assert (tmp_path / "new/folder/f.sh").read_bytes() == b"2"
    assert (tmp_path / "new/folder/f.sh").stat().st_mode & 0o777 == 0o755
    assert os.listdir(tmp_path / "new/folder") == ["f.sh"]
    with pytest.raises(ToolError):
        workspace.write("new", b"x")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_new_files_belong_to_the_folders_owner(tmp_path: Path) -> None:
    os.chown(tmp_path, 65534, 65534)
    Workspace(tmp_path).write("x/y", b"")
    assert {path.stat().st_uid for path in tmp_path.rglob("*")} == {65534}


def test_a_deleted_workspace_is_answered(tmp_path: Path) -> None:
    root = tmp_path / "w"
    root.mkdir()
    workspace = Workspace(root)
    root.rmdir()
    for act in (
        lambda: workspace.read("f", 1),
        lambda: workspace.write("f", b""),
        lambda: list(workspace.walk()),
    ):
        with pytest.raises(ToolError):
            act()


def test_folders_swapped_for_links_gain_nothing(tmp_path: Path) -> None:
    root = laid_out(tmp_path)
    workspace = Workspace(root)
    (root / "real").mkdir()
    (root / "real" / "secret").write_bytes(b"inside")
    (root / "link").symlink_to(tmp_path / "outside")
    swapping = """
import os
while True:
    for source in ("real", "link"):
        os.rename(source, "now")
        os.rename("now", source)
"""
    read, refused = set(), 0
    with subprocess.Popen([sys.executable, "-c", swapping], cwd=root) as process:
        try:
            until = time.monotonic() + 60
            while (not read or refused < 300) and time.monotonic() < until:
                try:
                    read.add(workspace.read("now/secret", 100)[0])
                    workspace.write("now/secret", b"inside")
                except ToolError:
                    refused += 1
        finally:
            process.kill()
    assert read == {b"inside"} and refused >= 300
    assert (tmp_path / "outside" / "secret").read_bytes() == SECRET


def test_deep_folders_end(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    (tmp_path / "f").touch()
    assert [entry.path for entry in Workspace(tmp_path).walk()] == ["f"]
    # deeper than Python's own ways of deleting go
    subprocess.run(["rm", "-rf", tmp_path / "d"], check=True)
