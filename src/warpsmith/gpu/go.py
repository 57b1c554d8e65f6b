"""How a waiting job is told to go on: a file in its folder, with variables for its environment."""

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path

STANDBY = "--standby"
GO = "go.json"
_POLL_S = 0.002


def give_go(folder: Path, variables: Mapping[str, str]) -> None:
    """Let the job that waits in `folder` go on."""
    partial = folder / f"{GO}.partial"
    partial.write_text(json.dumps(dict(variables)))
    partial.rename(folder / GO)


def await_go(folder: Path) -> None:
    """Returns when `go.json` is there, its variables in this process's environment."""
    go = folder / GO
    while not go.exists():
        time.sleep(_POLL_S)
    os.environ.update(json.loads(go.read_text()))
