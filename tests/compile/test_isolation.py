"""Compilers read the submission and their own files, and nothing else of the machine."""

import os
import subprocess
import sys

import pytest

from warpsmith.compile.isolation import default_sandbox, isolated, take
from warpsmith.compile.toolchain import require_cxx
from warpsmith.sandbox import LocalSandbox, python_paths
from warpsmith.types import CompileStatus, Submission
from warpsmith.types.protocols import SandboxSpec

_KERNEL = 'extern "C" void f_launcher(int* x, cudaStream_t s) { *x = 1; }\n'


@pytest.fixture
def sandbox():
    if default_sandbox().name == "none":
        pytest.skip("nothing on this machine isolates")
    return default_sandbox()


@pytest.mark.parametrize("device", ["sim", "nvcc"])
def test_a_computed_include_reads_nothing_outside(compiler, sandbox, device, request, tmp_path):
    secret = tmp_path / "secret.h"
    secret.write_text("#error the secret is out\n")
    text = f'#define WHERE "{secret}"\n#include WHERE\n{_KERNEL}'
    result = compiler.build(
        Submission(files={"model_new.py": "", "k.cu": text}), request.getfixturevalue(device)
    )
    assert result.status is CompileStatus.FAILED
    assert "secret.h: No such file or directory" in result.log
    assert "the secret is out" not in result.log


def test_an_assembler_include_reads_nothing_outside(compiler, sandbox, nvcc, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    text = f'asm(".section .rodata\\n.incbin \\"{secret}\\"\\n.text");\n{_KERNEL}'
    result = compiler.build(Submission(files={"model_new.py": "", "k.cu": text}), nvcc)
    assert result.status is CompileStatus.FAILED
    assert "secret" in result.log


def test_the_view_holds_what_the_arguments_name_and_can_be_left_out(tmp_path):
    sources, out = tmp_path / "sources", tmp_path / "out"
    sources.mkdir()
    out.mkdir()
    argv = [str(require_cxx()), "--version"]
    assert isolated(argv, LocalSandbox(), sources, sources, out, 10, 1 << 20) == argv
    ran = subprocess.run(
        isolated(argv, default_sandbox(), sources, sources, out, 10, 1 << 20), capture_output=True, text=True
    )
    assert ran.returncode == 0
    assert ran.stdout == subprocess.run(argv, capture_output=True, text=True).stdout


def test_only_a_file_of_bounded_size_is_taken(tmp_path):
    target = tmp_path / "target"
    (tmp_path / "file").write_text("12345")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    os.mkfifo(tmp_path / "pipe")
    refused = [(tmp_path / "file", 4)] + [(tmp_path / name, 99) for name in ("link", "pipe", "absent", ".")]
    assert not any(take(path, target, limit) for path, limit in refused)
    assert not target.exists()
    assert take(tmp_path / "file", target, 5)
    assert target.read_text() == "12345"


_BUILD_AT_HOME = """
from warpsmith.compile import LocalCompiler
from warpsmith.errors import InfrastructureError
try:
    LocalCompiler()
except InfrastructureError as error:
    print(error, "|", error.hint)
"""


def test_a_read_only_home_is_told_with_what_to_do(sandbox, tmp_path):
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    spec = SandboxSpec(cwd=str(home), read_only=(*python_paths(), str(home)))
    environment = {"PATH": os.environ["PATH"], "HOME": str(home)}
    argv = sandbox.command([sys.executable, "-I", "-c", _BUILD_AT_HOME], spec)
    ran = subprocess.run(argv, env=environment, capture_output=True, text=True)
    assert ran.stdout == (
        f"cannot use the cache folder {home}/.cache/warpsmith: Read-only file system "
        "| set WARPSMITH_CACHE to a folder that you may write to\n"
    ), ran.stderr
