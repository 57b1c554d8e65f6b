"""Processes that train, played by modules of Python's own library."""

from pathlib import Path

import pytest

from warpsmith.errors import InfrastructureError
from warpsmith.training.launch import failure, launch, training_environment


def test_to_the_end_with_what_it_printed_in_the_log(tmp_path: Path) -> None:
    job, log = tmp_path / "job.json", tmp_path / "log.txt"
    job.write_text('{"a": 1}')
    assert launch("json.tool", job, log=log, device="cpu").ok
    assert '"a": 1' in log.read_text()


def test_a_failure_is_one_line_with_its_last_words(tmp_path: Path) -> None:
    job, log = tmp_path / "job.json", tmp_path / "log.txt"
    job.write_text("{")
    error = failure(launch("json.tool", job, log=log, device="cpu"), log)
    assert "ended with status 1: Expecting property name" in str(error) and "\n" not in str(error)
    assert str(log) in (error.hint or "")


def test_what_no_longer_moves_is_ended(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="has not moved for 2 s"):
        launch("http.server", Path("0"), log=tmp_path / "log.txt", device="cpu", silence_s=2.0)


def test_the_environment_of_each_device() -> None:
    cpu, cuda = (training_environment({"PATH": "p", "OMP_NUM_THREADS": "3"}, one) for one in ("cpu", "cuda"))
    assert cpu["VERL_PLATFORM"] == "cpu" and "VERL_PLATFORM" not in cuda
    assert (cpu["OMP_NUM_THREADS"], cpu["PATH"]) == ("3", "p")
    assert cpu["VERL_USE_EXTERNAL_MODULES"] == cuda["VERL_USE_EXTERNAL_MODULES"]
