"""What a task needs that this machine does not have: told by the classes of what its code raised."""

import os
import socket
import urllib.error
from collections.abc import Iterator
from dataclasses import dataclass

_HUB = "huggingface_hub"
_CLIENTS = frozenset({"requests", "httpx", "httpcore", "urllib3", "aiohttp"})
_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")


@dataclass(frozen=True)
class Lack:
    """`what` is needed, and what to do about it."""

    what: str
    hint: str


def go_offline() -> None:
    """Has hub clients of this process read their cache alone: without, they try for minutes where no network is."""
    for name in _OFFLINE:
        os.environ.setdefault(name, "1")


def lacking(error: BaseException) -> Lack | None:
    """What was not there, by the error or those that led to it; None where it is about something else."""
    for each in _chain(error):
        package = type(each).__module__.partition(".")[0]
        if isinstance(each, ModuleNotFoundError):
            return Lack(f"the Python package {each.name}, which is not installed here", "install it")
        if package == _HUB:
            return Lack(
                "files of a model hub that are not in this machine's cache",
                "download them first: a task is run without the network",
            )
        if isinstance(each, ConnectionError | socket.gaierror | urllib.error.URLError) or package in _CLIENTS:
            return Lack("the network", "a task is run without one: give it a form that needs none")
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        yield at
        at = at.__cause__ or at.__context__
