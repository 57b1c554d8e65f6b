"""KernelBench's format: what its analysis reads."""

from tests.evaluation.test_regression import verdict

from warpsmith.evaluation.kernelbench_format import baseline_times, eval_results, file_name
from warpsmith.types import BaselineKind, Status, TaskRef, TaskSource, Timings


def problem(name: str, number: int | None = 19) -> TaskRef:
    return TaskRef(name=name, task_hash=name, source=TaskSource.KERNELBENCH, level=1, problem_id=number)


TASK = problem("19_ReLU")


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
    assert file_name(problem("ReLU.py")) == "19_ReLU.py"


def test_what_failed_or_never_began_stays_in_the_analysis() -> None:
    # its script leaves out of n whatever the baseline file lacks, and makes ratios of correct problems alone
    judged = verdict(2.0)
    assert judged.timings is not None
    timings = Timings(candidate=judged.timings.candidate, eager=judged.timings.candidate)
    timed = judged.model_copy(update={"timings": timings})
    rows = [
        (problem("1_a", 1), timed),
        (problem("2_b", 2), verdict(2.0, Status.WRONG)),
        (problem("3_c", 3), None),
        (problem("4_d", 4), None),
        (problem("4_d", 4), timed),
        (problem("5_e", 5), judged.model_copy(update={"timings": None, "speedup": None})),
        (problem("own", None), None),
    ]
    means = {
        name: entry["mean"] for name, entry in baseline_times(rows, 1, BaselineKind.EAGER)["level1"].items()
    }
    assert means == {"1_a.py": 2.0, "2_b.py": -1.0, "3_c.py": -1.0, "4_d.py": 2.0}
    assert set(eval_results(rows, 1)) == {"1", "2", "3", "4", "5"}
