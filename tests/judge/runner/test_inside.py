"""What a runner says of an error: the author's own line, and no other."""

import importlib.util
from pathlib import Path

import pytest

from warpsmith.judge.runner.inside import failure


@pytest.mark.parametrize(
    ("code", "place"),
    [
        ("\nx = 1 / 0\n", " (line 2 of model_new.py)"),
        ("import warpsmith.nowhere\n", " (line 1 of model_new.py)"),
        # it says its own line, and no line of the author's was running
        ("def f(:\n", ""),
    ],
)
def test_the_place_is_a_line_of_the_authors(tmp_path: Path, code: str, place: str) -> None:
    path = tmp_path / "model_new.py"
    path.write_text(code)
    spec = importlib.util.spec_from_file_location("model_new", path)
    with pytest.raises((ZeroDivisionError, ImportError, SyntaxError)) as caught:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    # the first frame is this test's, which a runner does not have
    error = caught.value.with_traceback(caught.tb.tb_next)
    assert failure("load", error)["place"] == place
