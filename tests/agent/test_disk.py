"""What a workspace holds is counted while it is changed."""

import threading
from pathlib import Path

from warpsmith.agent.disk import DiskWatch, used


def test_what_is_there_is_counted_and_what_is_gone_is_not(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/file").write_bytes(b"x" * 100_000)
    (tmp_path / "link").symlink_to("/usr")
    size, entries = used(tmp_path, 100)
    assert entries == 4 and 100_000 <= size < 400_000
    assert used(tmp_path / "gone", 100) == (0, 0)
    # it stops counting, not far beyond what may be
    assert used(tmp_path, 1)[1] == 2


def test_a_folder_that_is_gone_ends_no_watch(tmp_path: Path) -> None:
    stopped = threading.Event()
    root = tmp_path / "workspace"
    with DiskWatch(root, 1000, 10, stopped.set) as watch:
        assert not watch.look()
        root.mkdir()
        (root / "flood").write_bytes(b"x" * 100_000)
        assert stopped.wait(60)
    assert watch.full
