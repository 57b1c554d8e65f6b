"""What a regrade confirms, what it refuses, and what stands on a leaderboard."""

from pathlib import Path

import pytest
from tests.evaluation.test_regrade import SETTINGS, speed

from warpsmith.errors import InfrastructureError, UsageError
from warpsmith.evaluation.confirmation import Confirmation, confirm, questions, standing
from warpsmith.evaluation.leaderboard import Board, board_lines, read_board, with_run, write_board
from warpsmith.evaluation.regrading import regrade
from warpsmith.reward import SpeedupKind
from warpsmith.rollout import run_episode
from warpsmith.rollout.scripted import ScriptedCompiler, ScriptedJudge, ScriptedPolicy, scripted_verdict
from warpsmith.store import Manifest, RunReader, RunStore
from warpsmith.store.segments import EpisodeLine, VerdictLine, read_segment, segment_paths
from warpsmith.types import Device, Machine, Status, Submission, Target, Task, TaskRef, Verdict
from warpsmith.types.protocols import JudgeSettings, PolicyStep

Outcome = Status | float
CLAIMS: dict[str, Outcome] = {"a": 2.0, "b": 4.0, "c": Status.WRONG}
"""Speed-up, or status, by task."""


def task(name: str) -> Task:
    return Task(name=name, code=f"class Model: ...  # {name}", level=1)


def judge(outcomes: dict[str, Outcome], gpu: str = "X1", driver: str = "580") -> ScriptedJudge:
    """Knows the outcome of each task."""
    machine = Machine(device=Device.CUDA, gpu=gpu, driver=driver, torch="2.13")

    def answer(asked: Task, given: Submission, settings: JudgeSettings, calls: int) -> Verdict:
        outcome = outcomes[asked.name]
        fields = {"machine": machine, "detail": f"call {calls}"}
        if isinstance(outcome, Status):
            return scripted_verdict(asked, given, settings, outcome, **fields)
        return scripted_verdict(asked, given, settings, **fields, **speed(outcome))

    return ScriptedJudge(answer)


def manifest(names: str, **changed: object) -> Manifest:
    return Manifest.model_validate(
        {
            "command": "bench", "task_hash": "set", "task_name": "set", "policy": "scripted", "device": Device.CUDA,
            "settings": SETTINGS.model_dump(mode="json", exclude={"device"}),
            "tasks": tuple(TaskRef.of(task(name)) for name in names),
        }
        | changed
    )  # fmt: skip


def run(folder: Path, outcomes: dict[str, Outcome] = CLAIMS, names: str = "", **changed: object) -> Path:
    """A run over a task each, of which `names` were planned; `gpu` names what judged each task."""
    gpus = changed.pop("gpus", {})
    assert isinstance(gpus, dict)
    with RunStore(folder) as store:
        store.open(manifest(names or "".join(outcomes), **changed))
        for name in outcomes:
            step = PolicyStep(note=name, submission=Submission(files={"model_new.py": f"# {name}"}))
            run_episode(
                task(name), ScriptedPolicy([step]), judge=judge(outcomes, gpus.get(name, "X1")),
                compiler=ScriptedCompiler(), target=Target(device=Device.CUDA, arch="sm_90"), settings=SETTINGS,
                store=store,
            )  # fmt: skip
    return folder


def regraded(
    folder: Path, outcomes: dict[str, Outcome] = CLAIMS, version: str = "v1", gpu: str = "X1"
) -> Confirmation:
    """What the judge of this version says about the run."""
    with RunStore(folder) as store:
        store.open(RunReader(folder).manifest)
        regrade(store, judge(outcomes, gpu), Device.CUDA, judge_version=version, only=questions(store))
        return confirm(store, judge_version=version)


def rewrite(folder: Path, change) -> None:
    """Every line of the store through `change`."""
    for path in segment_paths(folder / "segments"):
        lines = [change(line) for line in read_segment(path)]
        path.write_text("".join(line.model_dump_json() + "\n" for line in lines if line is not None))


# ---- confirmed ------------------------------------------------------------------------------------------------


def test_a_regrade_that_agrees_confirms_and_its_figures_are_shown(tmp_path: Path) -> None:
    folder = run(tmp_path / "run")
    assert len(questions(RunReader(folder))) == 2
    found = regraded(folder, {"a": 1.95, "b": 4.1})
    assert found.problems == ()
    board = with_run(None, RunReader(folder), found, added_at="now", name="ours")
    (entry,) = board.entries
    assert (board.tasks, board.condition.gpu, entry.judge) == (3, "X1", "v1")
    assert entry.claimed[SpeedupKind.PAPER].geomean_eager == pytest.approx(8**0.5)
    assert entry.found[SpeedupKind.PAPER].geomean_eager == pytest.approx((1.95 * 4.1) ** 0.5)
    assert entry.found[SpeedupKind.PAPER].pass_pct == pytest.approx(200 / 3)
    assert entry.found[SpeedupKind.MATCHED].geomean_eager is None
    assert entry.versions == ("driver 580, torch 2.13",)


def test_the_fingerprint_is_of_the_verdicts_found_and_of_the_judge(tmp_path: Path) -> None:
    folder = run(tmp_path / "run")
    first = regraded(folder)
    assert regraded(folder).regrade_hash == first.regrade_hash
    other = regraded(folder, version="v2")
    assert other.regrade_hash != first.regrade_hash
    assert other.run_hash == first.run_hash


# ---- refused --------------------------------------------------------------------------------------------------


def refused(folder: Path, outcomes: dict[str, Outcome] = CLAIMS, **how: str) -> str:
    found = regraded(folder, outcomes, **how)
    assert not found.confirmed
    with pytest.raises(UsageError, match="not confirmed"):
        with_run(None, RunReader(folder), found, added_at="now")
    return "\n".join(found.problems)


def test_missing_tasks(tmp_path: Path) -> None:
    assert refused(run(tmp_path, names="abcd")) == "d, sample 0, is missing"


def test_an_edited_verdict(tmp_path: Path) -> None:
    run(tmp_path)

    def faster(line):
        if isinstance(line, VerdictLine) and line.settings_hash.startswith("final:") and line.verdict.speedup:
            fields = speed(40.0)
            return line.model_copy(update={"verdict": line.verdict.model_copy(update=fields)})
        return line

    rewrite(tmp_path, faster)
    assert "no final judgement with the content that its episode names" in "\n".join(
        standing(RunReader(tmp_path))
    )
    assert "a, sample 0" in refused(tmp_path)


def test_an_edited_verdict_with_its_episode_edited_too(tmp_path: Path) -> None:
    run(tmp_path)
    hashes: dict[str, str] = {}

    def faster(line):
        if isinstance(line, VerdictLine) and line.settings_hash.startswith("final:") and line.verdict.speedup:
            changed = line.verdict.model_copy(update=speed(40.0))
            hashes[line.verdict.content_hash] = changed.content_hash
            return line.model_copy(update={"verdict": changed})
        if isinstance(line, EpisodeLine) and (new := hashes.get(line.episode.final_verdict_hash or "")):
            return EpisodeLine(episode=line.episode.model_copy(update={"final_verdict_hash": new}))
        return line

    rewrite(tmp_path, faster)
    assert standing(RunReader(tmp_path)) == ()
    assert "a paper speed-up over eager of 40 is claimed, 2 was found" in refused(tmp_path)


def test_a_score_that_is_no_final_judgement(tmp_path: Path) -> None:
    run(tmp_path)

    def searched(line):
        if isinstance(line, VerdictLine) and line.settings_hash.startswith("final:"):
            return line.model_copy(update={"settings_hash": line.settings_hash.removeprefix("final:")})
        return line

    rewrite(tmp_path, searched)
    assert "no final judgement" in refused(tmp_path)


def test_a_score_of_another_submission(tmp_path: Path) -> None:
    run(tmp_path)
    (first, second, _) = RunReader(tmp_path).episodes()
    with RunStore(tmp_path) as store:
        store.open(RunReader(tmp_path).manifest)
        store.put_episode(first.model_copy(update={"final_verdict_hash": second.final_verdict_hash}))
    assert "its score is of another task or submission" in refused(tmp_path)


def test_mixed_devices(tmp_path: Path) -> None:
    told = refused(run(tmp_path, gpus={"b": "X2"}))
    assert "scripted mixes GPUs: X1 (2); X2 (1)" in told


def test_a_regrade_on_another_device(tmp_path: Path) -> None:
    assert "judged again on X2 under paper rules, it is of X1" in refused(run(tmp_path), gpu="X2")


def test_another_judge(tmp_path: Path) -> None:
    folder = run(tmp_path)
    regraded(folder, version="of another source")
    found = confirm(RunReader(folder), judge_version="v1")
    assert [p for p in found.problems if "was not judged again by this judge" in p] == list(found.problems)
    assert len(found.problems) == 2


def test_a_submission_that_does_not_pass_again(tmp_path: Path) -> None:
    told = refused(run(tmp_path), {"a": Status.CHEATED, "b": 4.0})
    assert told == "a, sample 0: claimed as passed, found cheated"


def test_a_claim_beyond_noise_and_claims_that_lean_to_one_side(tmp_path: Path) -> None:
    assert "of 2 is claimed, 1.8 was found" in refused(run(tmp_path / "one"), {"a": 1.8, "b": 4.0})
    # 5 % each is within what one score may scatter, and 16 of them to the same side are not: 10 % / √16 = 2.5 %
    names = "abcdefghijklmnop"
    many = run(tmp_path / "many", dict.fromkeys(names, 2.1))
    told = refused(many, dict.fromkeys(names, 2.0))
    assert "claimed 1.050 times as high as found, on average over 16; 1.025 is what noise may do" in told
    scattered = {name: 2.2 if i % 2 else 2.0 for i, name in enumerate(names)}
    assert regraded(many, scattered, version="v2").confirmed


def test_a_run_in_which_nothing_was_judged(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        store.open(manifest("a"))
        found = confirm(store, judge_version="v1")
    assert found.problems == ("a, sample 0, is missing", "nothing in it was judged")


# ---- the board ------------------------------------------------------------------------------------------------


@pytest.fixture
def board(tmp_path: Path) -> Board:
    folder = run(tmp_path / "first")
    return with_run(None, RunReader(folder), regraded(folder), added_at="now", name="first")


def added(board: Board, folder: Path, name: str = "second", gpu: str = "X1") -> Board:
    found = regraded(folder, ALL, gpu=gpu)
    return with_run(board, RunReader(folder), found, added_at="now", name=name)


ALL: dict[str, Outcome] = {"a": 3.0, "b": 4.0, "c": 2.0, "d": 2.0}


def test_a_better_run_stands_above(board: Board, tmp_path: Path) -> None:
    better = run(tmp_path / "better", {name: ALL[name] for name in "abc"})
    both = added(board, better)
    assert [entry.name for entry in both.entries] == ["first", "second"]
    path = tmp_path / "deep" / "board.json"
    write_board(path, both)
    assert read_board(path) == both
    lines = [line for line in board_lines(both) if " paper |" in line]
    assert lines[0].startswith("| second | paper | 100 | 100 | 100 | 2.884 | 2.884 |")
    assert lines[1].startswith("| first | paper | 66.67 |")


def test_what_cannot_be_compared_stays_off(board: Board, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="other tasks"):
        added(board, run(tmp_path / "tasks", {name: ALL[name] for name in "abd"}))
    three = {name: ALL[name] for name in "abc"}
    elsewhere = run(tmp_path / "gpu", three, gpus=dict.fromkeys("abc", "X2"))
    with pytest.raises(UsageError, match="GPU: X1, not X2"):
        added(board, elsewhere, gpu="X2")
    with pytest.raises(UsageError, match="protocol: none named, not paper"):
        added(board, run(tmp_path / "protocol", three, protocol="paper"))
    with pytest.raises(UsageError, match="'first' already"):
        added(board, run(tmp_path / "name", three), name="first")
    with pytest.raises(UsageError, match="already"):
        with_run(
            board, RunReader(tmp_path / "first"), regraded(tmp_path / "first"), added_at="later", name="again"
        )


def test_a_file_that_is_no_board_is_told(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    assert read_board(path) is None
    path.write_text("{}")
    with pytest.raises(InfrastructureError, match="not a leaderboard"):
        read_board(path)
