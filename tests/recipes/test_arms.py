"""Arms on the same tasks: resumed as they were, and counted right."""

import math
from pathlib import Path

import pytest

from warpsmith.errors import UsageError
from warpsmith.recipes.arms import NOTHING, Arm, arm_rows, arms_table, compared, outcome, run_arms, wilson
from warpsmith.rollout import Limits
from warpsmith.rollout.scripted import ScriptedCompiler, ScriptedJudge, ScriptedPolicy, scripted_verdict
from warpsmith.store import RunStore
from warpsmith.types import Device, Episode, Status, Submission, Target, Task, Verdict
from warpsmith.types.protocols import JudgeSettings, PolicyStep

TASKS = [Task(name=name, code=f"# {name}") for name in ("easy", "hard")]
SETTINGS = JudgeSettings(device=Device.SIM)


def judged(task: Task, given: Submission, settings: JudgeSettings, calls: int) -> Verdict:
    """`good` passes everywhere, `fair` where the task is easy."""
    text = given.files["model_new.py"]
    passed = "good" in text or ("fair" in text and task.name == "easy")
    return scripted_verdict(task, given, settings, Status.PASSED if passed else Status.WRONG)


def says(*texts: str) -> ScriptedPolicy:
    steps = [PolicyStep(note=text, submission=Submission(files={"model_new.py": text})) for text in texts]
    return ScriptedPolicy(steps, name="words")


class Bench:
    """Two arms: one that gets better from turn to turn, and one that has a single turn for a sample of its own."""

    def __init__(self) -> None:
        self.judge = ScriptedJudge(judged)
        self.made: list[str] = []

    def loop(self, sample: int) -> ScriptedPolicy:
        self.made.append(f"loop {sample}")
        return says("bad", "good")

    def single(self, sample: int) -> ScriptedPolicy:
        self.made.append(f"single {sample}")
        return says("fair") if sample == 0 else ScriptedPolicy([PolicyStep(note="nothing")], name="words")

    def run(
        self, folder: Path, samples: int, seconds: float = math.inf
    ) -> tuple[RunStore, dict[str, tuple[Episode, ...]]]:
        arms = [
            Arm("single", self.single, Limits(turns=1)),
            Arm("loop", self.loop, Limits(turns=4)),
        ]
        with RunStore(folder) as store:
            return store, run_arms(
                TASKS,
                arms,
                samples,
                judge=self.judge,
                compiler=ScriptedCompiler(),
                target=Target(device=Device.SIM),
                settings=SETTINGS,
                store=store,
                seconds=seconds,
            )


def test_rates_outcomes_and_the_difference(tmp_path: Path) -> None:
    store, episodes = Bench().run(tmp_path, samples=2)
    single, loop = arm_rows(store, episodes)
    assert (single.episodes, single.passed, single.rate, single.solved_tasks) == (4, 1, 0.25, 1)
    assert single.outcomes == {NOTHING: 2, "passed": 1, "wrong": 1}
    assert (loop.episodes, loop.passed, loop.solved_tasks, loop.turns) == (4, 4, 2, 8)
    assert loop.stops == {"finished": 4} and (loop.low, loop.high) == wilson(4, 4)
    gap = compared(store, episodes["single"], episodes["loop"])
    assert (gap.tasks, gap.first, gap.second, gap.difference) == (2, 0.25, 1.0, 0.75)
    assert [outcome(store, e) for e in episodes["single"]] == ["passed", "wrong", NOTHING, NOTHING]
    assert "| single | 4 | 1 | 25% (5% – 70%) | 1 of 2 |" in arms_table([single, loop])


def test_a_run_goes_on_and_grows(tmp_path: Path) -> None:
    bench = Bench()
    _, first = bench.run(tmp_path, samples=1)
    asked = len(bench.judge.asked)
    _, again = bench.run(tmp_path, samples=1)
    assert again == first and len(bench.judge.asked) == asked
    _, more = bench.run(tmp_path, samples=2)
    assert more["loop"][:2] == first["loop"] and len(more["loop"]) == 4
    assert len({episode.episode_id for episode in more["loop"]}) == 4
    # out of time: what is there is counted, nothing is begun
    _, rest = bench.run(tmp_path, samples=3, seconds=0)
    assert rest == more
    store, nothing = bench.run(tmp_path / "new", samples=1, seconds=0)
    assert nothing == {"single": (), "loop": ()} and arm_rows(store, nothing) == ()
    with RunStore(tmp_path) as store, pytest.raises(UsageError, match="holds another run"):
        run_arms(
            TASKS[:1],
            [Arm("loop", bench.loop, Limits())],
            1,
            judge=bench.judge,
            compiler=ScriptedCompiler(),
            target=Target(device=Device.SIM),
            settings=SETTINGS,
            store=store,
        )


@pytest.mark.parametrize(
    ("passed", "of", "low", "high"),
    # Newcombe, Two-sided confidence intervals for the single proportion, 1998, table I
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson(passed: int, of: int, low: float, high: float) -> None:
    assert wilson(passed, of) == pytest.approx((low, high), abs=5e-5)
    assert wilson(of - passed, of) == pytest.approx((1 - high, 1 - low), abs=5e-5)


def test_a_share_of_nothing_has_no_interval() -> None:
    with pytest.raises(ValueError, match="no interval"):
        wilson(0, 0)
