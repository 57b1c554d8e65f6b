"""A set keeps what it was given, byte for byte the same each time, and splits by structure."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.synthesis.small import estimate, written

from warpsmith import tasks
from warpsmith.errors import TaskUnreadableError, UsageError
from warpsmith.synthesis.bands import band_of, read_pass_rates
from warpsmith.synthesis.card import card
from warpsmith.synthesis.dataset import VALIDATION_SHARE, read_set, row_of, split_of, write_parquet
from warpsmith.synthesis.records import Band, FilterRow, GpuTimes, Split
from warpsmith.tasks import synthesized
from warpsmith.types import Device, TaskSource, sha256_hex

TIMES = GpuTimes(gpu="NVIDIA H200", torch="2.13.0", eager_ms=6.0, compile_ms=2.0, peak_bytes=1 << 33)


def row(number: int, *, measured: bool = False, ops: tuple[str, ...] = ("torch.exp",)):
    task = written(f"return torch.exp(x) + {number}", ops=ops)
    said = FilterRow(task_hash=task.task_hash, device=Device.CUDA, filter_version=1, times=TIMES)
    return row_of(task, "graph-" + sha256_hex(str(number)), [said] if measured else [])


ROWS = [row(0), row(1, measured=True), row(2, ops=("torch.exp", "torch.add", "torch.nn.GELU"))]


def test_round_trip(tmp_path):
    write_parquet(ROWS, tmp_path / "a.parquet")
    write_parquet(ROWS, tmp_path / "b.parquet")
    assert read_set(tmp_path / "a.parquet") == ROWS
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_the_published_columns_come_first_and_as_they_were(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    write_parquet(ROWS, tmp_path / "set.parquet")
    table = parquet.read_table(tmp_path / "set.parquet")
    assert table.column_names[:3] == ["ops", "data_source", "code"]
    assert table.column("ops")[2].as_py() == ["torch.exp", "torch.add", "torch.nn.GELU"]
    assert table.column("measured").to_pylist() == [False, True, False]


def test_what_was_measured_replaces_the_estimate():
    assert ROWS[0].fusion_gain == estimate().fusion_gain == 3.0 and not ROWS[0].measured
    assert ROWS[1].fusion_gain == 6.0 / 2.0 and ROWS[1].times == (TIMES,)


def test_a_pass_rate_decides_the_band(tmp_path):
    path = tmp_path / "rates.jsonl"
    task = written("return torch.exp(x)", ops=("torch.exp",) * 5)
    path.write_text(f'{{"task_hash": "{task.task_hash}", "pass_rate": 0.6, "policy": "ours"}}\n')
    rates = read_pass_rates(path)
    solved = row_of(task, "graph-" + sha256_hex("5"), [], rates[task.task_hash])
    assert (solved.band, solved.pass_rate) == (Band.EASY, 0.6)
    assert row_of(task, "graph-" + sha256_hex("5")).band is Band.EXPERT
    write_parquet([solved], tmp_path / "set.parquet")
    assert read_set(tmp_path / "set.parquet") == [solved]
    path.write_text('{"task_hash": "x", "pass_rate": 60}\n')
    with pytest.raises(UsageError, match="holds no pass rates"):
        read_pass_rates(path)


@given(st.lists(st.integers(0, 2**64), min_size=1, max_size=40))
def test_one_structure_is_never_in_two_splits(numbers):
    found = {}
    for number in numbers:
        fingerprint = f"graph-{sha256_hex(str(number % 7))}"
        assert found.setdefault(fingerprint, split_of(fingerprint)) is split_of(fingerprint)


def test_the_validation_share():
    splits = [split_of(f"syntax-{sha256_hex(str(number))}") for number in range(4000)]
    assert abs(splits.count(Split.VALIDATION) / 4000 - VALIDATION_SHARE) < 0.012


@pytest.mark.parametrize(
    ("operators", "fields", "band"),
    [
        (1, {"cost": estimate(3.0, 1.0)}, Band.EASY),
        (2, {"cost": estimate(3.0, 2.0)}, Band.MEDIUM),
        (2, {"cost": estimate(3.0, 2.9)}, Band.HARD),
        (2, {"cost": estimate(3.0, 2.0, flops=10)}, Band.HARD),
        (5, {"cost": estimate(3.0, 1.0)}, Band.EXPERT),
        (2, {"cost": estimate(3.0, 2.9), "fusion_gain": 4.0}, Band.EASY),
        (5, {"pass_rate": 0.9}, Band.EASY),
        (1, {"pass_rate": 0.01}, Band.EXPERT),
    ],
)
def test_bands(operators, fields, band):
    assert band_of(operators, **fields) is band


def test_the_set_is_a_source_of_tasks(tmp_path):
    path = tmp_path / "set.parquet"
    write_parquet(ROWS, path)
    found = tasks.load_all(f"synth:{path}")
    assert [task.code for task in found] == [r.code for r in ROWS]
    assert {task.source for task in found} == {TaskSource.SYNTHESIZED}
    assert tasks.load(f"synth:{path}#2").code == ROWS[1].code
    assert tasks.load(f"synth:{path}#measured=true").problem_id == 2
    by_band = tasks.load_all(f"synth:{path}#band={ROWS[0].band}|{ROWS[2].band},data_source=torch#1")
    assert by_band and all(task.problem_id in (1, 2, 3) for task in by_band)
    with pytest.raises(TaskUnreadableError, match="no row of that kind"):
        tasks.load_all(f"synth:{path}#data_source=nothing")
    with pytest.raises(TaskUnreadableError, match="selects nothing"):
        tasks.load_all(f"synth:{path}#colour=red")


def test_a_published_set_of_three_columns_is_read_too(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "published.parquet"
    code = written("return torch.exp(x)").code
    sources = ("torch#1", "torch#2", "torch#5", "transformers")
    rows = [{"ops": "['torch.exp']", "data_source": source, "code": code} for source in sources]
    parquet.write_table(arrow.Table.from_pylist(rows), path)
    task = tasks.load_all(f"synth:{path}")[0]
    assert (task.source, task.name) == (TaskSource.OPS6K, "torch#1_1")
    by_band = {
        band.value: [found.problem_id for found in tasks.load_all(f"synth:{path}#band={band}")]
        for band in (Band.EASY, Band.MEDIUM, Band.EXPERT)
    }
    assert by_band == {"easy": [1, 4], "medium": [2], "expert": [3]}
    assert synthesized.BANDS == tuple(band_of(count).value for count in (1, 2, 3, 4)) == tuple(Band)
    with pytest.raises(TaskUnreadableError, match="no column split"):
        tasks.load_all(f"synth:{path}#split=train")
    (tmp_path / "no.parquet").write_bytes(b"nothing")
    with pytest.raises(TaskUnreadableError, match="as parquet"):
        tasks.load_all(f"synth:{tmp_path / 'no.parquet'}")


def test_the_card_counts_what_is_there():
    text = card(ROWS, None, {"sim": {"constant_output": 4, "passed": 3}})
    assert (
        "3 tasks in KernelBench's form" in text and "1 rows were also run at full size (NVIDIA H200)" in text
    )
    assert "| torch#1 | 3 |" in text and "| constant_output | 4 |" in text
