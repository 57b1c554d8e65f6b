"""The fleet of this machine."""

import importlib.util

import pytest

from warpsmith.recipes.fleet import WARM, default_jobs
from warpsmith.types import Device


@pytest.mark.parametrize("module", WARM)
def test_what_workers_load_ahead_is_there(module: str) -> None:
    # a worker passes over what it cannot import, and every job would load it again
    assert importlib.util.find_spec(module) is not None


def test_jobs_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert default_jobs(Device.CUDA) == 3 and default_jobs(Device.SIM) >= 1
