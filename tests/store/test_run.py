"""The run folder: exact round trips, resumption, and what a kill leaves behind."""

import math
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.errors import InfrastructureError, RunLockedError, UsageError
from warpsmith.store import Manifest, RunReader, RunStore
from warpsmith.types import (
    Device,
    Episode,
    ErrorStats,
    Phase,
    Reward,
    Rules,
    Status,
    StopReason,
    Submission,
    Turn,
    Verdict,
)

MANIFEST = Manifest(
    command="optimize",
    task_hash="t" * 64,
    task_name="axpby",
    policy="builtin",
    device=Device.SIM,
    settings={"checks": 5, "rules": "practical"},
    versions={"warpsmith": "0.1.0"},
    started_at="2025-01-01T00:00:00Z",
)


def a_turn(index: int, note: str = "fused") -> Turn:
    return Turn(index=index, note=note, submission_hash="s", verdict_hash="v", seconds=0.1 + index)


def a_verdict(status: Status = Status.WRONG, rel: float = 0.5, submission: str = "s") -> Verdict:
    return Verdict(
        status=status,
        device=Device.SIM,
        rules=Rules.PRACTICAL,
        task_hash="t",
        submission_hash=submission,
        phase=Phase.CORRECTNESS,
        detail="differs at out[0][3]",
        error=ErrorStats(rel=rel, max_abs=math.inf),
    )


def an_episode(number: int = 0) -> Episode:
    return Episode(
        episode_id=f"e{number}",
        policy="builtin",
        task_hash="t",
        task_name="axpby",
        device=Device.SIM,
        rules=Rules.PRACTICAL,
        turns=(a_turn(0), a_turn(1)),
        stop=StopReason.FINISHED,
        reward=Reward(milestone=1),
        started_at="2025-01-01T00:00:00Z",
        seconds=1 / 3,
    )


def fill(path: Path) -> None:
    with RunStore(path) as store:
        store.open(MANIFEST)
        store.append_turn("e0", a_turn(0, "line\nbreak, “quotes” and \0"))
        store.put_verdict(a_verdict(), "k")
        store.append_turn("e0", a_turn(1))
        store.put_episode(an_episode())


def test_what_was_put_comes_back_exactly(tmp_path):
    submission = Submission(files={"model_new.py": "class ModelNew: ...\n", "kernels/a.cu": "// ünïcode\n"})
    verdict = a_verdict(rel=0.1 + 0.2)
    with RunStore(tmp_path / "run") as store:
        store.open(MANIFEST)
        assert store.put_submission(submission) == submission.submission_hash
        assert store.put_verdict(verdict, "k") == verdict.content_hash
        store.append_turn("e0", a_turn(0))
        store.append_turn("e1", a_turn(0, "other"))
        store.put_episode(an_episode())
        log_hash = store.put_blob("nvcc says\n")
        in_memory = (store.turns(), store.verdicts(), store.episodes())
    read = RunReader(tmp_path / "run")
    assert (read.turns(), read.verdicts(), read.episodes()) == in_memory
    assert read.manifest == MANIFEST
    assert read.submission(submission.submission_hash) == submission
    assert read.blob(log_hash) == b"nvcc says\n"
    assert read.blob("0" * 64) is None
    assert read.turns("e1") == (a_turn(0, "other"),)
    assert read.verdicts() == (verdict,)
    assert read.verdict(verdict.content_hash) == verdict
    assert read.find_verdict("t", "s", "k") == verdict
    assert read.find_verdict("t", "s", "other settings") is None
    assert read.episodes() == (an_episode(),)


def test_nan_comes_back_as_nan(tmp_path):
    with RunStore(tmp_path) as store:
        store.open(MANIFEST)
        store.put_verdict(a_verdict(rel=math.nan), "k")
    (verdict,) = RunReader(tmp_path).verdicts()
    assert math.isnan(verdict.error.rel) and verdict.error.max_abs == math.inf


def test_an_infrastructure_verdict_is_kept_but_never_reused(tmp_path):
    with RunStore(tmp_path) as store:
        store.open(MANIFEST)
        store.put_verdict(a_verdict(Status.INFRASTRUCTURE), "k")
        assert store.find_verdict("t", "s", "k") is None
        store.put_verdict(a_verdict(Status.WRONG), "k")
        assert store.find_verdict("t", "s", "k").status is Status.WRONG
        assert len(store.verdicts()) == 2


def test_a_run_goes_on_where_it_stopped(tmp_path):
    fill(tmp_path)
    later = MANIFEST.model_copy(update={"versions": {"warpsmith": "0.2.0"}, "started_at": "later"})
    with RunStore(tmp_path) as store:
        store.open(later)
        assert store.find_verdict("t", "s", "k") == a_verdict()
        assert [t.index for t in store.turns("e0")] == [0, 1]
        store.append_turn("e0", a_turn(2))
    assert [t.index for t in RunReader(tmp_path).turns("e0")] == [0, 1, 2]
    assert RunReader(tmp_path).manifest == MANIFEST


def test_more_of_a_growing_setting_goes_on_and_each_session_says_what_was_asked(tmp_path):
    def asking(samples: object) -> Manifest:
        return MANIFEST.model_copy(update={"settings": {**MANIFEST.settings, "samples": samples}})

    for asked in (1, 3, 3):
        with RunStore(tmp_path) as store:
            store.open(asking(asked), growing=("samples",))
            assert store.manifest == asking(asked)
    kept = RunReader(tmp_path)
    assert kept.manifest == asking(3)
    assert [session.settings["samples"] for session in kept.sessions()] == [1, 3, 3]
    for fewer, growing in ((2, ("samples",)), (4, ()), (None, ("samples",))):
        with (
            RunStore(tmp_path) as store,
            pytest.raises(UsageError, match=f"settings.samples was 3, now {fewer}"),
        ):
            store.open(asking(fewer), growing=growing)
    assert RunReader(tmp_path).manifest == asking(3)


def test_another_run_is_refused_with_what_differs(tmp_path):
    fill(tmp_path)
    other = MANIFEST.model_copy(update={"policy": "llm", "settings": {"checks": 7, "rules": "practical"}})
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file() and p.name != "lock"}
    with RunStore(tmp_path) as store, pytest.raises(UsageError) as caught:
        store.open(other)
    assert str(caught.value) == (
        f"{tmp_path} holds another run: policy was 'builtin', now 'llm'; settings.checks was 5, now 7"
    )
    assert {p: p.read_bytes() for p in before} == before


def test_a_second_process_is_turned_away_and_a_killed_one_blocks_nobody(tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from warpsmith.store import RunStore\n"
        "with RunStore(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(RunLockedError, match=f"pid {holder.pid}") as caught, RunStore(tmp_path):
            pass
        assert "\n" not in str(caught.value)
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        with RunStore(tmp_path) as store:
            store.open(MANIFEST)
    finally:
        holder.kill()
        holder.stdout.close()
        holder.wait()


def test_truncated_at_every_byte_the_store_reopens_with_a_prefix(tmp_path):
    fill(tmp_path / "whole")
    whole = RunReader(tmp_path / "whole")
    (segment,) = (tmp_path / "whole/segments").iterdir()
    data = segment.read_bytes()
    ends = [i + 1 for i, byte in enumerate(data) if byte == ord("\n")]
    assert len(ends) == 5
    cut = tmp_path / "cut"
    shutil.copytree(tmp_path / "whole", cut)
    for size in range(len(data) + 1):
        (cut / "segments" / segment.name).write_bytes(data[:size])
        read = RunReader(cut)
        lines = sum(end <= size for end in ends)
        assert read.turns() == whole.turns()[: (lines >= 2) + (lines >= 4)]
        assert read.verdicts() == whole.verdicts()[: int(lines >= 3)]
        assert read.episodes() == whole.episodes()[: int(lines >= 5)]


@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.integers(0, 3000), min_size=1, max_size=4))
def test_killed_again_and_again_every_whole_record_stays_and_new_ones_are_added(tmp_path_factory, cuts):
    path = tmp_path_factory.mktemp("run")
    expected: list[Turn] = []
    for session, cut in enumerate(cuts):
        with RunStore(path) as store:
            store.open(MANIFEST)
            assert list(store.turns()) == expected
            for index in range(4):
                store.append_turn("e", a_turn(10 * session + index))
        newest = max((path / "segments").iterdir())
        data = newest.read_bytes()[:cut]
        newest.write_bytes(data)
        kept = max(0, data.count(b"\n") - 1)
        expected += [a_turn(10 * session + index) for index in range(kept)]
    assert list(RunReader(path).turns()) == expected


def test_a_torn_tail_of_zeros_is_dropped_and_damage_before_it_is_reported(tmp_path):
    fill(tmp_path)
    (segment,) = (tmp_path / "segments").iterdir()
    data = segment.read_bytes()
    segment.write_bytes(data + b"\0" * 512)
    assert len(RunReader(tmp_path).turns()) == 2
    second = data.index(b"\n") + 1
    segment.write_bytes(data[:second] + b"#" + data[second + 1 :])
    with pytest.raises(InfrastructureError, match=r"000001\.jsonl is damaged .* line \d"):
        RunReader(tmp_path)


def test_a_damaged_blob_is_never_handed_out(tmp_path):
    with RunStore(tmp_path) as store:
        store.open(MANIFEST)
        key = store.put_blob("text")
        (tmp_path / "blobs" / key[:2] / key).write_text("texT")
        with pytest.raises(InfrastructureError, match="is damaged"):
            store.blob(key)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_loses_nothing_that_was_stored(tmp_path):
    fill(tmp_path)
    with RunStore(tmp_path) as store:
        store.open(MANIFEST)
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, store._writer._fd)
        os.close(full)
        with pytest.raises(InfrastructureError, match="No space left on device"):
            store.append_turn("e0", a_turn(2))
        store.append_turn("e0", a_turn(3))
        assert [t.index for t in store.turns()] == [0, 1, 3]
    assert [t.index for t in RunReader(tmp_path).turns()] == [0, 1, 3]


def test_wrong_use_gets_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is not a folder"), RunStore(tmp_path / "file"):
        pass
    with pytest.raises(UsageError, match="is not a run folder"):
        RunReader(tmp_path)
    with pytest.raises(UsageError, match="was not opened"), RunStore(tmp_path / "run") as store:
        store.append_turn("e", a_turn(0))
    with pytest.raises(UsageError, match="is not locked"):
        RunStore(tmp_path / "run").open(MANIFEST)
    (tmp_path / "run/manifest.json").write_text("{}")
    with pytest.raises(InfrastructureError, match="is damaged"), RunStore(tmp_path / "run") as store:
        store.open(MANIFEST)
