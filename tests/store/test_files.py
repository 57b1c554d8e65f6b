"""Atomic writes and the cache folder."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from warpsmith.errors import InfrastructureError
from warpsmith.store import cache_root, write_atomic
from warpsmith.store.files import disk_full, refused


def test_a_write_replaces_the_whole_and_leaves_nothing_beside_it(tmp_path):
    path = tmp_path / "x.json"
    write_atomic(path, "ünï")
    assert path.read_bytes() == "ünï".encode()
    write_atomic(path, b"\0\1")
    assert path.read_bytes() == b"\0\1"
    assert [p.name for p in tmp_path.iterdir()] == ["x.json"]


def test_the_umask_decides_the_permissions(tmp_path):
    old = os.umask(0o027)
    try:
        write_atomic(tmp_path / "x", "")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o640


def test_a_refused_write_is_one_line_and_leaves_the_old_content(tmp_path):
    with pytest.raises(InfrastructureError, match="No such file or directory"):
        write_atomic(tmp_path / "missing/x", "")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InfrastructureError, match="Is a directory"):
        write_atomic(tmp_path / "folder", "")
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def test_a_file_too_large_leaves_the_old_content(tmp_path):
    code = (
        "import resource, sys; from pathlib import Path\n"
        "from warpsmith.errors import InfrastructureError; from warpsmith.store import write_atomic\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try: write_atomic(Path(sys.argv[1]), 'x' * 5000)\n"
        "except InfrastructureError as error: print(error)"
    )
    path = tmp_path / "x"
    path.write_text("old")
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert done.stdout == f"cannot write {path}: File too large\n"
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_where_the_cache_lies(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("WARPSMITH_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_root() == tmp_path / "home/.cache/warpsmith"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_root() == tmp_path / "xdg/warpsmith"
    monkeypatch.setenv("WARPSMITH_CACHE", str(tmp_path / "own"))
    assert cache_root() == tmp_path / "own"
    assert list((tmp_path / "own").iterdir()) == []


def test_a_cache_that_cannot_be_written_says_what_to_do(monkeypatch):
    # refuses new files to root as well
    monkeypatch.setenv("WARPSMITH_CACHE", "/proc/warpsmith")
    with pytest.raises(InfrastructureError, match="cannot use the cache folder /proc/warpsmith") as caught:
        cache_root()
    assert caught.value.hint == "set WARPSMITH_CACHE to a folder that you may write to"
    monkeypatch.setenv("WARPSMITH_CACHE", str(Path("/proc/sys/kernel")))
    with pytest.raises(InfrastructureError):
        cache_root()


def test_an_error_without_a_cause_has_its_kind_for_one(tmp_path):
    # that of a full disk has that: see tests/cli/test_disk.py
    for place in (tmp_path, tmp_path / "not" / "yet" / "there", Path("/proc/self")):
        assert not disk_full(place)
        nameless = refused("copy into", place, shutil.Error([("a", "b", "why")]))
        assert (str(nameless), nameless.hint) == (f"cannot copy into {place}: Error", None)
