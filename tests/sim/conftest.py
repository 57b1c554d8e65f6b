"""Builds small CUDA sources for the simulator and loads them."""

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from warpsmith.sim.rewrite import rewrite_source
from warpsmith.sim.toolchain import EXPORTS_UNIT, SimToolchain

Build = Callable[..., "Built"]


class Built:
    """A loaded shared object: its launchers, and the error that the simulator kept."""

    def __init__(self, path: Path):
        self.path = path
        self.library = ctypes.CDLL(str(path))

    def take_error(self) -> tuple[int, str]:
        message = ctypes.create_string_buffer(512)
        code = self.library.warpsmith_take_error(message, ctypes.c_ulong(512))
        return code, message.value.decode()


def compile_unit(toolchain: SimToolchain, text: str, target: Path, *, sanitize: bool = False) -> Path:
    """An object file of already plain C++."""
    source = target.with_suffix(".cpp")
    source.write_text(text)
    argv = [toolchain.cxx(), *toolchain.compile_flags(sanitize), "-c", str(source), "-o", str(target)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture(scope="session")
def toolchain() -> SimToolchain:
    return SimToolchain()


@pytest.fixture(scope="session")
def runtime(toolchain: SimToolchain, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_unit(toolchain, EXPORTS_UNIT, tmp_path_factory.mktemp("runtime") / "runtime.o")


@pytest.fixture
def build(toolchain: SimToolchain, runtime: Path, tmp_path: Path) -> Build:
    """`build(text, …) -> Built`: one .cu text a translation unit, linked with the runtime."""

    def run(*texts: str) -> Built:
        objects = [
            compile_unit(toolchain, rewrite_source(text, f"unit{i}.cu"), tmp_path / f"unit{i}.o")
            for i, text in enumerate(texts)
        ]
        shared = tmp_path / "kernels.so"
        files = [str(path) for path in [*objects, runtime]]
        argv = [toolchain.cxx(), "-shared", "-o", str(shared), *files, *toolchain.link_flags()]
        done = subprocess.run([*argv, "-Wl,--no-undefined"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return Built(shared)

    return run
