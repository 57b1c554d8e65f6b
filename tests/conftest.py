"""What holds for all tests: no property fails by how busy a machine is, and what is compiled once is kept."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# CI judges a change, so it tries what it tried before; everywhere else properties are tried on new examples.
settings.register_profile(
    "any_machine",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=os.environ.get("CI") == "true",
)
settings.load_profile("any_machine")


@pytest.fixture(scope="session")
def shared_caches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder for WARPSMITH_CACHE that all tests, and all of xdist's workers, may fill and none looks into."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared-caches"
    folder.mkdir(exist_ok=True)
    return folder
