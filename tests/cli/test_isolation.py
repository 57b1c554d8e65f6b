"""A least level of isolation: below it no command judges, and above it the verdict names what was in force."""

import json
from pathlib import Path

import pytest
from tests.cli.real import JUDGE, OPTIMIZE, error_line, lay_out, warpsmith

from warpsmith.sandbox import best_available

REFUSED = "nothing here isolates a submission as bwrap does"


@pytest.mark.parametrize(
    ("args", "extra"),
    [
        ((*JUDGE, "--least-isolation", "bwrap"), {}),
        (JUDGE, {"WARPSMITH_LEAST_ISOLATION": "bwrap"}),
        (OPTIMIZE, {"WARPSMITH_LEAST_ISOLATION": "bwrap"}),
    ],
    ids=["judge, by option", "judge, by environment", "optimize, by environment"],
)
def test_below_the_least_level_nothing_is_judged(
    tmp_path: Path, args: tuple[str, ...], extra: dict[str, str]
) -> None:
    # no tool that isolates is found there
    done = warpsmith(lay_out(tmp_path), tmp_path / "cache", *args, PATH=str(tmp_path), **extra)
    assert done.returncode == 3, done.stderr
    assert REFUSED in error_line(done.stderr) and "PASSED" not in done.stdout


def test_an_unknown_level_is_wrong_usage(tmp_path: Path) -> None:
    done = warpsmith(lay_out(tmp_path), tmp_path / "cache", *JUDGE, "--least-isolation", "chroot")
    assert done.returncode == 2
    assert "unknown sandbox 'chroot'" in error_line(done.stderr)


def test_the_level_in_force_stands_in_the_verdict(tmp_path: Path, shared_caches: Path) -> None:
    level = best_available().name
    done = warpsmith(lay_out(tmp_path), shared_caches, *JUDGE, "--least-isolation", level)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["isolation"] == level
