"""Flags, logs, ptxas reports, toolchain lookup."""

import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.compile.log import trimmed, undefined_references
from warpsmith.compile.options import merged, nvcc_flags
from warpsmith.compile.ptxas import split_report
from warpsmith.compile.toolchain import cxx_version, find_cxx, find_nvcc, nvcc_version, require_cuda
from warpsmith.errors import CompileFailedError, InfrastructureError


def _settings(flags):
    return {"warpsmith.toml": f"[compile]\nnvcc_flags = {flags}\n".replace("'", '"')}


@pytest.mark.parametrize(
    "flag",
    "--use_fast_math -lineinfo -maxrregcount=64 --fmad=false -DTILE=32 -DFLAG -DV=1.5e-3 -std=c++20 -O0 -O3 "
    "--expt-relaxed-constexpr --extra-device-vectorization".split(),
)
def test_allowed_flags(flag):
    assert nvcc_flags(_settings([flag])) == (flag,)


@pytest.mark.parametrize(
    "flag",
    [
        "-Xcompiler=-O3",
        "-I/etc",
        "-D=1",
        "-DX=$(id)",
        "-DX=a b",
        "-o",
        "-maxrregcount=x",
        "-include x",
        "@f",
        "",
        "-O9",
    ],
)
def test_refused_flags(flag):
    with pytest.raises(CompileFailedError, match=r"warpsmith.toml: nvcc flag .* is not allowed") as caught:
        nvcc_flags(_settings([flag]))
    assert repr(flag) in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "[compile",
        "[compile]\nflags = 1",
        "[build]\n",
        "compile = 3",
        "[compile]\nnvcc_flags = '-O3'",
        "[compile]\nnvcc_flags = [3]",
    ],
)
def test_unreadable_settings(text):
    with pytest.raises(CompileFailedError, match=r"^warpsmith.toml: "):
        nvcc_flags({"warpsmith.toml": text})


def test_own_level_and_standard_replace_the_defaults():
    assert nvcc_flags({}) == ()
    assert merged(("-O3", "-std=c++17"), ("-O1", "-DX")) == ("-std=c++17", "-O1", "-DX")
    assert merged(("-O3", "-std=c++17"), ("--std=c++20",)) == ("-O3", "--std=c++20")


_REPORT = """\
ptxas info    : 0 bytes gmem, 8 bytes cmem[4]
ptxas info    : Compiling entry function '_Z1av' for 'sm_90'
ptxas info    : Function properties for _Z1av
    40 bytes stack frame, 36 bytes spill stores, 52 bytes spill loads
ptxas info    : Used 24 registers, used 1 barriers, 40 bytes cumulative stack size, 1024 bytes smem
ptxas info    : Compile time = 3.2 ms
k.cu(3): warning #177-D: variable "x" was declared but never referenced
ptxas info    : Compiling entry function '_Z1bv' for 'sm_90'
ptxas info    : Function properties for _Z6helperv
    8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 255 registers, used 0 barriers
"""


def test_ptxas_report():
    kernels, rest = split_report(_REPORT)
    assert [
        (k.kernel, k.registers, k.spill_store_bytes, k.spill_load_bytes, k.shared_bytes) for k in kernels
    ] == [
        ("_Z1av", 24, 36, 52, 1024),
        ("_Z1bv", 255, 0, 0, 0),
    ]
    assert rest == 'k.cu(3): warning #177-D: variable "x" was declared but never referenced'


def test_errors_stand_before_warnings_with_their_context():
    output = (
        "a.cu(1): warning #1: unused\n  int x;\n      ^\n\n"
        "In file included from b.cu:3:\nx.cuh: In function ‘int f()’:\nx.cuh:9:2: error: no\n   9 | bad\n"
        '1 error detected in the compilation of "b.cu".\n'
    )
    assert trimmed(output).splitlines() == [
        "In file included from b.cu:3:",
        "x.cuh: In function ‘int f()’:",
        "x.cuh:9:2: error: no",
        "   9 | bad",
        "a.cu(1): warning #1: unused",
        "  int x;",
        "      ^",
    ]


@given(
    st.lists(
        st.sampled_from(["a.cu(1): error: " + "x" * 500, "b.cu(2): warning: y", "  code", "", "\0é"]),
        max_size=400,
    )
)
def test_log_is_bounded_whatever_comes(lines):
    text = trimmed("\n".join(lines))
    assert len(text) <= 6200
    if any("error" in line for line in lines):
        assert "error" in text


def test_undefined_references():
    text = "x.o: in f:\nx.cu:(.text+0x1): undefined reference to `g(int)'\n: undefined reference to `g(int)'"
    assert undefined_references(text) == ("g(int)",)


def _program(path, text="#!/bin/sh\nexit 0\n"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_nvcc_is_found_in_cuda_home_first_then_on_path(tmp_path, monkeypatch):
    home = _program(tmp_path / "home/bin/nvcc", "#!/bin/sh\necho 'release 12.4, V12.4.131'\n")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    assert find_nvcc() == home
    assert nvcc_version(home) == "12.4.131"
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "nowhere"))
    monkeypatch.setenv("CUDA_PATH", str(tmp_path / "home"))
    assert find_nvcc() == home
    monkeypatch.setenv("PATH", str(tmp_path / "home/bin"))
    monkeypatch.delenv("CUDA_PATH")
    assert find_nvcc() in (home, type(home)("/usr/local/cuda/bin/nvcc"))


def test_toolkit_without_headers_says_so(tmp_path, monkeypatch):
    if os.path.exists("/usr/local/cuda/include/cuda_runtime.h"):
        pytest.skip("this machine has a toolkit in the standard place")
    _program(tmp_path / "bin/nvcc")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    with pytest.raises(InfrastructureError, match="no CUDA headers"):
        require_cuda()


def test_cxx(tmp_path, monkeypatch):
    own = _program(tmp_path / "my-g++", "#!/bin/sh\necho 'my-g++ 12.2'\necho more\n")
    monkeypatch.setenv("CXX", str(own))
    assert find_cxx() == own
    assert cxx_version(own) == "my-g++ 12.2"
    monkeypatch.setenv("CXX", "ccache g++")
    assert find_cxx() is None or find_cxx().name in ("g++", "c++")
    broken = _program(tmp_path / "broken", "#!/bin/sh\nexit 3\n")
    with pytest.raises(InfrastructureError, match="does not run"):
        cxx_version(broken)
