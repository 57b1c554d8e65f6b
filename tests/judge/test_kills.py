"""kill -9 at random moments: no verdict is made by it that is not true, the next is right, nothing is left."""

import dataclasses
import os
import random
from pathlib import Path

import pytest
from tests.judge.kills import Kill, ground

from warpsmith.types import Status


def test_a_kill_at_any_moment_makes_no_verdict_and_the_next_judgement_is_right(
    tmp_path: Path, caches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARPSMITH_CACHE", str(caches))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    shared = set(os.listdir("/dev/shm"))
    chance = random.Random(5)
    with ground(scratch, caches) as held:
        for role in ("referee", "worker"):
            kill = dataclasses.replace(Kill.drawn(chance), role=role)
            verdict, killed = held.judged(held.judge, kill)
            assert verdict.status in kill.allowed(killed), (kill, killed, verdict.detail)
            after = held.plain(held.judge, wrong=False)
            assert after.status is Status.PASSED, (kill, after.detail)
    assert held.left() == []
    assert set(os.listdir("/dev/shm")) <= shared
