"""Starts what trains, in processes of their own that end when this one does, and watches that they move."""

import os
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from warpsmith.errors import InfrastructureError, MissingExtraError
from warpsmith.sandbox.process import ProcessEnd, Tree
from warpsmith.types import Record

_PLUGIN = "warpsmith.training.engine.plugin"
_POLL_S = 1.0


class Engine(Record):
    """The modules that train, each run as `python -m MODULE JOB.json`, and the packages that they need."""

    learner: str
    ppo: str
    packages: tuple[str, ...] = ()


VERL = Engine(
    learner="warpsmith.training.engine.learner",
    ppo="warpsmith.training.engine.ppo",
    packages=("verl", "ray", "transformers"),
)


def require_train_extra(engine: Engine = VERL) -> None:
    """MissingExtraError where a package of the engine is not installed."""
    from importlib.util import find_spec

    missing = [name for name in engine.packages if find_spec(name) is None]
    if missing:
        raise MissingExtraError(
            f"training needs {', '.join(missing)}, which is not installed",
            hint="pip install 'warpsmith[train]'",
        )


def launch(
    module: str,
    job: Path,
    *,
    log: Path,
    device: str,
    ranks: int = 1,
    silence_s: float = 1800.0,
    heartbeat: Sequence[Path] = (),
) -> ProcessEnd:
    """Runs `python -m module job` to its end, `ranks` times under torchrun where more than one.

    Raises InfrastructureError where it prints nothing and no file of `heartbeat` changes for `silence_s` seconds: a
    rollout server that has died leaves its trainer waiting for ever.
    """
    argv = [sys.executable, "-m", module, str(job)]
    env = training_environment(os.environ, device)
    if ranks > 1:
        torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
        argv = [sys.executable, *torchrun, "-m", module, str(job)]
    else:
        env |= {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1"}
        env |= {"MASTER_PORT": str(_free_port()), "LOCAL_WORLD_SIZE": "1"}
    with Tree(argv, env=env, log_path=log) as tree:
        moved, seen = time.monotonic(), (0.0,)
        while (end := tree.wait(_POLL_S)) is None:
            now = tuple(path.stat().st_mtime for path in (log, *heartbeat) if path.exists())
            if now != seen:
                moved, seen = time.monotonic(), now
            elif time.monotonic() - moved > silence_s:
                raise InfrastructureError(
                    f"the trainer has not moved for {silence_s:g} s and was ended; see {log}",
                    hint="the same command goes on from the last checkpoint",
                )
        return end


def training_environment(environ: Mapping[str, str], device: str) -> dict[str, str]:
    """What a trainer's processes need besides what this one has."""
    env = dict(environ) | {
        "VERL_USE_EXTERNAL_MODULES": _PLUGIN,
        "HYDRA_FULL_ERROR": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "WANDB_MODE": environ.get("WANDB_MODE", "offline"),
        # only what was installed and named is used: nothing is looked up on the way
        "HF_HUB_OFFLINE": environ.get("HF_HUB_OFFLINE", "1"),
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    if device == "cpu":
        env |= {"VERL_PLATFORM": "cpu", "OMP_NUM_THREADS": environ.get("OMP_NUM_THREADS", "1")}
        env |= {"RAY_AUTH_MODE": environ.get("RAY_AUTH_MODE", "disabled")}
    return env


def failure(end: ProcessEnd, log: Path) -> InfrastructureError:
    """What to say of a trainer that has failed: the last line that looks like a reason, and where the rest lies."""
    lines = [line.strip() for line in end.output.splitlines() if line.strip()]
    reason = lines[-1][-300:] if lines else "it printed nothing"
    status = end.exit_code if end.exit_code is not None else f"signal {end.signal}"
    return InfrastructureError(
        f"the trainer ended with status {status}: {reason}",
        hint=f"see {log}; the same command goes on from the last whole checkpoint",
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
