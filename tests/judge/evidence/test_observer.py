"""The observer of operators, compiled and loaded in a process of its own."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.judge import observed

from warpsmith.compile.toolchain import require_cxx, require_torch
from warpsmith.judge.evidence import operators
from warpsmith.judge.evidence.observer import build
from warpsmith.judge.evidence.observer.client import Observer
from warpsmith.judge.evidence.observer.parts import KERNELS, OPERATORS, library

OWN = """
#include <ATen/ops/add.h>
#include <torch/library.h>

// an own operator that computes with torch's in one call of five
at::Tensor sometimes(const at::Tensor& x, int64_t call) { return call == 3 ? at::add(x, x) : x; }

TORCH_LIBRARY(samples_own, m) { m.def("sometimes", &sometimes); }
"""


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both parts, laid out."""
    folder = tmp_path_factory.mktemp("laid") / "observer"
    build.lay_out(tmp_path_factory.mktemp("cache"), folder)
    return folder


def run(*arguments: object) -> dict:
    argv = [sys.executable, observed.__file__, *map(str, arguments)]
    return json.loads(subprocess.run(argv, capture_output=True, text=True, timeout=200, check=True).stdout)


@pytest.fixture(scope="module")
def seen(libraries: Path) -> dict:
    """What every sample showed."""
    return run(libraries)


def test_both_parts_are_built_and_the_one_for_operators_starts(libraries: Path, seen: dict) -> None:
    assert sorted(path.name for path in libraries.iterdir()) == ["kernels.so", "operators.so"]
    assert seen["problems"] == {OPERATORS: "", KERNELS: "kernels run on the CPU here"}


@pytest.mark.parametrize("name", [*observed.ALLOWED, *observed.COMPUTING])
def test_both_observers_decide_alike(seen: dict, name: str) -> None:
    native, mode = (operators.outcome(seen[name][how]) for how in ("native", "mode"))
    assert native == mode
    assert native.passed is (name in observed.ALLOWED), native.detail


@pytest.mark.parametrize(
    "name", ["@", "convolution", "softmax", "in place", "item", "empties", "fills", "lstm"]
)
def test_and_count_alike(seen: dict, name: str) -> None:
    assert seen[name]["native"] == seen[name]["mode"]


@pytest.mark.parametrize(
    ("name", "operator"),
    [
        ("ctypes", "aten.relu_.default"),
        ("thread", "aten.exp.default"),
        ("scope", "aten.cos.default"),
        ("replaced", "aten.mm.default"),
    ],
)
def test_what_a_dispatch_mode_could_miss_is_seen(seen: dict, name: str, operator: str) -> None:
    assert seen[name]["native"][operator] == 1
    assert not operators.outcome(seen[name]["native"]).passed


def test_an_observer_that_was_switched_off_says_so(seen: dict) -> None:
    assert seen["switched off"] == [OPERATORS]
    assert all(not seen[name]["blind"] for name in observed.ALLOWED)


def test_a_call_of_at_in_one_call_of_five_is_seen_in_that_call(libraries: Path, tmp_path: Path) -> None:
    torch = require_torch()
    source, built = tmp_path / "own.cpp", tmp_path / "own.so"
    source.write_text(OWN)
    includes = [word for path in torch.includes for word in ("-isystem", str(path))]
    argv = [
        str(require_cxx()),
        "-O0",
        "-fPIC",
        "-shared",
        f"-std={torch.cxx_standard}",
        *includes,
        str(source),
    ]
    subprocess.run([*argv, "-o", str(built), f"-L{torch.lib}", "-ltorch_cpu", "-lc10"], check=True)
    found = run(libraries, built)
    assert [found[f"own {i}"]["native"] for i in range(5)] == [{}, {}, {}, {"aten.add.Tensor": 1}, {}]


def test_concurrent_first_uses_build_once_and_agree(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        paths = list(pool.map(lambda _: build.built(tmp_path, KERNELS), range(4)))
    assert len(set(paths)) == 1 and paths[0].is_file()


def test_without_a_compiler_the_reason_lies_in_the_librarys_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.delenv("CXX", raising=False)
    build.lay_out(tmp_path / "cache", tmp_path / "observer", {KERNELS: "not wanted"})
    observer = Observer("cuda")
    observer.start(tmp_path / "observer")
    assert observer.problems == {KERNELS: "not wanted", OPERATORS: "no C++ compiler found"}
    assert not observer.counts_operators and observer.read() == {"problems": observer.problems, "blind": []}


def test_a_library_that_does_not_load_is_a_reason_too(tmp_path: Path) -> None:
    library(tmp_path, OPERATORS).write_text("not a library")
    observer = Observer("cpu")
    observer.start(tmp_path)
    assert observer.problems[OPERATORS].startswith("the observer does not load: ")
