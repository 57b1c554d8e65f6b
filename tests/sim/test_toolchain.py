"""Finding the compiler and the headers, and what is said where they are absent."""

from pathlib import Path

import pytest

from warpsmith.errors import InfrastructureError
from warpsmith.sim.toolchain import INCLUDE_DIR, SimToolchain


def test_flags_put_the_simulator_before_the_toolkit(toolchain: SimToolchain) -> None:
    flags = toolchain.compile_flags()
    assert flags.index(f"-I{INCLUDE_DIR}") < flags.index("-idirafter")
    assert "-fsanitize=address" not in flags
    assert "-fsanitize=address" in toolchain.compile_flags(sanitize=True)
    assert (toolchain.cuda_include()[0] / "cuda_runtime_api.h").is_file()


def test_fingerprint_is_stable_and_depends_on_the_headers(toolchain: SimToolchain, tmp_path: Path) -> None:
    assert toolchain.fingerprint() == SimToolchain().fingerprint()
    for name, text in {
        "cuda_runtime_api.h": "#define CUDART_VERSION 12090\n",
        "crt/host_defines.h": "",
        "nv/target": "",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert SimToolchain(cuda_include=tmp_path).fingerprint() != toolchain.fingerprint()


def test_absent_compiler_and_headers_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="no C\\+\\+ compiler") as caught:
        SimToolchain(cxx=str(tmp_path / "g++")).cxx()
    assert "install g++" in str(caught.value.hint)
    with pytest.raises(InfrastructureError, match="no CUDA headers") as caught:
        SimToolchain(cuda_include=tmp_path).compile_flags()
    assert "pip install" in str(caught.value.hint)
