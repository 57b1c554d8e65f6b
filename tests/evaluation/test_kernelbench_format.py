"""KernelBench's format: what its analysis reads."""

from tests.evaluation.test_regression import verdict

from warpsmith.evaluation.kernelbench_format import baseline_times, eval_results, file_name
from warpsmith.types import Status, Task, Timings

TASK = Task(name="19_ReLU", code="x", level=1, problem_id=19)


def test_samples_are_numbered_and_failures_have_no_runtime() -> None:
    rows = [(TASK, verdict(2.0)), (TASK, verdict(2.0, Status.WRONG)), (TASK, None)]
    found = eval_results(rows, 1)["19"]
    assert [(s["sample_id"], s["correctness"], s["runtime"]) for s in found] == [
        (0, True, 2.0), (1, False, -1.0), (2, False, -1.0),
    ]  # fmt: skip
    assert found[0]["compiled"] is True
    assert found[2]["compiled"] is False
    assert eval_results(rows, 2) == {}


def test_baselines_stand_under_the_file_name() -> None:
    judged = verdict(2.0)
    assert judged.timings is not None
    timings = Timings(candidate=judged.timings.candidate, eager=judged.timings.candidate)
    rows = [(TASK, judged.model_copy(update={"timings": timings}))]
    assert baseline_times(rows, 1)["level1"]["19_ReLU.py"]["mean"] == 2.0
    assert file_name(Task(name="ReLU.py", code="x", level=1, problem_id=19)) == "19_ReLU.py"
