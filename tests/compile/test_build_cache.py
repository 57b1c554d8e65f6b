"""The cache: hits, edits, damage, races, kills, a disk that says no."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from warpsmith.compile import LocalCompiler
from warpsmith.compile.cache import Cache
from warpsmith.compile.sources import SourceTree
from warpsmith.types import CompileStatus, KernelResources

_BUILD = """
import signal
import sys
from pathlib import Path
from warpsmith.compile import LocalCompiler
from warpsmith.types import Device, Submission, Target
submission = Submission.model_validate_json(Path(sys.argv[2]).read_text())
# a shell's background job ignores it
signal.signal(signal.SIGINT, signal.default_int_handler)
print("started", flush=True)
result = LocalCompiler(Path(sys.argv[1])).build(submission, Target(device=Device.SIM))
print(result.status.value, result.build_dir, flush=True)
"""


def _start(cache, submission, tmp_path):
    path = tmp_path / "submission.json"
    path.write_text(submission.model_dump_json())
    return subprocess.Popen(
        [sys.executable, "-c", _BUILD, str(cache), str(path)], stdout=subprocess.PIPE, text=True
    )


def _name(process):
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return ""


def _objects(root):
    return {p.parent.parent.name for p in (root / "objects").rglob("unit.o")}


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "cache")


def _publish(cache, key="ab12", text="hello", **said):
    with cache.workspace() as folder:
        (folder / "files").mkdir()
        (folder / "files" / "a.txt").write_text(text)
        return cache.publish("things", key, folder / "files", **said)


def test_entry_is_read_back(cache):
    kernels = (KernelResources(kernel="k", registers=3),)
    made = _publish(cache, log="a warning", kernels=kernels)
    found = cache.lookup("things", "ab12")
    assert found == made
    assert (found.manifest.log, found.manifest.kernels) == ("a warning", kernels)
    assert (found.files / "a.txt").read_text() == "hello"
    assert cache.lookup("things", "ab13") is None
    assert cache.lookup("other", "ab12") is None
    assert list((cache.root / "tmp").iterdir()) == []


def test_first_intact_entry_stays(cache):
    first = _publish(cache, text="one")
    second = _publish(cache, text="two")
    assert second == first
    assert (first.files / "a.txt").read_text() == "one"


@pytest.mark.parametrize(
    "damage", ["changed", "truncated", "missing", "added", "manifest", "no manifest", "link", "file"]
)
def test_damaged_entry_is_noticed_and_replaced(cache, damage):
    entry = _publish(cache)
    file, manifest = entry.files / "a.txt", entry.files.parent / "manifest.json"
    match damage:
        case "changed":
            file.write_text("hullo")
        case "truncated":
            file.write_text("")
        case "missing":
            file.unlink()
        case "added":
            (entry.files / "torch.py").write_text("evil")
        case "manifest":
            manifest.write_text(manifest.read_text().replace('"log": ""', '"log": "x"'))
        case "no manifest":
            manifest.unlink()
        case "link":
            file.unlink()
            file.symlink_to("/etc/hostname")
        case "file":
            entry.files.parent.rename(cache.root / "aside")
            (cache.root / "things" / "ab" / "ab12").write_text("")
    assert cache.lookup("things", "ab12") is None
    _publish(cache, text="again")
    assert (cache.lookup("things", "ab12").files / "a.txt").read_text() == "again"


def test_workspace_of_a_dead_process_is_swept_and_a_living_one_is_not(cache):
    dead = cache.root / "tmp" / "dead"
    dead.mkdir(parents=True)
    old = time.time() - 7200
    with cache.workspace() as living:
        os.utime(dead, (old, old))
        os.utime(living, (old, old))
        with cache.workspace():
            assert not dead.exists()
            assert living.exists()


def test_second_build_is_a_hit_and_python_edits_do_not_matter(tmp_path, submit, sim):
    compiler = LocalCompiler(tmp_path)
    first = compiler.build(submit(), sim)
    second = compiler.build(submit({"model_new.py": "import torch, cuda_extension\n"}), sim)
    assert (first.cached, second.cached) == (False, True)
    assert (second.key, second.build_dir, second.kernels) == (first.key, first.build_dir, first.kernels)
    assert second.seconds < 5, "a hit compiles nothing"


def test_edits_rebuild_what_they_touch(tmp_path, submit, sim):
    compiler = LocalCompiler(tmp_path)
    keys = [compiler.build(submit(), sim).key]
    before = _objects(tmp_path)
    # scale.cu, rowsum.cu and the simulator's own
    assert len(before) == 3
    header = "#pragma once\n__device__ inline float apply(float x, float s) { return x + s; }\n"
    keys.append(compiler.build(submit({"kernels/ops.cuh": header}), sim).key)
    assert len(_objects(tmp_path) - before) == 1
    before = _objects(tmp_path)
    rowsum = submit().files["kernels/rowsum.cu"] + "// more\n"
    keys.append(compiler.build(submit({"kernels/ops.cuh": header, "kernels/rowsum.cu": rowsum}), sim).key)
    assert len(_objects(tmp_path) - before) == 1
    flags = {"warpsmith.toml": '[compile]\nnvcc_flags = ["-DX=1"]\n'}
    keys.append(compiler.build(submit(flags), sim).key)
    assert len(set(keys)) == 4


def test_header_edit_changes_the_result(tmp_path, submit, sim, load):
    torch = pytest.importorskip("torch")
    compiler = LocalCompiler(tmp_path)
    a, out = torch.randn(10), torch.empty(10)
    load(compiler.build(submit(), sim)).scale(out, a, 3.0, 10)
    torch.testing.assert_close(out, a * 3)
    header = "#pragma once\n__device__ inline float apply(float x, float s) { return x + s; }\n"
    load(compiler.build(submit({"kernels/ops.cuh": header}), sim)).scale(out, a, 3.0, 10)
    torch.testing.assert_close(out, a + 3)


def test_a_unit_sees_what_it_may_include_and_no_more():
    tree = SourceTree(
        {
            "a.cu": '#include "x.cuh"\n',
            "b.cu": "#include <deep/y.h>\n",
            "c.cu": '#define H "z.h"\n#include H\n',
            "d.cu": "int x;",
            "deep/y.h": '#if __has_include("z.h")\n#endif\n',
            "x.cuh": '#include "d.cu"\n',
            "z.h": "",
        }
    )
    assert set(tree.visible_to("a.cu")) == {"a.cu", "x.cuh", "d.cu"}
    assert set(tree.visible_to("b.cu")) == {"b.cu", "deep/y.h", "z.h"}
    assert set(tree.visible_to("c.cu")) == set(tree.files)
    assert set(tree.visible_to("d.cu")) == {"d.cu"}


def test_damaged_build_and_object_are_built_again(tmp_path, submit, sim):
    compiler = LocalCompiler(tmp_path)
    first = compiler.build(submit(), sim)
    library = Path(first.build_dir, "libcuda_extension.so")
    whole = library.read_bytes()
    library.write_bytes(whole[: len(whole) // 2])
    objects = sorted((tmp_path / "objects").rglob("unit.o"))
    objects[0].write_bytes(b"garbage")
    again = compiler.build(submit(), sim)
    assert (again.status, again.cached, again.key) == (CompileStatus.OK, False, first.key)
    assert Path(again.build_dir, "libcuda_extension.so").stat().st_size == len(whole)
    assert objects[0].stat().st_size > 1000
    assert compiler.build(submit(), sim).cached


def test_concurrent_builds_of_one_key_both_succeed(tmp_path, submit, sim):
    running = [_start(tmp_path / "cache", submit(), tmp_path) for _ in range(3)]
    said = [process.communicate(timeout=120)[0].splitlines()[-1] for process in running]
    assert len(set(said)) == 1
    status, build_dir = said[0].split(" ", 1)
    assert status == "ok"
    assert Path(build_dir, "cuda_extension.py").exists()
    assert list((tmp_path / "cache" / "tmp").iterdir()) == []
    assert LocalCompiler(tmp_path / "cache").build(submit(), sim).cached


def test_same_named_extensions_built_at_once_are_each_their_own(tmp_path, submit, sim, load):
    torch = pytest.importorskip("torch")
    running = []
    for i in range(4):
        place = tmp_path / str(i)
        place.mkdir()
        other = submit({"kernels/ops.cuh": f"#define apply(x, s) (x * s + {i})\n", "kernels/rowsum.cu": None})
        running.append(_start(tmp_path / "cache", other, place))
    said = [process.communicate(timeout=120)[0].splitlines()[-1].split(" ", 1) for process in running]
    assert [status for status, _ in said] == ["ok"] * 4
    a, out = torch.randn(100), torch.empty(100)
    for i, (_, build_dir) in enumerate(said):
        load(SimpleNamespace(build_dir=build_dir, key=f"parallel{i}")).scale(out, a, 2.0, 100)
        torch.testing.assert_close(out, a * 2 + i)


@pytest.mark.parametrize("delay_s", [0.15, 0.4, 0.8])
def test_kill_in_the_middle_leaves_nothing_that_hangs_or_poisons(tmp_path, submit, sim, delay_s):
    cache = tmp_path / "cache"
    process = _start(cache, submit(), tmp_path)
    process.stdout.readline()
    time.sleep(delay_s)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    result = LocalCompiler(cache, timeout_s=120).build(submit(), sim)
    assert result.status is CompileStatus.OK
    assert not [p for p in cache.rglob("*") if "lock" in p.name]


def test_interrupt_kills_the_compilers(tmp_path, submit, sim):
    cache = tmp_path / "cache"
    process = _start(cache, submit(), tmp_path)
    process.stdout.readline()
    for _ in range(1000):
        children = psutil.Process(process.pid).children(recursive=True)
        if any(_name(child) == "cc1plus" for child in children):
            break
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode != 0
    psutil.wait_procs(children, timeout=20)
    assert not [child for child in children if child.is_running()]
    assert list((cache / "tmp").iterdir()) == []


def test_read_only_cache_serves_what_it_has(tmp_path, submit, sim):
    compiler = LocalCompiler(tmp_path / "cache")
    compiler.build(submit(), sim)
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "cache").rglob("*")}
    assert compiler.build(submit(), sim).cached
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "cache").rglob("*")} == before


def test_of_two_builds_with_one_name_the_other_stays_when_one_is_removed(tmp_path, submit, sim, load):
    torch = pytest.importorskip("torch")
    compiler = LocalCompiler(tmp_path / "cache")
    tripled = submit(
        {"kernels/ops.cuh": "__device__ inline float apply(float x, float s) { return 3 * x * s; }\n"}
    )
    first, second = compiler.build(submit(), sim), compiler.build(tripled, sim)
    shutil.rmtree(Path(first.build_dir).parent)
    again = compiler.build(submit(), sim)
    assert not again.cached
    a, out = torch.randn(100), torch.empty(100)
    for result, factor in ((second, 6.0), (again, 2.0)):
        load(result).scale(out, a, 2.0, 100)
        torch.testing.assert_close(out, a * factor)
