"""Stored submissions judged again: what is kept, what is compared, what counts as changed."""

import re
from pathlib import Path

import pytest

from warpsmith.errors import InfrastructureError, UsageError
from warpsmith.evaluation import regrade, regraded_lines, rescore, rescored_lines
from warpsmith.evaluation.regrading import judge_fingerprint, recorded_settings
from warpsmith.rollout.environment import EpisodeEnvironment
from warpsmith.rollout.episode import run_episode
from warpsmith.rollout.journal import Journal, journal_path
from warpsmith.rollout.scripted import ScriptedCompiler, ScriptedJudge, ScriptedPolicy, scripted_verdict
from warpsmith.store import Manifest, RunReader, RunStore
from warpsmith.types import (
    Device,
    PaperSpeedup,
    Reward,
    Rules,
    Speedup,
    Status,
    Submission,
    Target,
    Task,
    TimeStats,
    Timings,
    Verdict,
)
from warpsmith.types.protocols import JudgeSettings, Menu, PolicyStep

TASK = Task(name="tiny", code="class Model: ...")
SETTINGS = JudgeSettings(device=Device.CUDA, rules=Rules.PAPER, checks=7)
MANIFEST = Manifest(
    command="optimize",
    task_hash=TASK.task_hash,
    task_name="tiny",
    policy="scripted",
    device=Device.CUDA,
    settings=SETTINGS.model_dump(mode="json", exclude={"device"}) | {"derived_from": None, "gone": 3},
)


def submission(text: str) -> Submission:
    return Submission(files={"model_new.py": f"# {text}"})


def speed(ratio: float) -> dict[str, object]:
    def stats(ms: float) -> TimeStats:
        return TimeStats(calls=9, median_ms=ms, p25_ms=ms, p75_ms=ms, min_ms=ms, raw_median_ms=ms, null_ms=0)

    return {
        "timings": Timings(candidate=stats(1 / ratio), eager=stats(1), compile=stats(1)),
        "speedup": Speedup(paper=PaperSpeedup(eager=ratio, compile=ratio)),
    }


def judge(outcomes: dict[str, Status | float]) -> ScriptedJudge:
    """A judge that knows each submission's status or speed-up; no two of its verdicts are alike."""

    def answer(task: Task, given: Submission, settings: JudgeSettings, calls: int) -> Verdict:
        outcome = outcomes[given.files["model_new.py"].removeprefix("# ")]
        if isinstance(outcome, Status):
            return scripted_verdict(task, given, settings, outcome, detail=f"call {calls}")
        return scripted_verdict(task, given, settings, detail=f"call {calls}", **speed(outcome))

    return ScriptedJudge(answer)


def run(folder: Path, outcomes: dict[str, Status | float]) -> None:
    """An episode that submits each of `outcomes` in turn."""
    steps = [PolicyStep(note=text, submission=submission(text)) for text in outcomes]
    with RunStore(folder) as store:
        store.open(MANIFEST)
        run_episode(
            TASK, ScriptedPolicy(steps), judge=judge(outcomes), compiler=ScriptedCompiler(),
            target=Target(device=Device.CUDA, arch="sm_90"), settings=SETTINGS, store=store,
        )  # fmt: skip


def again(folder: Path, by: ScriptedJudge, device: Device = Device.CUDA) -> list:
    with RunStore(folder) as store:
        store.open(MANIFEST)
        return regrade(store, by, device)


OLD = {"good": 2.0, "bad": Status.WRONG, "cheat": 9.0}
NEW = {"good": 1.9, "bad": Status.WRONG, "cheat": Status.CHEATED}


def test_each_submission_stands_once_with_old_and_new(tmp_path: Path) -> None:
    run(tmp_path, OLD)
    before = RunReader(tmp_path)
    rows = again(tmp_path, judge(NEW))
    told = [(r.old.status.value, r.new.status.value, r.changed) for r in rows]
    assert told == [("passed", "passed", False), ("wrong", "wrong", False), ("passed", "cheated", True)]
    # the best one's own verdict in the run is its last: the score
    assert rows[2].old == before.verdict(before.episodes()[0].final_verdict_hash)
    lines = list(regraded_lines(rows))
    assert lines[1].split()[-5:] == ["passed", "2×", "2×", "1.9×", "1.9×"]
    assert lines[3].endswith("changed") and "now cheated: call 3" in lines[-2]
    assert lines[-1] == "3 submissions, 1 with another status"


def test_nothing_is_replaced_and_the_run_keeps_its_result(tmp_path: Path) -> None:
    run(tmp_path, OLD)
    before = RunReader(tmp_path)
    again(tmp_path, judge(NEW))
    after = RunReader(tmp_path)
    assert after.verdicts()[: len(before.verdicts())] == before.verdicts()
    assert len(after.verdicts()) == len(before.verdicts()) + 3
    assert after.episodes() == before.episodes()
    pair = (TASK.task_hash, submission("cheat").submission_hash)
    search = SETTINGS.model_copy(update={"baselines": Menu.PAPER, "interleave": False})
    for key in (search.content_hash, "final:" + SETTINGS.content_hash):
        assert after.find_verdict(*pair, key).status is Status.PASSED


def test_a_regrade_that_was_killed_goes_on_and_one_that_ended_is_told_again(tmp_path: Path) -> None:
    run(tmp_path, OLD)
    first = judge({"good": 1.9})  # the second submission is one that this judge cannot answer
    with pytest.raises(KeyError):
        again(tmp_path, first)
    second = judge(NEW)
    rows = again(tmp_path, second)
    assert second.asked == [submission("bad").submission_hash, submission("cheat").submission_hash]
    third = judge({})
    assert again(tmp_path, third) == rows
    assert third.asked == []


def test_infrastructure_answers_nothing(tmp_path: Path) -> None:
    run(tmp_path, {"good": 2.0})
    assert again(tmp_path, judge({"good": Status.INFRASTRUCTURE}))[0].new.status is Status.INFRASTRUCTURE
    (row,) = again(tmp_path, judge({"good": 2.0}))
    assert (row.old.status, row.new.status, row.changed) == (Status.PASSED, Status.PASSED, False)


def test_the_settings_are_those_of_the_manifest(tmp_path: Path) -> None:
    run(tmp_path, {"good": 2.0})
    reader = RunReader(tmp_path)
    assert recorded_settings(reader, Device.CUDA) == SETTINGS
    assert recorded_settings(reader, Device.SIM) == SETTINGS.model_copy(update={"device": Device.SIM})
    (row,) = again(tmp_path, judge({"good": 2.0}))
    assert row.new.rules is Rules.PAPER


def test_another_judge_answers_anew(tmp_path: Path) -> None:
    assert re.fullmatch("[0-9a-f]{64}", judge_fingerprint())
    run(tmp_path, {"good": 2.0})
    again(tmp_path, judge({"good": 2.0}))
    with RunStore(tmp_path) as store:
        store.open(MANIFEST)
        stricter = judge({"good": Status.CHEATED})
        (row,) = regrade(store, stricter, Device.CUDA, judge_version="of another source")
    assert row.changed


def test_an_unfinished_run_is_regraded_too(tmp_path: Path) -> None:
    run(tmp_path, {"good": 2.0, "bad": Status.WRONG})
    for segment in (tmp_path / "segments").iterdir():
        kept = [line for line in segment.read_text().splitlines(True) if '"kind":"episode"' not in line]
        segment.write_text("".join(kept))
    assert RunReader(tmp_path).episodes() == ()
    rows = again(tmp_path, judge({"good": 2.0, "bad": 3.0}))
    assert [r.changed for r in rows] == [False, True]


def test_a_run_without_a_submission_is_an_error(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        store.open(MANIFEST)
        with pytest.raises(UsageError, match="nothing to regrade"):
            regrade(store, judge({}), Device.CUDA)
        with pytest.raises(UsageError, match="nothing to regrade"):
            rescore(store)


def test_a_lost_submission_is_an_error(tmp_path: Path) -> None:
    run(tmp_path, {"good": 2.0})
    lost = submission("good").submission_hash
    (tmp_path / "blobs" / lost[:2] / lost).unlink()
    with pytest.raises(InfrastructureError, match="lacks submission"):
        again(tmp_path, judge({"good": 2.0}))


def test_rewards_alone(tmp_path: Path) -> None:
    run(tmp_path, OLD)
    rows = rescore(RunReader(tmp_path))
    assert [(r.recorded, r.new.milestone) for r in rows] == [(False, 3), (False, -1), (False, 3), (True, 3)]
    assert not any(r.changed for r in rows)
    episode = RunReader(tmp_path).episodes()[0]
    with RunStore(tmp_path) as store:
        store.open(MANIFEST)
        store.put_episode(episode.model_copy(update={"reward": Reward(milestone=2, raw=9.0)}))
    rows = rescore(RunReader(tmp_path))
    assert [r.changed for r in rows] == [False, False, False, True]
    assert list(rescored_lines(rows))[-1] == "4 verdicts, 1 with another reward"


def test_one_candidate_under_two_rule_sets_has_two_verdicts(tmp_path: Path) -> None:
    def answer(task: Task, given: Submission, settings: JudgeSettings, calls: int) -> Verdict:
        status = Status.CHEATED if settings.rules is Rules.PAPER else Status.PASSED
        return scripted_verdict(task, given, settings, status)

    strict = ScriptedJudge(answer)
    candidate = submission("torch inside")
    with RunStore(tmp_path) as store:
        store.open(MANIFEST)
        for rules, wanted in ((Rules.PAPER, Status.CHEATED), (Rules.PRACTICAL, Status.PASSED)) * 2:
            settings = SETTINGS.model_copy(update={"rules": rules})
            env = EpisodeEnvironment(
                TASK, judge=strict, compiler=ScriptedCompiler(), target=Target(device=Device.CUDA),
                settings=settings, store=store, workdir=tmp_path, journal=Journal(journal_path(tmp_path, "one")),
            )  # fmt: skip
            verdict = env.judge(candidate)
            assert (verdict.status, verdict.rules) == (wanted, rules)
        assert len(store.verdicts()) == 2
    assert len(strict.asked) == 2
