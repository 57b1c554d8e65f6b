"""ncu's table: what is read of it, and what is refused."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.judge.instruments.ncu_table import (
    INSTALLED,
    TableError,
    folders,
    launcher,
    not_permitted,
    read_table,
    remark,
)

NAMES = (
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size",
    "Device", "CC", "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "gpu__time_duration.sum",
    "l1tex__t_sector_hit_rate.pct", "launch__registers_per_thread", "lts__t_sector_hit_rate.pct",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed", "sm__warps_active.avg.pct_of_peak_sustained_active",
    "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_long_scoreboard_not_issued_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_selected_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_sleeping_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_drain_per_issue_active.ratio",
)  # fmt: skip
UNITS = ("",) * 11 + ("%", "ns", "%", "register/thread", "%", "%", "%") + ("inst",) * 7


def line(*cells: str) -> str:
    return ",".join('"' + cell.replace('"', '""') + '"' for cell in cells)


def launch(i: int, kernel: str, *values: str) -> str:
    return line(
        str(i),
        "77",
        "python3.12",
        "127.0.0.1",
        kernel,
        "1",
        "7",
        "(256, 1, 1)",
        "(9, 1, 1)",
        "0",
        "9.0",
        *values,
    )


SCALE = "void scale<float, (int)4>(T1 *, const T1 *)"
ADD = 'add(float *, "x", int)'
LOG = "\n".join(
    [
        "==PROF== Connected to process 77 (/usr/bin/python3.12)",
        '==PROF== Profiling "scale" - 0: 0%....50%....100% - 8 passes',
        "==PROF== Disconnected from process 77",
        line(*NAMES),
        line(*UNITS),
        launch(
            0, ADD, "40.5", "2,000", "0", "16", "33.25", "7.5", "61", "0", "9", "11.5", "1", "0", "2.5", "0.1"
        ),
        launch(
            1, SCALE, "91", "40,960.00", "12", "32", "n/a", "22", "88.5", "3", "9", "21", "1", "0", "2", "0.5"
        ),
        launch(2, SCALE, "93", "43,008", "14", "32", "", "24", "89.5", "5", "9", "23", "1", "0", "2", "0.5"),
        "",
    ]
)


def test_launches_of_a_kernel_are_one_mean_and_the_longest_comes_first() -> None:
    scale, add = read_table(LOG)
    assert (scale.kernel, scale.launches, add.kernel, add.launches) == (SCALE, 2, ADD, 1)
    assert scale.duration_us == pytest.approx(41.984) and add.duration_us == pytest.approx(2.0)
    assert (scale.dram_percent, scale.sm_percent, scale.occupancy_percent) == (92, 23, 89)
    assert (scale.registers, scale.l1_hit_percent, scale.l2_hit_percent) == (32, 13, None)
    assert [(s.reason, s.cycles) for s in scale.stalls] == [
        ("long_scoreboard", 22),
        ("barrier", 4),
        ("wait", 2),
    ]
    assert [s.reason for s in add.stalls] == ["long_scoreboard", "wait", "drain"]


@pytest.mark.parametrize(
    ("unit", "expected"), [("ns", 2.0), ("nsecond", 2.0), ("us", 2000.0), ("msecond", 2e6)]
)
def test_a_duration_is_in_the_unit_that_its_row_names(unit: str, expected: float) -> None:
    found = {k.kernel: k for k in read_table(LOG.replace('"ns"', f'"{unit}"'))}
    assert found[ADD].duration_us == pytest.approx(expected)


def test_no_launch_is_no_kernel() -> None:
    assert read_table("") == ()
    assert read_table("==WARNING== No kernels were profiled.\n") == ()
    assert read_table("\n".join(LOG.splitlines()[:5])) == ()


BROKEN = {
    "a row cut short": LOG.rstrip().rpartition(",")[0],
    "a quote that is not closed": LOG.rstrip()[:-1],
    "no row of units": "\n".join(x for x in LOG.splitlines() if "register/thread" not in x),
    "an unknown unit": LOG.replace('"ns"', '"fortnight"'),
    "words for a number": LOG.replace('"33.25"', '"plenty"'),
    "another page": '"ID","Section Name","Metric Name"\n"","",""\n',
    "a name twice": LOG.replace('"lts__t_sector_hit_rate.pct"', '"l1tex__t_sector_hit_rate.pct"'),
    "what a program printed": "hello\n" + LOG,
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_is_not_the_documented_table_is_refused(what: str) -> None:
    with pytest.raises(TableError):
        read_table(BROKEN[what])


@given(st.text(max_size=300))
def test_any_text_is_a_table_or_refused(text: str) -> None:
    for found in (text, LOG[:700] + text, LOG + text):
        try:
            read_table(found)
        except TableError as error:
            assert str(error)


def test_the_log_tells_errors_and_missing_permission() -> None:
    denied = (
        "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters "
        "on the target device 0.\n"
    )
    assert not_permitted("==PROF== Connected\n" + denied) and not not_permitted(LOG)
    assert remark("==PROF== x\n==ERROR== The application returned an error code (11).\n") == (
        "The application returned an error code (11)."
    )
    assert remark(LOG) == ""


def test_the_table_is_asked_for_last(tmp_path: Path) -> None:
    argv = launcher("/opt/ncu", tmp_path / "ncu.csv")
    assert argv[0] == "/opt/ncu" and argv[-2:] == ("--log-file", str(tmp_path / "ncu.csv"))
    metrics = argv[argv.index("--metrics") + 1].split(",")
    assert set(metrics) <= set(NAMES) and len(metrics) == 7


def test_what_the_program_needs_to_see_is_never_all_of_a_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_PATH", raising=False)
    toolkit = tmp_path / "cuda"
    for folder in (toolkit, tmp_path):
        (folder / "bin").mkdir(parents=True)
        (folder / "bin" / "ncu").write_text("")
    monkeypatch.setenv("CUDA_HOME", str(toolkit))
    system = [INSTALLED[1]] if Path(INSTALLED[1]).is_dir() else []
    assert folders(f"{toolkit}/bin/ncu") == (f"{toolkit}/bin", str(toolkit), *system)
    assert folders(f"{tmp_path}/bin/ncu") == (f"{tmp_path}/bin", *system)
