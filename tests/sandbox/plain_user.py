"""Runs Python as a user who is nobody here, with the interpreter and packages of the tests."""

import os
import sys
from pathlib import Path

from warpsmith.sandbox import python_paths
from warpsmith.sandbox.process import ProcessEnd, run_tree


def run_as_plain_user(code: str, *arguments: str) -> ProcessEnd:
    """`code` as user 1, who may write to /tmp/w. Needs root and mount namespaces."""
    # an interpreter in a folder that others cannot enter, or in /tmp, which is made anew here, is shown again where
    # it was: in a mount namespace of the test's own
    closed = sorted({path for path in map(_closed_folder, python_paths()) if path} | {"/tmp"})
    paths = [path for path in python_paths() if path.startswith(tuple(f"{folder}/" for folder in closed))]
    binds = "".join(f"mkdir -p /mnt{path} && mount --bind {path} /mnt{path} && " for path in paths)
    covers = "".join(f"mount -t tmpfs -o mode=755 tmpfs {folder} && " for folder in closed)
    moves = "".join(f"mkdir -p {path} && mount --bind /mnt{path} {path} && " for path in paths)
    setup = (
        f"umask 022 && mount -t tmpfs tmpfs /mnt && {binds}{covers}{moves}"
        " chmod 1777 /tmp && mkdir /tmp/w && chmod 777 /tmp/w &&"
        ' exec setpriv --reuid=1 --regid=1 --clear-groups "$@"'
    )
    argv = ["unshare", "--mount", "sh", "-c", setup, "sh", sys.executable, "-c", code, *arguments]
    return run_tree(argv, timeout_s=120, env={"PATH": os.environ["PATH"]}, cwd="/")


def _closed_folder(path: str) -> str | None:
    """The outermost folder on the way to `path` that others may not enter; None where they may enter all."""
    way = [folder for folder in reversed(Path(path).parents) if folder != Path("/")]
    return next((str(folder) for folder in way if not folder.stat().st_mode & 0o001), None)
