"""Every kernel of the corpus gives the right values on the simulator, in any order of threads."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from tests.sim.corpus.cases import Case, Draw, all_cases, error_of, names_of_files, right_values, sources

from warpsmith.compile.local import LocalCompiler
from warpsmith.sim import order
from warpsmith.types import CompileStatus, Device, Submission, Target

CASES = all_cases()
ORDERS = (order.FORWARD, order.REVERSE, 12)


@pytest.fixture(scope="session")
def module_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], ModuleType]:
    """The built file of the corpus as a module; each is built once."""
    compiler = LocalCompiler(cache_dir=tmp_path_factory.mktemp("corpus"), jobs=1)
    loaded: dict[str, ModuleType] = {}

    def module(file: str) -> ModuleType:
        if file not in loaded:
            built = compiler.build(Submission(files=sources(file)), Target(device=Device.SIM))
            assert built.status is CompileStatus.OK, built.log
            path = Path(str(built.build_dir)) / "cuda_extension.py"
            spec = importlib.util.spec_from_file_location(f"corpus_{file}", path)
            assert spec is not None and spec.loader is not None
            loaded[file] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(loaded[file])
        return loaded[file]

    return module


def run(module: ModuleType, case: Case) -> list[torch.Tensor]:
    arguments = case.arguments(Draw(case.name))
    getattr(module, case.name)(*arguments)
    return [arguments[i] for i in case.writes]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_kernel_gives_the_right_values_in_any_thread_order(
    module_of: Callable[[str], ModuleType], case: Case
) -> None:
    right = right_values(case, case.arguments(Draw(case.name)))
    for thread_order in ORDERS:
        with order.using(thread_order):
            got = run(module_of(case.file), case)
        errors = [error_of(g, r, case.tolerance) for g, r in zip(got, right, strict=True)]
        assert max(errors) <= (1.0 if got[0].dtype.is_floating_point else 0.0), (thread_order, errors)


def test_the_corpus_is_whole() -> None:
    folder = Path(__file__).parent / "corpus"
    launchers = {
        line.split("_launcher(")[0].split()[-1]
        for path in folder.glob("*.cu")
        for line in path.read_text().splitlines()
        if line.startswith('extern "C"')
    }
    assert launchers == {case.name for case in CASES}
    assert {path.stem for path in folder.glob("*.cu")} == set(names_of_files())
    assert len(CASES) >= 40
