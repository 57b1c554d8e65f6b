"""The pool of workers that stay: scripted workers for every course of things, real processes and real kills."""

import contextlib
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.errors import InfrastructureError
from warpsmith.gpu.devices import GpuInfo
from warpsmith.gpu.leases import lease_gpu
from warpsmith.gpu.pool import WorkerPool
from warpsmith.gpu.scripted import Scene, Script, ScriptedProbe, ScriptedWorkers, scripted_gpus
from warpsmith.gpu.self_test import ENTRY as SELF_TEST
from warpsmith.gpu.warm import WarmWorker
from warpsmith.sandbox.process import Tree
from warpsmith.types import Device, Job, JobOutcome
from warpsmith.types.protocols import GpuPool, JobHandle, Standby

PATIENCE_S = 60.0


@pytest.fixture(autouse=True)
def no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., WorkerPool]]:
    """Pools of scripted workers, closed at the end."""
    pools: list[WorkerPool] = []

    def pool(script: Script = lambda job, variables: Scene(), gpus: int = 2, **options: object) -> WorkerPool:
        values = {"leases": tmp_path / "leases", "find_fault": ScriptedProbe(), "sim_jobs": 2, **options}
        start = values.pop("start", ScriptedWorkers(script))
        pools.append(WorkerPool(start, gpus=lambda: scripted_gpus(gpus), **values))
        return pools[-1]

    yield pool
    for each in pools:
        each.close()


def job(folder: Path, entry: str = "a:b", device: Device = Device.CUDA, timeout_s: float = 30.0) -> Job:
    return Job(entry=entry, folder=str(folder), device=device, timeout_s=timeout_s)


def on(gpu: int) -> dict[str, str]:
    return {"CUDA_VISIBLE_DEVICES": f"GPU-{gpu:04d}"}


def test_it_is_what_the_protocols_say(make, tmp_path):
    pool: GpuPool = make()
    handle: JobHandle = pool.submit(job(tmp_path))
    assert handle.result(PATIENCE_S).outcome is JobOutcome.COMPLETED and handle.done()
    standby: Standby = pool.standby(job(tmp_path))
    standby.close()
    assert (pool.capacity(Device.CUDA), pool.capacity(Device.SIM)) == (2, 2)


def test_one_job_at_a_time_on_each_gpu_and_all_gpus_at_work(make, tmp_path):
    now: Counter[str] = Counter()
    most: Counter[str] = Counter()
    all_at_work = threading.Barrier(4)

    def script(given: Job, variables: Mapping[str, str]) -> Scene:
        gpu = variables["CUDA_VISIBLE_DEVICES"]
        now[gpu] += 1
        most[gpu] = max(most[gpu], now[gpu])
        if given.entry == "first:x":
            all_at_work.wait(PATIENCE_S)
        return Scene(seconds=0.01, ended=lambda: now.subtract([gpu]))

    pool = make(script, gpus=4)
    handles = [pool.submit(job(tmp_path, "first:x" if n < 4 else "a:b")) for n in range(40)]
    devices = {handle.result(PATIENCE_S).device_index for handle in handles}
    assert set(most.values()) == {1} and devices == {0, 1, 2, 3}


def test_a_job_that_fails_is_an_answer_and_is_not_run_again(make, tmp_path):
    tried = []

    def script(given: Job, variables: Mapping[str, str]) -> Scene:
        tried.append(given.entry)
        return Scene() if given.entry == SELF_TEST else Scene(exit_code=3, tail="no such thing")

    result = make(script).run(job(tmp_path))
    assert (result.outcome, result.exit_code, result.log_tail) == (JobOutcome.CRASHED, 3, "no such thing")
    assert tried == ["a:b"]


def test_a_job_out_of_time_and_the_test_before_the_next(make, tmp_path):
    seen = []

    def script(given: Job, variables: Mapping[str, str]) -> Scene:
        seen.append(given.entry)
        return Scene(seconds=600 if given.entry == "hangs:x" else 0)

    workers = ScriptedWorkers(script)
    pool = make(start=workers, gpus=1)
    assert pool.run(job(tmp_path, "hangs:x", timeout_s=0.05)).outcome is JobOutcome.TIMED_OUT
    assert pool.run(job(tmp_path)).outcome is JobOutcome.COMPLETED
    # whatever hung may have harmed the GPU: a fresh worker, and a test before the next job
    assert seen == ["hangs:x", SELF_TEST, "a:b"] and len(workers.started) == 2


def test_a_worker_is_replaced_after_its_share_of_jobs(make, tmp_path):
    workers = ScriptedWorkers()
    pool = make(start=workers, gpus=1, jobs_per_worker=3)
    names = [pool.run(job(tmp_path)).worker for _ in range(7)]
    assert names == ["scripted-0"] * 3 + ["scripted-1"] * 3 + ["scripted-2"]


def test_a_lost_job_is_run_again_on_another_gpu(make, tmp_path):
    def script(given: Job, variables: Mapping[str, str]) -> Scene:
        if given.entry == SELF_TEST:
            return Scene()
        return Scene(kills_worker=variables == on(0))

    result = make(script).run(job(tmp_path))
    while result.device_index == 1 and not result.lost:
        # the other thread was first
        result = make(script).run(job(tmp_path))
    assert (result.outcome, result.device_index) == (JobOutcome.COMPLETED, 1)
    assert [attempt.device_index for attempt in result.lost] == [0]


def test_what_ends_two_healthy_workers_is_the_jobs_own_doing(make, tmp_path):
    def script(given: Job, variables: Mapping[str, str]) -> Scene:
        return Scene(kills_worker=given.entry == "evil:x")

    pool = make(script, gpus=2)
    for _ in range(4):
        assert pool.run(job(tmp_path)).outcome is JobOutcome.COMPLETED
    result = pool.run(job(tmp_path, "evil:x"))
    assert result.outcome is JobOutcome.CRASHED and "passed a self-test before and after" in result.log_tail
    healthy = [attempt for attempt in result.lost if attempt.healthy]
    assert len(healthy) == 2 and len({attempt.worker for attempt in healthy}) == 2
    assert pool.run(job(tmp_path)).outcome is JobOutcome.COMPLETED and pool.capacity(Device.CUDA) == 2


def test_one_gpu_suffices_to_hold_it_against_the_job(make, tmp_path):
    def script(given: Job, variables: Mapping[str, str]) -> Scene:
        return Scene(kills_worker=given.entry == "evil:x")

    result = make(script, gpus=1).run(job(tmp_path, "evil:x"))
    # the first worker was never tested before: its loss is no proof
    assert [attempt.healthy for attempt in result.lost] == [False, True, True]
    assert result.outcome is JobOutcome.CRASHED


def test_a_device_that_fails_its_test_is_quarantined_and_the_job_is_not_blamed(make, tmp_path):
    broken = {"GPU-0000"}

    def script(given: Job, variables: Mapping[str, str]) -> Scene:
        bad = variables["CUDA_VISIBLE_DEVICES"] in broken
        return Scene(exit_code=int(bad)) if given.entry == SELF_TEST else Scene(kills_worker=bad)

    said: list[str] = []
    pool = make(script, told=said.append, retest_s=600)
    results = [pool.run(job(tmp_path)) for _ in range(30)]
    assert {result.outcome for result in results} == {JobOutcome.COMPLETED}
    assert pool.capacity(Device.CUDA) == 1 and said == ["GPU 0 is quarantined: its self-test failed"]
    assert not any(attempt.healthy for result in results for attempt in result.lost)


def test_a_gpu_that_is_busy_with_no_process_is_quarantined_until_it_is_not(make, tmp_path):
    probe = ScriptedProbe({"GPU-0000": "it is 100 % busy though no process is on it"})

    def script(given: Job, variables: Mapping[str, str]) -> Scene:
        return Scene(exit_code=1 if given.entry == "bad:x" else 0)

    said: list[str] = []
    pool = make(script, gpus=1, find_fault=probe, told=said.append, retest_s=0.05)
    assert pool.run(job(tmp_path, "bad:x")).outcome is JobOutcome.CRASHED
    with pytest.raises(InfrastructureError, match="every device is quarantined: it is 100 % busy"):
        pool.run(job(tmp_path))
    with pytest.raises(InfrastructureError, match="every device is quarantined"):
        pool.submit(job(tmp_path))
    probe.faults.clear()
    deadline = time.monotonic() + PATIENCE_S
    while pool.capacity(Device.CUDA) == 0:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert pool.run(job(tmp_path)).outcome is JobOutcome.COMPLETED
    assert said[-1] == "GPU 0 is in order again"


def test_a_job_that_waits_or_runs_can_be_cancelled(make, tmp_path):
    def script(given: Job, variables: Mapping[str, str]) -> Scene:
        return Scene(seconds=600 if given.entry == "long:x" else 0)

    pool = make(script, gpus=1)
    running = pool.submit(job(tmp_path, "long:x", timeout_s=600))
    waiting = pool.submit(job(tmp_path))
    last = pool.submit(job(tmp_path))
    waiting.cancel()
    assert waiting.result(PATIENCE_S).outcome is JobOutcome.CANCELLED and not running.done()
    with pytest.raises(TimeoutError):
        last.result(0.01)
    running.cancel()
    assert running.result(PATIENCE_S).outcome is JobOutcome.CANCELLED
    assert last.result(PATIENCE_S).outcome is JobOutcome.COMPLETED
    last.cancel()
    assert last.result().outcome is JobOutcome.COMPLETED


def test_a_closed_pool_leaves_nobody_waiting(make, tmp_path):
    pool = make(lambda given, variables: Scene(seconds=600), gpus=1)
    handles = [pool.submit(job(tmp_path, timeout_s=600)) for _ in range(3)]
    standby = pool.standby(job(tmp_path))
    pool.close()
    assert {handle.result(PATIENCE_S).outcome for handle in handles} == {JobOutcome.CANCELLED}
    with pytest.raises(InfrastructureError, match="closed"):
        standby.run(1)
    with pytest.raises(InfrastructureError, match="closed"):
        pool.submit(job(tmp_path))


def test_gpus_that_others_hold_are_waited_for_and_left_to_them(make, tmp_path):
    pool = make(lease_timeout_s=0.2)
    gpus = scripted_gpus(2)
    with lease_gpu(gpus[:1], 1, tmp_path / "leases"):
        assert {pool.run(job(tmp_path)).device_index for _ in range(6)} == {1}
        with (
            lease_gpu(gpus[1:], 1, tmp_path / "leases"),
            pytest.raises(InfrastructureError, match="every GPU is in use by another run; waited 0 s"),
        ):
            pool.run(job(tmp_path))
    # between jobs nothing is held
    with lease_gpu(gpus[:1], 1, tmp_path / "leases"), lease_gpu(gpus[1:], 1, tmp_path / "leases"):
        pass


def test_no_gpu_and_no_folder_are_one_line_each(make, tmp_path):
    pool = make(gpus=0)
    assert pool.capacity(Device.CUDA) == 0
    with pytest.raises(InfrastructureError, match="no NVIDIA GPU was found"):
        pool.run(job(tmp_path))
    with pytest.raises(InfrastructureError, match="does not exist"):
        pool.run(job(tmp_path / "missing"))


def test_a_lease_that_cannot_be_made_fails_the_job_and_nothing_hangs(make, tmp_path):
    (tmp_path / "file").write_text("")
    pool = make(leases=tmp_path / "file" / "leases")
    for _ in range(2):
        with pytest.raises(InfrastructureError, match="cannot make the lease folder"):
            pool.submit(job(tmp_path)).result(PATIENCE_S)


def test_a_look_at_the_device_that_raises_fails_the_job_and_nothing_hangs(make, tmp_path):
    def raises(gpu: GpuInfo) -> str:
        raise ValueError("a driver's whim")

    pool = make(lambda given, variables: Scene(kills_worker=True), gpus=1, find_fault=raises)
    with pytest.raises(InfrastructureError, match="the pool failed: ValueError: a driver's whim"):
        pool.submit(job(tmp_path)).result(PATIENCE_S)


def test_a_job_that_one_gpu_lost_is_its_again_once_no_other_is_in_order(make, tmp_path):
    tried: list[str] = []

    def script(given: Job, variables: Mapping[str, str]) -> Scene:
        bad = variables == on(1)
        if given.entry == SELF_TEST:
            return Scene(exit_code=int(bad))
        tried.append(variables["CUDA_VISIBLE_DEVICES"])
        # the first try is lost wherever it is; GPU 1 is broken
        return Scene(lost=bad or len(tried) == 1)

    pool = make(script, retest_s=600)
    result = pool.submit(job(tmp_path)).result(PATIENCE_S)
    assert (result.outcome, result.device_index) == (JobOutcome.COMPLETED, 0)


def test_a_job_stands_by_without_a_device_and_takes_whichever_is_free(make, tmp_path):
    pool = make(lambda given, variables: Scene(seconds=0.2 if given.entry == "busy:x" else 0))
    standby = pool.standby(job(tmp_path))
    assert standby.alive()
    busy = pool.submit(job(tmp_path, "busy:x"))
    result = standby.run(PATIENCE_S)
    assert result.outcome is JobOutcome.COMPLETED
    assert {result.device_index, busy.result(PATIENCE_S).device_index} == {0, 1}


@given(plan=st.lists(st.sampled_from(["fine", "crash", "lose", "kill", "cancel", "slow"]), max_size=25))
@settings(max_examples=40, deadline=None)
def test_every_job_gets_the_one_result_that_its_course_calls_for(plan, tmp_path_factory):
    folder = tmp_path_factory.mktemp("job")
    once: set[str] = set()

    def script(given: Job, variables: Mapping[str, str]) -> Scene:
        kind, _, number = given.entry.partition(":")
        if kind in ("lose", "kill") and number not in once:
            once.add(number)
            return Scene(lost=kind == "lose", kills_worker=kind == "kill")
        return Scene(exit_code=1 if kind == "crash" else 0, seconds=0.02 if kind == "slow" else 0)

    pool = WorkerPool(
        ScriptedWorkers(script), gpus=lambda: scripted_gpus(3), leases=folder / "leases",
        find_fault=ScriptedProbe(), jobs_per_worker=4,
    )  # fmt: skip
    try:
        handles = [pool.submit(job(folder, f"{kind}:{n}")) for n, kind in enumerate(plan)]
        for kind, handle in zip(plan, handles, strict=True):
            if kind == "cancel":
                handle.cancel()
        for kind, handle in zip(plan, handles, strict=True):
            result = handle.result(PATIENCE_S)
            # a cancelled job may have been faster
            wanted = {"crash": JobOutcome.CRASHED}.get(kind, JobOutcome.COMPLETED)
            assert result.outcome is wanted or (kind == "cancel" and result.outcome is JobOutcome.CANCELLED)
            assert len(result.lost) == (1 if kind in ("lose", "kill") else 0)
        assert pool.capacity(Device.CUDA) == 3
    finally:
        pool.close()


# --- real processes

SCRIPT = "site:addsitedir"
"""An entry of the standard library that runs what `write_script` wrote."""


def write_script(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "script.py").write_text(text)
    (folder / "script.pth").write_text("import script\n")
    return folder


@pytest.fixture
def real() -> Iterator[WorkerPool]:
    pool = WorkerPool(lambda: WarmWorker(Tree), sim_jobs=2)
    yield pool
    pool.close()


def test_a_worker_stays_and_its_jobs_have_processes_and_an_environment_of_their_own(
    real, tmp_path, monkeypatch
):
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "1")
    text = "import os, json; print(json.dumps([os.getpid(), os.getcwd(), sorted(os.environ)]))"
    folder = write_script(tmp_path / "job", text)
    results = [real.run(job(folder, SCRIPT, Device.SIM)) for _ in range(4)]
    assert {result.outcome for result in results} == {JobOutcome.COMPLETED}
    said = [result.log_tail for result in results]
    assert len(set(said)) == 4, "each job is a process of its own"
    assert len({result.worker for result in results}) <= 2
    assert str(folder) in said[0] and "PATH" in said[0]
    assert "PYTHONPATH" not in said[0] and "NVIDIA_TF32_OVERRIDE" not in said[0]


@pytest.mark.parametrize(
    ("entry", "exit_code", "said"),
    [
        ("os:remove", 1, "IsADirectoryError"),
        ("os:no_such", 2, "AttributeError"),
        ("os:abort", 1, "TypeError"),
    ],
)
def test_a_job_that_raises_or_is_not_there_has_crashed(real, tmp_path, entry, exit_code, said):
    result = real.run(job(tmp_path, entry, Device.SIM))
    assert (result.outcome, result.exit_code) == (JobOutcome.CRASHED, exit_code)
    assert said in result.log_tail


def test_the_tree_is_gone_with_the_job_and_with_the_pool(real, tmp_path):
    forks = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n    open('pid', 'w').write(str(os.getpid()))\n    time.sleep(600)\n"
        "while not (os.path.exists('pid') and open('pid').read()): time.sleep(0.01)\n"
    )
    folder = write_script(tmp_path / "one", forks)
    assert real.run(job(folder, SCRIPT, Device.SIM)).outcome is JobOutcome.COMPLETED
    assert not psutil.pid_exists(int((folder / "pid").read_text()))
    hangs = write_script(tmp_path / "two", forks + "time.sleep(600)")
    assert real.run(job(hangs, SCRIPT, Device.SIM, timeout_s=1.0)).outcome is JobOutcome.TIMED_OUT
    assert not psutil.pid_exists(int((hangs / "pid").read_text()))
    again = write_script(tmp_path / "three", forks + "time.sleep(600)")
    real.submit(job(again, SCRIPT, Device.SIM, timeout_s=600))
    deadline = time.monotonic() + PATIENCE_S
    while not ((again / "pid").exists() and (again / "pid").read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    real.close()
    assert not psutil.pid_exists(int((again / "pid").read_text()))


def test_a_standby_job_of_two_stages(real, tmp_path):
    # the standard library has no entry that returns a function: the package's own referee does, and needs no GPU
    standby = real.standby(job(tmp_path, "os:listdir", Device.SIM))
    time.sleep(0.2)
    assert standby.alive()
    assert standby.run(30).outcome is JobOutcome.COMPLETED
    assert not standby.alive()
    other = real.standby(job(tmp_path / "..", "os:listdir", Device.SIM))
    other.close()
    assert not other.alive()


def below(workers: list[WarmWorker]) -> list[psutil.Process]:
    found = []
    for worker in workers:
        try:
            top = psutil.Process(worker.pid)
            found += [top, *top.children(recursive=True)]
        except psutil.NoSuchProcess:
            continue
    return found


def test_many_jobs_under_random_kills_all_end_and_leave_nothing(tmp_path):
    """kill -9 of supervisors, workers, keepers and jobs at any time: each job completes, or is lost or crashed."""
    workers: list[WarmWorker] = []

    def start() -> WarmWorker:
        workers.append(WarmWorker(Tree))
        return workers[-1]

    pool = WorkerPool(start, sim_jobs=3)
    text = "import os, time, uuid; time.sleep(0.03); open(f'done-{uuid.uuid4().hex}', 'w')"
    folders = [write_script(tmp_path / f"{n}", text) for n in range(60)]
    handles = [pool.submit(job(folder, SCRIPT, Device.SIM)) for folder in folders]
    chance, killed, ever = random.Random(7), 0, set()
    deadline = time.monotonic() + 120
    try:
        while not all(handle.done() for handle in handles):
            assert time.monotonic() < deadline, "something hangs"
            family = below(workers)
            ever |= {process.pid for process in family}
            if family and killed < 15:
                with contextlib.suppress(psutil.NoSuchProcess):
                    chance.choice(family).kill()
                    killed += 1
            time.sleep(0.12)
    finally:
        pool.close()
    results = [handle.result() for handle in handles]
    for folder, result in zip(folders, results, strict=True):
        if result.outcome is JobOutcome.COMPLETED:
            assert list(folder.glob("done-*"))
        else:
            # killed itself, or its worker was again and again
            assert result.outcome in (JobOutcome.CRASHED, JobOutcome.LOST)
            assert result.signal == 9 or len(result.lost) >= 2
    completed = sum(result.outcome is JobOutcome.COMPLETED for result in results)
    assert killed > 5 and completed >= 60 - killed
    own = os.getpid()
    left = [pid for pid in ever if psutil.pid_exists(pid) and pid != own]
    assert [p for p in left if psutil.Process(p).status() != psutil.STATUS_ZOMBIE] == []
