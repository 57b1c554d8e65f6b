"""Which paths a sandbox shows."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import warpsmith
from warpsmith.sandbox import python_paths
from warpsmith.sandbox.view import Kind, Mount, job_mounts, system_mounts
from warpsmith.types.protocols import SandboxSpec


def covered(path: str) -> bool:
    return any(path == base or path.startswith(base + "/") for base in python_paths())


def test_this_interpreter_its_packages_and_this_package_are_covered():
    wanted = [sys.prefix, sys.base_prefix, os.path.realpath(sys.executable), sysconfig.get_path("purelib")]
    wanted += [os.__file__, str(Path(warpsmith.__file__).resolve().parent)]
    assert all(covered(path) for path in wanted)
    assert all(os.path.isdir(path) and path != "/" for path in python_paths())
    assert not covered(str(Path.home())) and not covered("/tmp")


def test_folders_that_pth_files_add_are_covered_and_pythonpath_is_not(tmp_path):
    (tmp_path / "by_pth").mkdir()
    (tmp_path / "by_environment").mkdir()
    code = (
        "import sys; sys.path.append(sys.argv[1])\n"
        "from warpsmith.sandbox import python_paths; print(*python_paths(), sep='\\n')"
    )
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "by_environment")}
    argv = [sys.executable, "-c", code, str(tmp_path / "by_pth")]
    paths = subprocess.run(
        argv, env=env, cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout.split()
    assert str(tmp_path / "by_pth") in paths and str(tmp_path / "by_environment") not in paths


def test_paths_are_shown_once_parents_first_and_under_both_names(tmp_path):
    real = tmp_path / "real"
    (real / "inner/out").mkdir(parents=True)
    link = tmp_path / "link"
    link.symlink_to(real)
    tmp_path.chmod(0o755)
    spec = SandboxSpec(
        cwd=str(real),
        read_only=(str(real / "inner"), str(link), "/usr/lib"),
        writable=(str(real / "inner/out"),),
    )
    assert job_mounts(spec, other_user=False) == [
        Mount(Kind.READ_ONLY, str(link), str(link)),
        Mount(Kind.READ_ONLY, str(real), str(real)),
        Mount(Kind.WRITABLE, str(real / "inner/out"), str(real / "inner/out")),
    ]


def test_a_working_folder_that_nothing_shows_is_shown(tmp_path):
    mounts = job_mounts(SandboxSpec(cwd=str(tmp_path)), other_user=False)
    assert mounts == [Mount(Kind.READ_ONLY, str(tmp_path), str(tmp_path))]
    for cwd in ("/", "/tmp", "/usr"):
        assert job_mounts(SandboxSpec(cwd=cwd), other_user=False) == []


def test_a_closed_folder_is_rebuilt_for_another_user(tmp_path):
    tmp_path.chmod(0o700)
    (tmp_path / "file").write_text("")
    (tmp_path / "dangling").symlink_to("nowhere")
    os.mkfifo(tmp_path / "fifo")
    assert job_mounts(SandboxSpec(cwd=str(tmp_path)), other_user=True) == [
        Mount(Kind.FOLDER, str(tmp_path)),
        Mount(Kind.SYMLINK, str(tmp_path / "dangling"), "nowhere"),
        Mount(Kind.READ_ONLY, str(tmp_path / "file"), str(tmp_path / "file")),
    ]


def test_gpu_devices_are_shown_when_asked_for():
    devices = {mount.path for mount in system_mounts(gpu=False) if mount.kind is Kind.DEVICE}
    assert devices == {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}
    more = {mount.path for mount in system_mounts(gpu=True) if mount.kind is Kind.DEVICE}
    assert more - devices == {str(p) for p in Path("/dev").glob("nvidia*")} | {
        str(p) for p in [Path("/dev/dxg")] if p.exists()
    }
