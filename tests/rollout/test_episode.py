"""run_episode with a scripted policy, judge and compiler over a real store."""

from collections.abc import Generator
from pathlib import Path

import pytest

from warpsmith.errors import InfrastructureError, TaskUnsupportedError
from warpsmith.rollout import EpisodeListener, Limits, run_episode
from warpsmith.rollout.scripted import ScriptedCompiler, ScriptedJudge, ScriptedPolicy, scripted_verdict
from warpsmith.store import Manifest, RunStore
from warpsmith.types import (
    Device,
    Episode,
    PaperSpeedup,
    Speedup,
    Status,
    StopReason,
    Submission,
    Target,
    Task,
    TimeStats,
    Timings,
    Turn,
    Verdict,
)
from warpsmith.types.protocols import Environment, JudgeSettings, Menu, Policy, PolicyStep

TASK = Task(name="tiny", code="class Model: ...")
SETTINGS = JudgeSettings(device=Device.CUDA)
MANIFEST = Manifest(
    command="optimize", task_hash=TASK.task_hash, task_name="tiny", policy="scripted", device=Device.CUDA
)


def submission(text: str) -> Submission:
    return Submission(files={"model_new.py": f"# {text}"})


def step(text: str) -> PolicyStep:
    return PolicyStep(note=f"tried {text}", submission=submission(text))


def timed(median_ms: float, baseline_ms: float = 10.0) -> dict[str, object]:
    stats = TimeStats(
        calls=10,
        median_ms=median_ms,
        p25_ms=median_ms,
        p75_ms=median_ms,
        min_ms=median_ms,
        raw_median_ms=median_ms,
        null_ms=0.0,
    )
    baseline = stats.model_copy(update={"median_ms": baseline_ms})
    ratio = baseline_ms / median_ms
    return {
        "timings": Timings(candidate=stats, eager=baseline, compile=baseline),
        "speedup": Speedup(paper=PaperSpeedup(eager=ratio, compile=ratio)),
    }


def by_text(times_ms: dict[str, float | Status]) -> ScriptedJudge:
    """A judge that knows each submission's time, or the status it fails with."""

    def answer(task: Task, given: Submission, settings: JudgeSettings, calls: int) -> Verdict:
        outcome = times_ms[given.files["model_new.py"].removeprefix("# ")]
        if isinstance(outcome, Status):
            return scripted_verdict(task, given, settings, outcome, detail="as scripted")
        return scripted_verdict(task, given, settings, detail=f"call {calls}", **timed(outcome))

    return ScriptedJudge(answer)


def run(
    folder: Path,
    policy: Policy,
    judge: ScriptedJudge,
    *,
    settings: JudgeSettings = SETTINGS,
    limits: Limits | None = None,
    progress: EpisodeListener | None = None,
) -> Episode:
    with RunStore(folder) as store:
        store.open(MANIFEST)
        return run_episode(
            TASK,
            policy,
            judge=judge,
            compiler=ScriptedCompiler(),
            target=Target(device=settings.device, arch="sm_90"),
            settings=settings,
            store=store,
            limits=limits,
            progress=progress,
        )


def reopened(folder: Path) -> RunStore:
    """The store as another process would read it."""
    store = RunStore(folder)
    with store:
        store.open(MANIFEST)
    return store


class Told:
    """A listener that keeps what it was told."""

    def __init__(self) -> None:
        self.events: list[str | None] = []

    def turn(self, turn: Turn, verdict: Verdict | None) -> None:
        self.events.append(verdict.status.value if verdict else None)

    def scoring(self, submission_hash: str) -> None:
        self.events.append(f"scoring {submission_hash}")


def test_the_fastest_passed_submission_is_judged_afresh_and_scored(tmp_path: Path) -> None:
    judge = by_text({"a": 5.0, "b": 2.0, "c": 4.0, "bad": Status.WRONG})
    policy = ScriptedPolicy([step("a"), PolicyStep(note="thinking"), step("b"), step("bad"), step("c")])
    told = Told()
    episode = run(tmp_path, policy, judge, progress=told)
    best = submission("b").submission_hash
    assert judge.asked == [submission(x).submission_hash for x in ("a", "b", "bad", "c")] + [best]
    assert told.events == ["passed", None, "passed", "wrong", "passed", f"scoring {best}"]
    assert (episode.stop, episode.best_submission_hash) == (StopReason.FINISHED, best)
    assert episode.reward is not None and episode.reward.milestone == 3 and episode.reward.raw == 5.0
    store = reopened(tmp_path)
    assert store.episodes() == (episode,)
    assert store.turns(episode.episode_id) == episode.turns
    final = store.verdict(episode.final_verdict_hash or "")
    assert final is not None and final.detail == "call 5"
    assert store.submission(best) == submission("b")
    assert Task.model_validate_json(store.blob(episode.task_record_hash or "") or b"") == TASK
    assert not (tmp_path / "work").exists()


def test_the_policy_is_sent_each_verdict(tmp_path: Path) -> None:
    policy = ScriptedPolicy([step("a"), PolicyStep(note="rest"), step("bad")])
    run(tmp_path, policy, by_text({"a": 1.0, "bad": Status.CRASHED}))
    assert [v.status if v else None for v in policy.received] == [Status.PASSED, None, Status.CRASHED]


def test_on_sim_the_last_passed_submission_counts(tmp_path: Path) -> None:
    judge = ScriptedJudge(lambda task, given, settings, calls: scripted_verdict(task, given, settings))
    settings = JudgeSettings(device=Device.SIM)
    episode = run(tmp_path, ScriptedPolicy([step("a"), step("b")]), judge, settings=settings)
    assert episode.best_submission_hash == submission("b").submission_hash
    assert episode.reward is not None and episode.reward.milestone == 1


def test_only_the_score_pays_for_the_whole_menu(tmp_path: Path) -> None:
    menus = []

    def answer(task: Task, given: Submission, settings: JudgeSettings, calls: int) -> Verdict:
        menus.append(settings.baselines)
        return scripted_verdict(task, given, settings)

    settings = JudgeSettings(device=Device.CUDA, baselines=Menu.ALL)
    run(tmp_path, ScriptedPolicy([step("a"), step("b")]), ScriptedJudge(answer), settings=settings)
    assert menus == [Menu.PAPER, Menu.PAPER, Menu.ALL]


def test_a_finished_episode_is_not_run_again(tmp_path: Path) -> None:
    first = run(tmp_path, ScriptedPolicy([step("a")]), by_text({"a": 1.0}))
    silent = ScriptedJudge(lambda *_: pytest.fail("judged again"))
    assert run(tmp_path, ScriptedPolicy([RuntimeError("not reached")]), silent) == first


def test_other_settings_are_another_episode(tmp_path: Path) -> None:
    run(tmp_path, ScriptedPolicy([step("a")]), by_text({"a": 1.0}))
    judge = by_text({"a": 1.0})
    run(tmp_path, ScriptedPolicy([step("a")]), judge, settings=JudgeSettings(device=Device.CUDA, checks=7))
    assert len(judge.asked) == 2


@pytest.mark.parametrize("killed_at", [1, 2, 3, 4])
def test_a_killed_run_goes_on_and_pays_for_no_verdict_twice(tmp_path: Path, killed_at: int) -> None:
    times = {"a": 5.0, "b": 2.0, "c": 4.0}
    steps = [step(text) for text in times]

    def answer(task: Task, given: Submission, settings: JudgeSettings, calls: int) -> Verdict:
        if calls == killed_at:
            raise KeyboardInterrupt
        return by_text(dict(times)).judge(task, given, settings)

    killed = ScriptedJudge(answer)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, ScriptedPolicy(steps), killed)
    second = by_text(dict(times))
    episode = run(tmp_path, ScriptedPolicy(steps), second)
    assert len(second.asked) == 4 - (killed_at - 1)
    assert episode.best_submission_hash == submission("b").submission_hash
    assert reopened(tmp_path).turns(episode.episode_id) == episode.turns


def test_a_policys_error_is_data_and_what_passed_before_counts(tmp_path: Path) -> None:
    policy = ScriptedPolicy([step("a"), ValueError("no such operator")])
    episode = run(tmp_path, policy, by_text({"a": 1.0}))
    assert episode.stop is StopReason.POLICY_FAILED
    assert "ValueError: no such operator" in episode.turns[-1].note
    assert episode.reward is not None and episode.reward.milestone == 3


def test_nothing_passed_means_no_score(tmp_path: Path) -> None:
    judge = by_text({"a": Status.WRONG})
    episode = run(tmp_path, ScriptedPolicy([step("a")]), judge)
    assert (episode.best_submission_hash, episode.final_verdict_hash, episode.reward) == (None, None, None)
    assert len(judge.asked) == 1


def test_a_refused_task_ends_the_episode(tmp_path: Path) -> None:
    judge = by_text({"a": Status.TASK_REFUSED})
    episode = run(tmp_path, ScriptedPolicy([step("a"), step("b")]), judge)
    assert (episode.stop, len(episode.turns)) == (StopReason.TASK_REFUSED, 1)


def test_a_task_error_of_the_policy_is_the_tasks(tmp_path: Path) -> None:
    policy = ScriptedPolicy([TaskUnsupportedError("needs fft")])
    episode = run(tmp_path, policy, by_text({}))
    assert (episode.stop, episode.turns[0].note) == (StopReason.TASK_UNSUPPORTED, "needs fft")


def test_infrastructure_verdicts_are_stored_raised_and_asked_again(tmp_path: Path) -> None:
    broken = by_text({"a": Status.INFRASTRUCTURE})
    with pytest.raises(InfrastructureError, match="as scripted"):
        run(tmp_path, ScriptedPolicy([step("a")]), broken)
    assert [v.status for v in reopened(tmp_path).verdicts()] == [Status.INFRASTRUCTURE]
    repaired = by_text({"a": 1.0})
    episode = run(tmp_path, ScriptedPolicy([step("a")]), repaired)
    assert len(repaired.asked) == 2
    assert episode.stop is StopReason.FINISHED


def test_infrastructure_errors_of_the_judge_propagate(tmp_path: Path) -> None:
    def answer(*_: object) -> Verdict:
        raise InfrastructureError("no compiler")

    with pytest.raises(InfrastructureError, match="no compiler"):
        run(tmp_path, ScriptedPolicy([step("a")]), ScriptedJudge(answer))
    assert reopened(tmp_path).episodes() == ()


def test_limits(tmp_path: Path) -> None:
    steps = [PolicyStep(note=str(i)) for i in range(9)]
    short = run(tmp_path / "turns", ScriptedPolicy(steps), by_text({}), limits=Limits(turns=3))
    assert (short.stop, len(short.turns)) == (StopReason.TURN_LIMIT, 3)
    late = run(tmp_path / "time", ScriptedPolicy(steps), by_text({}), limits=Limits(seconds=0.0))
    assert (late.stop, len(late.turns)) == (StopReason.TIME_LIMIT, 1)


class Asking:
    """A policy that compiles and judges by itself while it works."""

    name = "scripted"

    def solve(self, env: Environment) -> Generator[PolicyStep, Verdict | None, None]:
        assert env.workdir.is_dir()
        assert env.compile(submission("b")).key == submission("b").submission_hash
        fast = env.judge(submission("b"))
        assert fast.timings is not None and fast.timings.candidate.median_ms == 2.0
        yield step("a")


def test_what_the_policy_had_judged_itself_counts_too(tmp_path: Path) -> None:
    episode = run(tmp_path, Asking(), by_text({"a": 5.0, "b": 2.0}))
    assert episode.best_submission_hash == submission("b").submission_hash


def test_correctness_alone_is_not_timed_and_asked_once(tmp_path: Path) -> None:
    measured: list[tuple[str, bool]] = []

    def answer(task: Task, given: Submission, settings: JudgeSettings, calls: int) -> Verdict:
        name = given.files["model_new.py"].removeprefix("# ")
        measured.append((name, settings.measure))
        if name == "bad":
            return scripted_verdict(task, given, settings, Status.WRONG)
        return scripted_verdict(task, given, settings, **(timed(5.0) if settings.measure else {}))

    class Careful:
        name = "careful"

        def solve(self, env: Environment) -> Generator[PolicyStep, Verdict | None, None]:
            assert env.verify(submission("bad")).status is env.judge(submission("bad")).status is Status.WRONG
            untimed = env.verify(submission("good"))
            assert untimed.timings is None and env.verify(submission("good")) == untimed
            # a step that names it costs no time either: the policy was told already
            assert (yield step("good")) == untimed
            assert env.judge(submission("good")).timings is not None
            assert env.verify(submission("good")).timings is not None
            assert (yield step("good")).timings is not None

    episode = run(tmp_path, Careful(), ScriptedJudge(answer))
    assert measured == [("bad", False), ("good", False), ("good", True), ("good", True)]
    assert episode.best_submission_hash == submission("good").submission_hash
    first, second = episode.turns
    assert first.verdict_hash != second.verdict_hash


def test_what_the_policy_was_told_is_recorded_and_tells_episodes_apart(tmp_path: Path) -> None:
    judge = by_text({"a": 5.0})
    told = []
    for seed in (1, 2, 1):
        policy = ScriptedPolicy([step("a")])
        policy.settings = {"seed": seed}  # type: ignore[attr-defined]  # as a policy with settings has
        told.append(run(tmp_path, policy, judge))
    assert [episode.policy_settings for episode in told] == [{"seed": 1}, {"seed": 2}, {"seed": 1}]
    assert told[0] == told[2] and told[0].episode_id != told[1].episode_id
