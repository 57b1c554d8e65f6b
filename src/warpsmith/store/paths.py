"""Where Warpsmith keeps what it may lose: builds, baselines, leases."""

import os
import uuid
from pathlib import Path

from warpsmith.errors import InfrastructureError
from warpsmith.store.files import refused

_HINT = "set WARPSMITH_CACHE to a folder that you may write to"


def cache_root() -> Path:
    """$WARPSMITH_CACHE, else $XDG_CACHE_HOME/warpsmith, else ~/.cache/warpsmith: absolute, made, writable.

    Raises InfrastructureError with a hint where the folder cannot be made or written to.
    """
    root = _wanted()
    probe = root / f".probe-{uuid.uuid4().hex}"
    try:
        root.mkdir(parents=True, exist_ok=True)
        # access bits tell neither of a read-only mount to root nor of a full disk: only writing does
        probe.touch(exist_ok=False)
        probe.unlink()
    except OSError as error:
        raise InfrastructureError(str(refused("use the cache folder", root, error)), hint=_HINT) from error
    return root


def _wanted() -> Path:
    if own := os.environ.get("WARPSMITH_CACHE"):
        return Path(own).expanduser().absolute()
    if xdg := os.environ.get("XDG_CACHE_HOME"):
        return Path(xdg).absolute() / "warpsmith"
    try:
        home = Path.home()
    except RuntimeError as error:
        raise InfrastructureError("cannot use the cache folder: no home directory", hint=_HINT) from error
    return home.absolute() / ".cache" / "warpsmith"
