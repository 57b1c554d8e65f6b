"""The observer of kernels against a CUPTI that says what it is told to."""

import ctypes
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from warpsmith.compile.toolchain import require_cxx
from warpsmith.judge.evidence.observer import build
from warpsmith.judge.evidence.observer.client import MOST_ENTRIES, NAME_BYTES, Observer, cupti_libraries
from warpsmith.judge.evidence.observer.parts import KERNELS, library

KERNEL, MEMCPY, MEMSET = 10, 1, 2


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The observer's library."""
    return build.built(tmp_path_factory.mktemp("cache"), KERNELS)


@pytest.fixture(scope="module")
def fakes(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """`fakes(*macros)`: a fake CUPTI compiled with them."""
    folder = tmp_path_factory.mktemp("fakes")

    def compiled(*macros: str) -> Path:
        path = folder / ("cupti" + "".join(macros) + ".so")
        if not path.exists():
            source = Path(__file__).parent / "fake_cupti.cpp"
            flags = ["-std=c++17", "-O1", "-fPIC", "-shared", *macros]
            argv = [str(require_cxx()), *flags, str(source)]
            subprocess.run([*argv, "-o", str(path)], check=True)
        return path

    return compiled


class Gpu:
    """A fake GPU and the observer that watches it; libraries of their own, since what they hold is global."""

    def __init__(self, folder: Path, built: Path, fake: Path):
        shutil.copyfile(built, library(folder, KERNELS))
        self.path = folder / "libcupti.so.13"
        shutil.copyfile(fake, self.path)
        self.fake = ctypes.CDLL(str(self.path))
        self.fake.fake_record.argtypes = [
            ctypes.c_uint32, ctypes.c_char_p, ctypes.c_uint8, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int,
        ]  # fmt: skip
        self.observer = Observer("cuda")
        self._folder = folder
        self._names: list[bytes] = []

    def start(self) -> "Gpu":
        self.observer.start(self._folder, [self.path])
        self.observer.check_sight(lambda: self.ran("probe"))
        return self

    def ran(self, name: str, start: int = 100, end: int = 200, count: int = 1) -> None:
        # CUPTI keeps names alive as long as their module is loaded
        self._names.append(name.encode())
        self.fake.fake_record(KERNEL, self._names[-1], 0, start, end, count)

    def arm(self) -> None:
        self.ran("probe")
        self.observer.arm()

    def read(self) -> dict:
        self.observer.hold()
        return self.observer.read()


@pytest.fixture
def gpu(tmp_path: Path, built: Path, fakes: Callable[..., Path]) -> Gpu:
    """A GPU of CUPTI 13.0."""
    return Gpu(tmp_path, built, fakes())


def test_kernels_copies_and_fills_are_summed_by_name_from_the_arming_on(gpu: Gpu) -> None:
    gpu.start().arm()
    gpu.ran("a", 100, 350, count=2)
    gpu.ran("b", 5, 6)
    gpu.fake.fake_record(MEMCPY, None, 8, 10, 30, 1)
    gpu.fake.fake_record(MEMSET, None, 0, 10, 17, 3)
    message = gpu.read()
    named = {(kind, message["names"][str(i)]): rest for i, kind, *rest in message["kernels"]}
    assert named == {
        ("K", "a"): [2, 500, 0], ("K", "b"): [1, 1, 0], ("C", "DtoD"): [1, 20, 0], ("S", "memset"): [3, 21, 0],
    }  # fmt: skip
    assert message["lost"] == 0 and message["blind"] == [] and message["problems"][KERNELS] == ""


def test_a_name_is_sent_once(gpu: Gpu) -> None:
    gpu.start().arm()
    gpu.ran("a")
    first = gpu.read()
    gpu.arm()
    gpu.ran("a")
    gpu.ran("b")
    second = gpu.read()
    assert [first["names"], second["names"]] == [{"0": "a"}, {"1": "b"}]
    assert sorted(entry[0] for entry in second["kernels"]) == [0, 1]


def test_many_buffers_are_taken_in_and_used_again(gpu: Gpu) -> None:
    gpu.start().arm()
    # 216 bytes a record: some 40 buffers of a MiB, more than there are at once in the end
    for _ in range(10):
        gpu.ran("a", count=20_000)
        gpu.ran("b", count=20_000)
    message = gpu.read()
    assert [entry[2:4] for entry in message["kernels"]] == [[200_000, 20_000_000]] * 2
    assert message["lost"] == 0


def test_records_without_a_buffer_are_counted_as_lost(gpu: Gpu) -> None:
    gpu.start().arm()
    assert gpu.fake.fake_exhaust() == 64
    gpu.ran("a", count=7)
    message = gpu.read()
    assert (message["kernels"], message["lost"]) == ([], 7)


def test_a_record_without_times_is_no_time_of_zero(gpu: Gpu) -> None:
    gpu.start().arm()
    gpu.ran("a", 0, 0)
    gpu.ran("a", 50, 40)
    assert gpu.read()["kernels"] == [[0, "K", 2, 0, 2]]


def test_a_name_of_many_lines_stays_one_entry(gpu: Gpu) -> None:
    gpu.start().arm()
    gpu.ran("evil\nK\t9\t9\t0\tforged")
    message = gpu.read()
    assert message["names"] == {"0": "evil?K?9?9?0?forged"} and len(message["kernels"]) == 1


def test_messages_stay_small(gpu: Gpu) -> None:
    gpu.start().arm()
    for i in range(MOST_ENTRIES + 50):
        gpu.ran(f"{i:05d}" + "x" * 300)
    first = gpu.read()
    assert len(first["kernels"]) == MOST_ENTRIES and first["lost"] == 50
    assert NAME_BYTES <= sum(map(len, first["names"].values())) < NAME_BYTES + 400
    names = dict(first["names"])
    for _ in range(10):
        gpu.arm()
        names |= gpu.read()["names"]
    assert len(names) == MOST_ENTRIES


def test_a_cupti_that_another_tool_has_taken_is_blind_not_zero(gpu: Gpu) -> None:
    gpu.start().fake.fake_sleep(1)
    gpu.arm()
    gpu.ran("a")
    message = gpu.read()
    assert message["blind"] == [KERNELS] and message["kernels"] == []
    gpu.fake.fake_sleep(0)
    gpu.arm()
    gpu.fake.fake_flush_status(999)
    assert gpu.read()["blind"] == [KERNELS]


def test_one_that_sees_no_kernel_is_not_used(gpu: Gpu) -> None:
    gpu.fake.fake_sleep(1)
    gpu.start()
    assert gpu.observer.problems[KERNELS] == "CUPTI sees no kernel on this machine"
    assert "kernels" not in gpu.read()


def test_one_that_may_not_be_enabled_gives_its_reason(gpu: Gpu) -> None:
    gpu.fake.fake_refuse(35)
    gpu.start()
    assert gpu.observer.problems[KERNELS] == "cuptiActivityEnable: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES (35)"


@pytest.mark.parametrize(
    ("macro", "reason"),
    [
        ("-DVERSION=140000", "the records of CUPTI version 140000 are not known"),
        ("-DVERSION=8", "the records of CUPTI version 8 are not known"),
        ("-DWITHOUT_FLUSH", "lacks an activity function"),
    ],
)
def test_one_that_is_not_understood_is_not_used(
    tmp_path: Path, built: Path, fakes: Callable[..., Path], macro: str, reason: str
) -> None:
    gpu = Gpu(tmp_path, built, fakes(macro)).start()
    assert reason in gpu.observer.problems[KERNELS]
    assert "kernels" not in gpu.read()


def test_where_there_is_none_the_reason_is_said(tmp_path: Path, built: Path) -> None:
    shutil.copyfile(built, library(tmp_path, KERNELS))
    observer = Observer("cuda")
    observer.start(tmp_path, [])
    assert observer.problems[KERNELS] == "no CUPTI on this machine"
    observer = Observer("cuda")
    observer.start(tmp_path, [tmp_path / "libcupti.so.13"])
    assert "cannot open shared object file" in observer.problems[KERNELS]


def test_the_real_one_starts_or_says_why_not(tmp_path: Path, built: Path) -> None:
    if not cupti_libraries():
        pytest.skip("no CUPTI here")
    shutil.copyfile(built, library(tmp_path, KERNELS))
    code = (
        "import sys, pathlib; from warpsmith.judge.evidence.observer.client import Observer; o = Observer('cuda'); "
        "o.start(pathlib.Path(sys.argv[1])); print(repr(o.problems['kernels']))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
    assert "not known" not in ran.stdout and "lacks" not in ran.stdout
