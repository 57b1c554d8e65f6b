"""The local pool: real processes, real leases, a made-up list of GPUs."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from warpsmith.errors import InfrastructureError
from warpsmith.gpu.devices import GpuInfo
from warpsmith.gpu.job import main, resolve
from warpsmith.gpu.leases import lease_gpu
from warpsmith.gpu.local import LocalPool, job_environment, visible_gpus
from warpsmith.sandbox.process import Tree
from warpsmith.types import Device, Job, JobOutcome
from warpsmith.types.protocols import DeviceLease, GpuPool


def a_gpu(index: int) -> GpuInfo:
    return GpuInfo(
        index=index, uuid=f"GPU-{index}0", name="NVIDIA H200", memory_bytes=1 << 37, driver="1", arch="sm_90"
    )


@pytest.fixture
def pool(tmp_path):
    return LocalPool(
        Tree,
        leases=tmp_path / "leases",
        lease_timeout_s=0.2,
        gpus=lambda: (a_gpu(0), a_gpu(1)),
        sim_jobs=2,
    )


SCRIPT = "site:addsitedir"
"""An entry of the standard library that runs what `write_script` wrote."""


def write_script(folder: Path, text: str) -> None:
    (folder / "script.py").write_text(text)
    (folder / "script.pth").write_text("import script\n")


def job(tmp_path: Path, entry: str, device: Device = Device.SIM, timeout_s: float = 20.0) -> Job:
    return Job(entry=entry, folder=str(tmp_path), device=device, timeout_s=timeout_s)


def test_it_is_a_pool_and_a_lease(pool):
    as_pool: GpuPool = pool
    as_lease: DeviceLease = pool
    assert callable(as_pool.run) and callable(as_lease.lease)


def test_a_job_runs_in_a_process_of_its_own_with_its_folder(pool, tmp_path):
    # writes the folder's listing as JSON: a function of the standard library that takes a path
    (tmp_path / "a").write_text("")
    result = pool.run(job(tmp_path, "os:listdir"))
    assert (result.outcome, result.exit_code, result.device_index, result.log_tail) == (
        JobOutcome.COMPLETED,
        0,
        None,
        "",
    )
    assert 0 < result.seconds < 60


@pytest.mark.parametrize(
    ("entry", "exit_code", "said"),
    [
        ("os:remove", 1, "IsADirectoryError"),
        ("os:no_such", 2, "AttributeError"),
        ("no_such_module:x", 2, "ModuleNotFoundError"),
        ("os.listdir", 2, "is not of the form package.module:function"),
        ("os:_exit", 1, "TypeError"),
    ],
)
def test_a_job_that_raises_or_is_not_there_has_crashed(pool, tmp_path, entry, exit_code, said):
    result = pool.run(job(tmp_path, entry))
    assert (result.outcome, result.exit_code) == (JobOutcome.CRASHED, exit_code)
    assert said in result.log_tail


def test_a_job_out_of_time(pool, tmp_path):
    write_script(tmp_path, "import time; time.sleep(600)")
    result = pool.run(job(tmp_path, SCRIPT, timeout_s=0.5))
    assert (result.outcome, result.exit_code) == (JobOutcome.TIMED_OUT, None)


def test_a_cuda_job_sees_its_gpu_alone_and_a_scrubbed_environment(pool, tmp_path, monkeypatch):
    for name in ("CUDA_VISIBLE_DEVICES",):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "1")
    monkeypatch.setenv("WARPSMITH_CACHE", "/cache")
    write_script(
        tmp_path, "import json, os; json.dump(dict(os.environ), open('env.json', 'w')); print(os.getcwd())"
    )
    with lease_gpu([a_gpu(0)], 1, tmp_path / "leases"):
        result = pool.run(job(tmp_path, SCRIPT, Device.CUDA))
    assert (result.outcome, result.device_index, result.log_tail) == (
        JobOutcome.COMPLETED,
        1,
        f"{tmp_path}\n",
    )
    env = json.loads((tmp_path / "env.json").read_text())
    assert env["CUDA_VISIBLE_DEVICES"] == "GPU-10" and env["WARPSMITH_CACHE"] == "/cache"
    assert env["PATH"] == os.environ["PATH"]
    assert not {"PYTHONPATH", "NVIDIA_TF32_OVERRIDE"} & set(env)


def test_no_gpu_and_no_free_gpu_are_one_line_each(pool, tmp_path):
    with pytest.raises(InfrastructureError, match="no NVIDIA GPU was found"):
        LocalPool(Tree, gpus=tuple, leases=tmp_path).run(job(tmp_path, "os:listdir", Device.CUDA))
    with (
        lease_gpu([a_gpu(0)], 1, tmp_path / "leases"),
        lease_gpu([a_gpu(0), a_gpu(1)], 1, tmp_path / "leases") as second,
    ):
        assert second.index == 1
        with pytest.raises(InfrastructureError, match="every GPU is in use by another run; waited 0 s"):
            pool.run(job(tmp_path, "os:listdir", Device.CUDA))
    with pytest.raises(InfrastructureError, match="does not exist"):
        pool.run(job(tmp_path / "missing", "os:listdir"))


def test_a_lease_is_freed_when_the_block_ends_and_when_its_holder_is_killed(pool, tmp_path):
    with pool.lease(Device.CUDA, 1) as index:
        assert index == 0
        with pool.lease(Device.CUDA, 1) as other:
            assert other == 1
    code = (
        "import sys, time; from pathlib import Path\n"
        "from warpsmith.gpu.devices import GpuInfo; from warpsmith.gpu.leases import lease_gpu\n"
        "gpu = GpuInfo(0, 'GPU-00', 'x', 0, '1', 'sm_90')\n"
        "with lease_gpu([gpu], 1, Path(sys.argv[1])): print('held', flush=True); time.sleep(600)"
    )
    argv = [sys.executable, "-c", code, str(tmp_path / "leases")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with pool.lease(Device.CUDA, 1) as index:
            assert index == 1
        holder.send_signal(signal.SIGKILL)
    with pool.lease(Device.CUDA, 1) as index:
        assert index == 0


def test_a_waiting_job_gets_the_gpu_once_it_is_free(tmp_path):
    freed = threading.Event()
    with lease_gpu([a_gpu(0)], 1, tmp_path):
        thread = threading.Timer(0.3, freed.set)
        thread.start()
        waiter_got: list[bool] = []

        def wait() -> None:
            with lease_gpu([a_gpu(0)], 20, tmp_path):
                waiter_got.append(freed.is_set())

        waiter = threading.Thread(target=wait)
        waiter.start()
        freed.wait(20)
    waiter.join(20)
    assert waiter_got == [True]


def test_a_submitted_job_has_a_result_or_is_cancelled(pool, tmp_path):
    done = pool.submit(job(tmp_path, "os:listdir"))
    assert done.result(60).outcome is JobOutcome.COMPLETED and done.done()
    write_script(tmp_path, "import time; open('here', 'w'); time.sleep(600)")
    endless = pool.submit(job(tmp_path, SCRIPT, timeout_s=600))
    until(tmp_path / "here")
    endless.cancel()
    assert endless.result(60).outcome is JobOutcome.CANCELLED
    with lease_gpu([a_gpu(0)], 1, tmp_path / "leases"), lease_gpu([a_gpu(1)], 1, tmp_path / "leases"):
        waiting = pool.submit(job(tmp_path, "os:listdir", Device.CUDA))
        waiting.cancel()
        assert waiting.result(60).outcome is JobOutcome.CANCELLED
    assert (pool.capacity(Device.CUDA), pool.capacity(Device.SIM)) == (2, 2)


def test_at_most_so_many_simulator_jobs_at_a_time(tmp_path):
    pool = LocalPool(Tree, sim_jobs=2)
    script = (
        "import os, time; open(f'start-{os.getpid()}', 'w'); time.sleep(0.4); print(len(os.listdir('.')))"
    )
    write_script(tmp_path, script)
    started = time.monotonic()
    threads = [threading.Thread(target=pool.run, args=(job(tmp_path, SCRIPT),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert time.monotonic() - started >= 0.8
    assert len(list(tmp_path.glob("start-*"))) == 4


def test_the_tree_is_gone_before_the_lease_is_freed(pool, tmp_path):
    script = (
        "import os, time\n"
        "if os.fork() == 0:\n    os.setsid()\n    open('pid', 'w').write(str(os.getpid()))\n    time.sleep(600)\n"
        "while not (os.path.exists('pid') and open('pid').read()): time.sleep(0.01)\n"
    )
    write_script(tmp_path, script)
    assert pool.run(job(tmp_path, SCRIPT, Device.CUDA)).outcome is JobOutcome.COMPLETED
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize(
    ("setting", "indices"),
    [
        (None, [0, 1, 2]),
        ("", []),
        ("2,0", [2, 0]),
        ("GPU-10", [1]),
        ("GPU-1", [1]),
        ("1,9,2", [1]),
        ("-1", []),
    ],
)
def test_cuda_visible_devices_is_obeyed(setting, indices):
    assert [gpu.index for gpu in visible_gpus([a_gpu(i) for i in range(3)], setting)] == indices


def test_what_a_job_inherits():
    kept = job_environment(
        {"PATH": "/bin", "LD_PRELOAD": "x", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "1", "LC_ALL": "C"}
    )
    assert kept == {"PATH": "/bin", "LC_ALL": "C"}


def test_the_job_module_itself(capsys, tmp_path):
    assert resolve("os.path:isdir")(tmp_path) is True
    assert main([]) == 2
    assert "usage:" in capsys.readouterr().err
    assert main(["os:listdir", str(tmp_path)]) == 0


TWO_STAGES = """
import os, pathlib
def entry(folder):
    (pathlib.Path(folder) / "first").write_text(os.environ.get("CUDA_VISIBLE_DEVICES", "none"))
    return lambda: (pathlib.Path(folder) / "second").write_text(os.environ.get("CUDA_VISIBLE_DEVICES", "none"))
"""


@pytest.fixture
def two_stages(tmp_path, monkeypatch):
    """An entry of two stages, importable in an isolated process: a module beside the package's own."""
    place = Path(sys.modules["warpsmith"].__file__).parent / "gpu" / f"two_stages_{os.getpid()}.py"
    place.write_text(TWO_STAGES)
    yield f"warpsmith.gpu.{place.stem}:entry"
    place.unlink()


def until(path: Path) -> str:
    deadline = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return path.read_text()


def test_both_stages_of_a_job_run_one_after_the_other(pool, tmp_path, two_stages):
    result = pool.run(job(tmp_path, two_stages, Device.CUDA))
    assert result.outcome is JobOutcome.COMPLETED
    assert (tmp_path / "first").read_text() == (tmp_path / "second").read_text() == "GPU-00"


def test_a_standby_job_starts_without_a_gpu_and_goes_on_with_the_leased_one(
    pool, tmp_path, two_stages, monkeypatch
):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    standby = pool.standby(job(tmp_path, two_stages, Device.CUDA))
    assert until(tmp_path / "first") == "none"
    assert standby.alive() and not (tmp_path / "second").exists()
    with lease_gpu([a_gpu(0)], 1, tmp_path / "leases"):
        result = standby.run(30)
    assert (result.outcome, result.device_index) == (JobOutcome.COMPLETED, 1)
    assert (tmp_path / "second").read_text() == "GPU-10"
    assert not standby.alive()


def test_a_standby_job_that_is_closed_never_goes_on(pool, tmp_path, two_stages):
    standby = pool.standby(job(tmp_path, two_stages))
    until(tmp_path / "first")
    standby.close()
    assert not standby.alive() and not (tmp_path / "second").exists()


def test_a_standby_job_that_died_has_crashed(pool, tmp_path):
    standby = pool.standby(job(tmp_path, "os:remove"))
    while standby.alive():
        time.sleep(0.01)
    assert standby.run(30).outcome is JobOutcome.CRASHED


def test_a_standby_job_out_of_time_is_killed(pool, tmp_path):
    write_script(tmp_path, "import time; time.sleep(600)")
    result = pool.standby(job(tmp_path, SCRIPT)).run(0.5)
    assert result.outcome is JobOutcome.TIMED_OUT
