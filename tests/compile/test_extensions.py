"""`load_inline` and `load`: seen before the build, built once, and handed out where the submission runs.

The samples bind raw addresses with pybind11 alone, since PyTorch's headers take ten times as long to compile.
"""

import importlib.util
import json
import shutil
from pathlib import Path

import pytest

from warpsmith.compile import LocalCompiler, extensions
from warpsmith.compile.collection import MAX_EXTENSIONS, _read
from warpsmith.compile.extensions import INDEX
from warpsmith.compile.flags import extension_flags
from warpsmith.compile.isolation import take
from warpsmith.compile.options import raised
from warpsmith.compile.requests import inline_request
from warpsmith.errors import CompileFailedError, InfrastructureError
from warpsmith.sandbox import LocalSandbox, python_paths
from warpsmith.types import CompileStatus, Submission, Task

torch = pytest.importorskip("torch")

_SAMPLE = '''
import functools
import os
import tempfile

import torch
import torch.utils.cpp_extension
from torch.utils.cpp_extension import load, load_inline

CPP = """
#include <pybind11/pybind11.h>
#include <cstdint>
void launch(std::uintptr_t x, int n);
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("launch", &launch); }
"""
CUDA = """
#include <cuda_runtime.h>
#include <cstdint>
__global__ void kernel(float* x, int n) { int i = blockIdx.x * 64 + threadIdx.x; if (i < n) x[i] = x[i] STEP; }
void launch(std::uintptr_t x, int n) { kernel<<<(n + 63) / 64, 64>>>(reinterpret_cast<float*>(x), n); }
"""


def build(step, **options):
    cuda = CUDA.replace("STEP", step)
    return load_inline("step", CPP, cuda, no_implicit_headers=True, **options)


# two of one name at import, with all that may be said
doubled = build("* 2", verbose=True, with_cuda=True, build_directory="/somewhere", extra_cflags=["-O3", "-std=c++17"])
added = build("+ 5", extra_cuda_cflags=["-O3 --use_fast_math", "-lineinfo", "-std=c++17", "--ptxas-options=-v"])
if torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 0):
    try:
        guarded = build("- 1")
    except Exception:
        guarded = None
here = os.path.dirname(os.path.abspath(__file__))
from_files = load(
    name="from_files",
    sources=[os.path.join(here, "native/bind.cpp"), "native/step.cu"],
    extra_include_paths=[os.path.join(here, "native/include")],
    extra_cuda_cflags=["-DSTEP=7"],
)
written = os.path.join(tempfile.mkdtemp(), "written.cu")
with open(written, "w") as file:
    file.write(CUDA.replace("STEP", "/ 4"))
from_elsewhere = load("from_files", ["native/bind.cpp", written], extra_include_paths=["native/include"])


@functools.cache
def on_demand():
    return build("* x[i]")


class ModelNew(torch.nn.Module):
    def __init__(self, width: int, ratio: float):
        super().__init__()
        self.of_init = build("+ 100")
        self.weight = torch.nn.Parameter(torch.empty(width))

    def forward(self, x):
        steps = doubled, added, guarded, from_files, from_elsewhere, self.of_init, on_demand()
        return [run(step, x) for step in (*steps, build("- 0.5f"))]


def run(extension, x):
    x = x.clone()
    extension.launch(x.data_ptr(), x.numel())
    return x
'''
_CUDA = _SAMPLE.split('CUDA = """')[1].split('"""')[0]
_CPP = _SAMPLE.split('CPP = """')[1].split('"""')[0]
_FILES = {
    "model_new.py": _SAMPLE,
    "native/bind.cpp": _CPP,
    "native/step.cu": '#include "amount.h"\n' + _CUDA.replace("STEP", "+ AMOUNT"),
    "native/include/amount.h": "#define AMOUNT (STEP * 10)\n",
}
_HEADER = """
from torch.utils.cpp_extension import load_inline
CPP = '''
#include <pybind11/pybind11.h>
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {}
'''
"""


@pytest.fixture
def imported(tmp_path, monkeypatch):
    """Imports a submission's `model_new.py` as the process does that runs it, from a copy beside what was built."""
    import torch.utils.cpp_extension as cpp_extension

    def run(submission, result):
        folder = tmp_path / "run"
        shutil.copytree(result.build_dir, folder)
        for path, text in submission.files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        for name in ("load", "load_inline"):
            monkeypatch.setattr(cpp_extension, name, getattr(cpp_extension, name))
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
        monkeypatch.chdir(folder)
        extensions.install(folder)
        spec = importlib.util.spec_from_file_location("model_new_of_test", folder / "model_new.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return run


def _inline(**arguments):
    words = ", ".join(f"{name}={value!r}" for name, value in {"name": "x", **arguments}.items())
    return Submission(files={"model_new.py": _HEADER + f"ext = load_inline(cpp_sources=CPP, {words})\n"})


def test_every_way_to_ask_for_an_extension_on_sim(compiler, sim, imported):
    submission = Submission(files=_FILES)
    result = compiler.build(submission, sim)
    assert (result.status, result.log) == (CompileStatus.OK, "")
    built = json.loads(Path(result.build_dir, INDEX).read_text())
    assert len(built) == 8
    assert len(set(built.values())) == 8
    assert not list(Path(result.build_dir).glob("*.so")), (
        "what is called for is not built as cuda_extension too"
    )
    module = imported(submission, result)
    x = torch.linspace(-4, 4, 200)
    wanted = [x * 2, x + 5, x - 1, x + 70, x / 4, x + 100, x * x, x - 0.5]
    for got, right in zip(module.ModelNew(3, 0.5)(x), wanted, strict=True):
        torch.testing.assert_close(got, right)
    assert module.doubled is not module.added
    assert module.build("- 1") is module.guarded
    with pytest.raises(CompileFailedError, match="step: this call was not seen before the build"):
        module.build("* 3")
    assert compiler.build(submission, sim).cached
    header = {"native/include/amount.h": "#define AMOUNT (STEP * 20)\n"}
    edited = compiler.build(Submission(files={**_FILES, **header}), sim)
    assert edited.status is CompileStatus.OK
    assert edited.key != result.key


def test_extensions_on_cuda_with_a_variant_of_the_architecture(compiler, nvcc):
    text = (
        _CUDA.replace("STEP", "* 2")
        + "#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)\n#error\n#endif\n"
    )
    flags = [
        "-gencode",
        "arch=compute_80,code=sm_80",
        "-gencode=arch=compute_90a,code=sm_90a",
        "--use_fast_math",
    ]
    result = compiler.build(
        _inline(cuda_sources=text, no_implicit_headers=True, extra_cuda_cflags=flags, extra_ldflags=["-lm"]),
        nvcc,
    )
    assert (result.status, result.log) == (CompileStatus.OK, "")
    assert [kernel.kernel for kernel in result.kernels] == ["kernel(float*, int)"]
    (library,) = json.loads(Path(result.build_dir, INDEX).read_text()).values()
    assert b"PyInit_x" in Path(result.build_dir, library).read_bytes()


def test_a_compile_error_is_told_with_its_line(compiler, sim):
    result = compiler.build(
        _inline(cuda_sources="int a;\nint b = nonsense;\n", no_implicit_headers=True), sim
    )
    assert result.status is CompileStatus.FAILED
    assert result.log.startswith("x/cuda.cu:2:9: error: ")
    assert "nonsense" in result.log


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            {"extra_cuda_cflags": ["-arch=sm_80"]},
            "x: the flags name sm_80, but this GPU is sm_90; leave -arch",
        ),
        (
            {"extra_cuda_cflags": ["-gencode arch=compute_80,code=[sm_80,sm_86]"]},
            "x: the flags name compute_80, ",
        ),
        (
            {"extra_cuda_cflags": ["-Xcompiler", "-fplugin=x.so"]},
            "x: nvcc flag '-Xcompiler -fplugin=x.so' is not",
        ),
        ({"extra_cuda_cflags": ["-Xptxas=-o,/x"]}, "x: nvcc flag '-Xptxas -o,/x' is not allowed"),
        ({"extra_cuda_cflags": ["-include", "/x"]}, "x: nvcc flag '-include' is not allowed"),
        ({"extra_cuda_cflags": ["-rdc=true"]}, "x: nvcc flag '-rdc=true' is not allowed"),
        ({"extra_cuda_cflags": ["'-O3"]}, "x: the flags cannot be read: No closing quotation"),
        ({"extra_cflags": ["-Wp,-I/x"]}, "x: C++ flag '-Wp,-I/x' is not allowed"),
        ({"extra_cflags": ["@file"]}, "x: C++ flag '@file' is not allowed"),
        ({"extra_ldflags": ["-Wl,-T,evil.ld"]}, "x: linker flag '-Wl,-T,evil.ld' is not allowed"),
        ({"extra_ldflags": ["-levil"]}, "x: linker flag '-levil' is not allowed"),
        ({"name": "a-b"}, "an extension cannot be named 'a-b': use letters"),
        ({"extra_include_paths": ["/root"]}, "x: the include path /root lies outside the submission"),
        ({"sycl_sources": "x"}, "x: SYCL sources cannot be built; give cuda_sources"),
    ],
)
def test_what_cannot_be_built_is_told_in_one_line(tmp_path, arguments, said):
    with pytest.raises(CompileFailedError) as caught:
        extension_flags(inline_request(tmp_path, **{"name": "x", "cpp_sources": "", **arguments}), "sm_90")
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


def test_flags_that_pass_and_flags_that_mean_nothing_here(tmp_path):
    request = inline_request(
        tmp_path, "x", "",
        extra_cuda_cflags=[
            "-O3 -use_fast_math", "--use_fast_math", "-lineinfo", "-std=c++17", "-std", "c++20", "-DA=1",
            "-U__CUDA_NO_HALF_OPERATORS__", "-Xcompiler", "-fPIC,-O3", "--ptxas-options=-v", "-Xptxas",
            "-O3,-dlcm=ca", "-maxrregcount", "64", "--expt-relaxed-constexpr", "-t", "4", "--threads=2",
            "-arch=native", "-gencode", "arch=compute_90,code=sm_90", "-gencode=arch=compute_80,code=sm_80",
            "-lcublas", "-diag-suppress=177", "-Wno-deprecated-gpu-targets", "-v",
        ],
        extra_cflags=["-O2", "-march=native", "-Wall", "-Wno-unused", "-fopenmp", "-std=c++17", "-DB", "-g", "-w"],
        extra_ldflags=["-lcudnn", "-L/usr/local/cuda/lib64", "-lcudart", "-Wl,-rpath,/x", "-lc10_cuda", "-lcublasLt"],
        extra_include_paths=[str(tmp_path / "inc"), "/usr/local/cuda/include", str(tmp_path)],
    )  # fmt: skip
    flags = extension_flags(request, "sm_90")
    assert flags.cuda == (
        "-O3", "-use_fast_math", "--use_fast_math", "-lineinfo", "-std=c++17", "-std=c++20", "-DA=1",
        "-U__CUDA_NO_HALF_OPERATORS__", "-Xptxas=-O3", "-Xptxas=-dlcm=ca", "-maxrregcount=64",
        "--expt-relaxed-constexpr",
    )  # fmt: skip
    assert flags.cxx == ("-O2", "-fopenmp", "-std=c++17", "-DB")
    assert (flags.libraries, flags.openmp, flags.arch) == (("cublas", "cudnn", "cublasLt"), True, "sm_90")
    assert request.include_paths == ("inc", ".")
    # the simulator has no architecture
    assert (
        extension_flags(inline_request(tmp_path, "x", "", extra_cuda_cflags=["-arch=sm_80"]), "").arch == ""
    )


def test_the_standard_is_raised_to_what_pytorch_needs():
    assert raised(("-std=c++17", "-O3"), "c++20") == ("-O3",)
    assert raised(("-std=c++20",), "c++20") == ("-std=c++20",)
    assert raised(("--std=c++17",), "c++17") == ("--std=c++17",)


def test_the_word_in_a_comment_is_nothing(compiler, sim, monkeypatch):
    text = (
        '"""No load_inline here."""\n# torch.utils.cpp_extension.load_inline(...)\nx = "a load_inline call"\n'
    )
    # were it looked through, it would be by a sandbox
    monkeypatch.setattr("warpsmith.compile.collection.run_tree", None)
    result = compiler.build(Submission(files={"model_new.py": text}), sim)
    assert result.status is CompileStatus.OK
    assert list(Path(result.build_dir).iterdir()) == []


def test_code_that_raises_or_ends_its_process_keeps_what_it_asked_for(compiler, sim):
    text = _HEADER + "load_inline('x', CPP, no_implicit_headers=True)\nimport os\nos._exit(0)\n"
    result = compiler.build(Submission(files={"model_new.py": text}), sim)
    assert result.status is CompileStatus.OK
    assert len(json.loads(Path(result.build_dir, INDEX).read_text())) == 1


def test_code_that_names_the_builder_and_asks_for_nothing(compiler, sim):
    text = "import torch.utils.cpp_extension\nraise RuntimeError\n"
    result = compiler.build(Submission(files={"model_new.py": text}), sim)
    assert result.status is CompileStatus.OK
    assert json.loads(Path(result.build_dir, INDEX).read_text()) == {}


def test_a_process_that_does_not_start_is_not_the_submissions_fault(tmp_path, sim):
    class Broken(LocalSandbox):
        name = "broken"

        def command(self, argv, spec):
            return ["sh", "-c", "echo no python here; exit 3"]

    with pytest.raises(InfrastructureError, match="in the sandbox broken: no python here"):
        LocalCompiler(tmp_path, sandbox=Broken()).build(_inline(), sim)


def test_forged_notes_are_refused_whatever_they_are(tmp_path):
    request = inline_request(tmp_path, "x", "int x;").model_dump(mode="json")
    assert [r.name for r in _read(json.dumps({"request": request}).encode()).requests] == ["x"]
    for note in (
        b"{",
        b"[]",
        b'{"request": {"name": "x", "more": 1}}',
        b"\xff",
        b'{"request": {"name": "../x"}}',
    ):
        with pytest.raises(CompileFailedError):
            _read(note)
    many = "\n".join(json.dumps({"request": {**request, "name": f"x{i}"}}) for i in range(MAX_EXTENSIONS + 1))
    with pytest.raises(CompileFailedError, match="more than 64 extensions"):
        _read(many.encode())
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    assert not take(tmp_path / "secret", tmp_path / "copy", 5)
    assert not take(tmp_path / "link", tmp_path / "copy", 99)
    assert not take(tmp_path / "absent", tmp_path / "copy", 99)
    assert not take(tmp_path, tmp_path / "copy", 99)


def test_inline_sources_are_what_pytorch_makes_of_them(tmp_path):
    request = inline_request(
        tmp_path, "x", ["int f();", "int g();"], "int f() { return 1; }", functions=["f"]
    )
    assert request.generated == {
        "x/main.cpp": (
            "#include <torch/extension.h>\nint f();\nint g();\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {\n"
            'm.def("f", torch::wrap_pybind_function(f), "f");\n}'
        ),
        "x/cuda.cu": "#include <torch/types.h>\n#include <cuda.h>\n#include <cuda_runtime.h>\nint f() { return 1; }",
    }
    plain = inline_request(
        tmp_path,
        "x",
        "a",
        functions={"f": "said"},
        with_pytorch_error_handling=False,
        no_implicit_headers=True,
    )
    assert plain.generated == {
        "x/main.cpp": 'a\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {\nm.def("f", f, "said");\n}'
    }
    assert plain == inline_request(
        tmp_path, "x", "a", functions={"f": "said"}, with_pytorch_error_handling=False, no_implicit_headers=True,
        verbose=True, build_directory="/x", with_cuda=True, keep_intermediates=False,
    )  # fmt: skip


_SIZED = """
class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width
        self.ext = build(f"* {width}")


class ModelNew(torch.nn.Module):
    def __init__(self, width, *, shift):
        super().__init__()
        self.block = Block(width)
        self.shift = shift
        self.ext = build(f"+ {shift}.0f")

    def forward(self, x):
        return run(build(f"- {self.block.width}"), run(self.ext, run(self.block.ext, x)))
"""
_SIZED_TASK = """
import torch
of_the_reference = True
class Model(torch.nn.Module):
    def __init__(self, width, shift):
        super().__init__()
    def forward(self, x):
        return x
def get_inputs():
    return [torch.ones(4)]
def get_init_inputs():
    return [[3], {"shift": 20}]
"""


def _sized():
    """A submission whose constructors, and forward through them, build from the arguments alone."""
    start = _SAMPLE.index("def build")
    end = _SAMPLE.index("# two of one name")
    tail = _SAMPLE[_SAMPLE.index("def run(") :]
    head = _SAMPLE[:start].replace("import functools\n", "")
    return Submission(files={"model_new.py": head + _SAMPLE[start:end] + _SIZED + "\n\n" + tail})


def test_a_constructor_that_builds_from_its_arguments_is_asked_with_the_tasks(compiler, sim, imported):
    task = Task(name="sized", code=_SIZED_TASK)
    submission = _sized()
    result = compiler.build(submission, sim, task)
    assert result.status is CompileStatus.OK, result.log
    assert len(json.loads(Path(result.build_dir, INDEX).read_text())) == 3, (
        "and nothing for arguments of ours"
    )
    module = imported(submission, result)
    x = torch.linspace(-4, 4, 50)
    torch.testing.assert_close(module.ModelNew(3, shift=20)(x), x * 3 + 20 - 3)
    assert compiler.build(submission, sim, task).cached
    other = Task(name="sized", code=_SIZED_TASK.replace("[[3]", "[[4]"))
    assert compiler.build(submission, sim, other).key != result.key


@pytest.mark.parametrize(
    "code",
    [
        _SIZED_TASK.replace("return [[3]", "raise RuntimeError; return [[3]"),
        _SIZED_TASK.replace("return [[3]", "import os; os._exit(0); return [[3]"),
        "not python",
    ],
)
def test_a_task_that_gives_no_arguments_leaves_those_of_ours(compiler, sim, code):
    """Its own fault is the judge's to tell."""
    result = compiler.build(_sized(), sim, Task(name="none", code=code))
    assert result.key == compiler.build(_sized(), sim).key


def test_the_submission_sees_arguments_and_nothing_else_of_the_task(compiler, sim):
    text = (
        _HEADER
        + """
import os
import torch

class ModelNew(torch.nn.Module):
    def __init__(self, width, shift=0):
        super().__init__()
        seen = [os.path.join(at, name) for top in ("/tmp", "..") for at, _, names in os.walk(top) for name in names]
        # the interpreter and its packages may lie there too
        found = any("task.py" in name and not name.startswith(OWN) for name in seen)
        found = found or any("of_the_reference" in vars(m) for m in tuple(sys.modules.values()))
        load_inline(f"w{width}_{'seen' if found else 'unseen'}", CPP, no_implicit_headers=True)
"""
    )
    result = compiler.build(
        Submission(files={"model_new.py": f"import sys\nOWN = {python_paths()!r}\n{text}"}),
        sim,
        Task(name="sized", code=_SIZED_TASK),
    )
    assert result.status is CompileStatus.OK, result.log
    (library,) = json.loads(Path(result.build_dir, INDEX).read_text()).values()
    assert Path(library).name == "w3_unseen.so"
