"""Tasks built for the simulator and run beside the reference."""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from warpsmith.compile import LocalCompiler
from warpsmith.types import CompileStatus, Device, Submission, Target


def load_module(path: Path, name: str) -> ModuleType:
    """Import one file under a name of its own."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def compiler(shared_caches: Path) -> LocalCompiler:
    """One build cache for all tests here."""
    return LocalCompiler(shared_caches / "compile")


@pytest.fixture
def make_module(compiler: LocalCompiler, tmp_path: Path) -> Callable[[Submission], type]:
    """`make_module(submission)` builds for the simulator and gives its `ModelNew`."""

    def make(submission: Submission) -> type:
        result = compiler.build(submission, Target(device=Device.SIM))
        assert result.status is CompileStatus.OK, result.log
        path = tmp_path / "model_new.py"
        path.write_text(submission.files["model_new.py"])
        sys.modules["cuda_extension"] = load_module(
            Path(result.build_dir) / "cuda_extension.py", "cuda_extension"
        )
        try:
            return load_module(path, "model_new").ModelNew
        finally:
            del sys.modules["cuda_extension"]

    return make
