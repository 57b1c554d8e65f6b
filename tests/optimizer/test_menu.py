"""Which accuracies and forms the policy offers after the first, and which algorithms of a library it takes."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.optimizer.samples import task
from tests.optimizer.test_numerics import disagreement, plan_of
from tests.optimizer.test_policy import Environment

from warpsmith.compile import LocalCompiler
from warpsmith.optimizer import BuiltinPolicy
from warpsmith.optimizer.build import make_submission
from warpsmith.optimizer.library import CHOICES, Conv, Gemm, Library, Math, Operand, menu
from warpsmith.optimizer.tune_library import library_variants, tune_libraries
from warpsmith.optimizer.worker import REQUEST, RESULT, Outcome, Request, Result
from warpsmith.types import Device, Job, JobOutcome, JobResult, Status, Submission, Target

SIDE = Operand(False, 8, 0)
GEMM = Gemm(8, 8, 8, 1, "float32", SIDE, SIDE)
CONV = Conv((1, 2, 4, 4), (2, 2, 3, 3), (1, 2, 2, 2), (0, 0), (1, 1), (1, 1), 1, "float32")
HALF = Gemm(8, 8, 8, 1, "float16", SIDE, SIDE)


class Answers:
    """A pool whose worker answers each request with a submission that names it."""

    def __init__(self, options: tuple[Math, ...], *, foldable: bool = False) -> None:
        self.options, self.foldable = options, foldable

    def run(self, job: Job) -> JobResult:
        folder = Path(job.folder)
        request = Request.model_validate_json((folder / REQUEST).read_text())
        said = f"# {request.math} {request.fold} {request.conservative}\n"
        result = Result(
            outcome=Outcome.EMITTED,
            request_hash=request.content_hash,
            menu=self.options,
            foldable=self.foldable,
            submission=Submission(files={"model_new.py": said}),
        )
        (folder / RESULT).write_text(result.model_dump_json())
        return JobResult(outcome=JobOutcome.COMPLETED, exit_code=0)


def offered(pool: Answers, folder: Path, device: Device, *statuses: Status) -> list[str]:
    """Names of the submissions that the policy yields; `statuses` are their verdicts, then all pass."""
    env = Environment(task("return a[0]", "[torch.rand(2)]"), folder)
    env.device = device
    steps, found, verdict = BuiltinPolicy(pool=pool).solve(env), [], None
    answers = iter(statuses)
    try:
        while True:
            submission = steps.send(verdict).submission
            found.append(submission.files["model_new.py"].strip("# \n"))
            verdict = env.verdict(submission, next(answers, Status.PASSED))
    except StopIteration:
        return found


@pytest.mark.parametrize(
    ("specs", "expected"),
    [
        ([GEMM], (Math.TF32,)),
        ([CONV], (Math.STRICT,)),
        ([GEMM, CONV], (Math.TF32, Math.STRICT)),
        ([HALF], ()),
        ([], ()),
    ],
)
def test_only_what_changes_something_is_on_the_menu(
    specs: list[Gemm | Conv], expected: tuple[Math, ...]
) -> None:
    assert menu(specs, Math.DEFAULT) == expected


def test_after_the_default_come_folded_weights_and_tf32(tmp_path: Path) -> None:
    pool = Answers((Math.TF32, Math.STRICT), foldable=True)
    assert offered(pool, tmp_path, Device.CUDA) == [
        "default False False",
        "default True False",
        "tf32 False False",
        "tf32 True False",
    ]


def test_where_the_default_fails_strict_and_then_the_conservative_form_come(tmp_path: Path) -> None:
    pool = Answers((Math.TF32, Math.STRICT), foldable=True)
    first, second, third = "default False False", "strict False False", "default False True"
    assert offered(pool, tmp_path, Device.CUDA, Status.WRONG) == [first, second]
    assert offered(pool, tmp_path, Device.CUDA, Status.WRONG, Status.WRONG) == [first, second, third]


def test_the_simulator_is_offered_one(tmp_path: Path) -> None:
    pool = Answers((Math.TF32,), foldable=True)
    assert offered(pool, tmp_path, Device.SIM) == ["default False False"]


def test_the_fastest_algorithm_of_each_product_is_taken(
    tmp_path: Path, compiler: LocalCompiler, make_module: Callable[[Submission], type]
) -> None:
    forward = "return torch.tanh(a[0] @ a[1]), torch.tanh(a[1] @ a[0]), self.c(a[2])"
    inputs = "[torch.rand(512, 512), torch.rand(512, 512), torch.rand(1, 2, 8, 8)]"
    module, plan = plan_of(tmp_path, task(forward, inputs, "self.c = nn.Conv2d(2, 2, 3)"))
    submission, launchers = library_variants(plan)
    assert submission is not None
    # both products are one question, and the convolution is too small for one
    assert len(launchers) == CHOICES

    def timer(built: object, launcher: str, step: Library) -> float | None:
        assert callable(getattr(built, launcher))
        return {0: 2.0, 3: 1.0, 4: None}.get(step.spec.choice, 3.0)

    tuned = tune_libraries(plan, compiler, Target(device=Device.SIM), timer)
    assert [s.spec.choice for s in tuned.products] == [3, 3, 0]
    assert tuned.notes[-1].endswith("algorithm 3 of the library's heuristic, 1000.0 µs by its own events")
    assert disagreement(module, make_module(make_submission(tuned))) < 1e-5
