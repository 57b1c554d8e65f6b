from pathlib import Path

import pytest

from warpsmith.errors import InfrastructureError
from warpsmith.judge.timing.baselines import BaselineIdentity, BaselineStore, measured
from warpsmith.judge.timing.clock import Samples, time_stats
from warpsmith.types import BaselineKind

IDENTITY = BaselineIdentity(
    task_hash="t", mode="tf32", kind=BaselineKind.EAGER, gpu_uuid="GPU-1", driver="580", torch="2.11"
)
STATS = time_stats(Samples(1, (1.0, 1.2, 1.1)), 0.1)


def test_a_baseline_comes_back_for_exactly_its_identity(tmp_path: Path) -> None:
    store = BaselineStore(tmp_path / "b")
    assert store.get(IDENTITY) is None
    store.put(measured(IDENTITY, STATS))
    assert store.get(IDENTITY).stats == STATS


@pytest.mark.parametrize("field", ["task_hash", "mode", "kind", "gpu_uuid", "driver", "torch", "protocol"])
def test_a_baseline_from_elsewhere_is_refused_even_under_the_right_name(tmp_path: Path, field: str) -> None:
    store = BaselineStore(tmp_path)
    store.put(measured(IDENTITY, STATS))
    changed = {"protocol": 99, "kind": BaselineKind.COMPILE}.get(field, "other")
    other = IDENTITY.model_copy(update={field: changed})
    assert store.get(other) is None
    # Copied over by hand: the file's own identity decides, not its name.
    (source,) = tmp_path.iterdir()
    store.put(measured(other, STATS))
    (target,) = set(tmp_path.iterdir()) - {source}
    target.write_bytes(source.read_bytes())
    assert store.get(other) is None


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff\xff", b'{"stats": 1'])
def test_a_damaged_file_is_as_good_as_none(tmp_path: Path, content: bytes) -> None:
    store = BaselineStore(tmp_path)
    store.put(measured(IDENTITY, STATS))
    next(tmp_path.iterdir()).write_bytes(content)
    assert store.get(IDENTITY) is None


def test_a_place_that_takes_nothing_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InfrastructureError, match="Not a directory"):
        BaselineStore(tmp_path / "file" / "b").put(measured(IDENTITY, STATS))
