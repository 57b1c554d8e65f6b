"""Where figures also go, step by step: services of experiment tracking whose packages are installed by the user."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

from warpsmith.errors import MissingExtraError, UsageError
from warpsmith.types.base import sha256_hex

PROJECT = "warpsmith"
Track = Callable[[int, Mapping[str, float]], None]
"""(step, figures)."""


def require_trackers(names: Sequence[str], find: Callable[[str], object | None] = find_spec) -> None:
    """UsageError for an unknown name, MissingExtraError for one whose package is not installed."""
    for name in names:
        if name not in TRACKERS:
            raise UsageError(
                f"unknown tracker {name!r}", hint=f"choose one of: {', '.join(sorted(TRACKERS))}"
            )
        if find(name) is None:
            raise MissingExtraError(f"{name} is not installed", hint=f"pip install {name}")


def open_tracker(name: str, folder: Path, load: Callable[[str], Any] = import_module) -> Track:
    """Tracks the stage in `folder`, which keeps its identity when it is gone on with."""
    return TRACKERS[name](load(name), folder)


def _wandb(package: Any, folder: Path) -> Track:
    run = package.init(
        project=PROJECT, name=folder.name, id=sha256_hex(str(folder))[:16], resume="allow", dir=str(folder)
    )

    def track(step: int, figures: Mapping[str, float]) -> None:
        run.log(dict(figures), step=step)

    return track


def _mlflow(package: Any, folder: Path) -> Track:
    package.set_experiment(PROJECT)
    told = folder / "mlflow.run"
    run = package.start_run(run_id=told.read_text() if told.exists() else None, run_name=folder.name)
    told.write_text(run.info.run_id)

    def track(step: int, figures: Mapping[str, float]) -> None:
        package.log_metrics(dict(figures), step=step)

    return track


TRACKERS: Mapping[str, Callable[[Any, Path], Track]] = MappingProxyType({"wandb": _wandb, "mlflow": _mlflow})
"""One line a service."""
