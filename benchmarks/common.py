"""What every result file carries: on what, with what and how it was measured."""

import json
import os
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from warpsmith.gpu.devices import list_gpus

RESULTS = Path(__file__).parent / "results"


def provenance() -> dict:
    """GPU, driver, torch, commit, date and command of this process."""
    gpus = list_gpus()
    # A copy without its repository is told by the environment what it was copied from.
    commit = os.environ.get("GIT_COMMIT") or _head()
    return {
        "gpu": gpus[0].name if gpus else None,
        "driver": gpus[0].driver if gpus else None,
        "torch": metadata.version("torch"),
        "python": sys.version.split()[0],
        "commit": commit or None,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["python", *sys.argv]),
    }


def _head() -> str:
    here = Path(__file__).parent
    return subprocess.run(
        ["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=here
    ).stdout.strip()


def save(path: Path, **content: object) -> None:
    """Write a result file with its provenance first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"measured_on": provenance(), **content}, indent=1) + "\n")
