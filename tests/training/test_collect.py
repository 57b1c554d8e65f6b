"""Episodes of a policy without a model, rendered as an agent's, and what fine-tuning takes of them."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.agent.loop import MANIFEST, SETTINGS, TASK, answer
from tests.training.characters import CLOSE, CharacterTokenizer

from warpsmith.errors import InfrastructureError
from warpsmith.rollout import Limits
from warpsmith.rollout.journal import journal_path, read_journal
from warpsmith.rollout.scripted import ScriptedCompiler, ScriptedJudge, ScriptedPolicy
from warpsmith.sandbox import best_available
from warpsmith.store import RunReader, RunStore
from warpsmith.training.chat import ChatEncoder
from warpsmith.training.collect import Workbench, collect, render
from warpsmith.training.lines import read_lines, write_lines
from warpsmith.training.samples import Sample, SampleSettings, select
from warpsmith.types import Device, Submission, Target, Task, Verdict
from warpsmith.types.protocols import JudgeSettings, PolicyStep

ENCODER = ChatEncoder(CharacterTokenizer())
OTHER = Task(name="other", code=TASK.code + "\n# other\n")

Answer = Callable[[Task, Submission, JudgeSettings, int], Verdict]


def bench(judged: Answer = answer) -> Workbench:
    return Workbench(
        judge=ScriptedJudge(judged),
        compiler=ScriptedCompiler(),
        target=Target(device=Device.SIM),
        settings=SETTINGS,
        limits=Limits(),
    )


def handing_in(*files: dict[str, str]) -> Callable[[], ScriptedPolicy]:
    steps = [PolicyStep(note=f"try {n}", submission=Submission(files=f)) for n, f in enumerate(files)]
    return lambda: ScriptedPolicy(steps, name="hand")


GOOD = {"model_new.py": "# good\n", "kernels/a.cu": "// a\n"}
BAD = {"model_new.py": "# bad\n", "kernels/b.cu": "// b\n"}


def collected(
    folder: Path, policy: Callable[[], ScriptedPolicy], tasks: list[Task], samples: int = 1
) -> RunStore:
    store = RunStore(folder)
    with store:
        store.open(MANIFEST)
        list(collect(tasks, policy, samples, bench(), store))
    return store


def test_samples_are_episodes_of_their_own_and_a_second_run_plays_nothing(tmp_path: Path) -> None:
    policies = []

    def make() -> ScriptedPolicy:
        policies.append(handing_in(GOOD)())
        return policies[-1]

    first = collected(tmp_path, make, [TASK, OTHER], samples=2)
    assert sorted((e.task_name, e.policy) for e in first.episodes()) == [
        ("other", "hand"), ("other", "hand#1"), ("plus", "hand"), ("plus", "hand#1"),
    ]  # fmt: skip
    again = collected(tmp_path, make, [TASK, OTHER], samples=2)
    assert again.episodes() == first.episodes()
    assert [len(policy.received) for policy in policies] == [1] * 4 + [0] * 4


@pytest.mark.parametrize(("files", "turns"), [((BAD, GOOD), 6), ((GOOD, BAD), 8)])
def test_work_is_rendered_as_an_agents_with_the_tools_true_answers(
    tmp_path: Path, files: tuple[dict[str, str], ...], turns: int
) -> None:
    with RunStore(tmp_path) as store:
        store.open(MANIFEST)
        workbench = bench()
        (original,) = collect([TASK], handing_in(*files), 1, workbench, store)
        judged = len(workbench.judge.asked)  # type: ignore[attr-defined]
        rendered = render(original, workbench, store, best_available())
        # every verdict came from the store
        assert len(workbench.judge.asked) == judged  # type: ignore[attr-defined]
    assert rendered is not None and rendered.policy == "agent:replayed:hand"
    assert (len(rendered.turns), rendered.bad_calls) == (turns, 0)
    # the best is what lies there at the end
    assert rendered.answer_submission_hash == original.best_submission_hash
    assert rendered.answer_reward is not None and rendered.answer_reward.milestone == 1
    journal = read_journal(journal_path(tmp_path, rendered.episode_id))
    answers = [e.message for e in journal if e.message is not None and e.message.call_id]
    # the only answer that tells of an error is the judge's on the bad version
    assert [message.text.split()[0] for message in answers if message.is_error] == ["[FAIL]"]


def test_what_never_passed_is_not_rendered(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        store.open(MANIFEST)
        (original,) = collect([TASK], handing_in(BAD), 1, bench(), store)
        assert render(original, bench(), store, best_available()) is None


def test_one_lost_judge_leaves_the_others_and_the_rest_for_later(tmp_path: Path) -> None:
    def flaky(task: Task, given: Submission, settings: JudgeSettings, calls: int) -> Verdict:
        if task.name == "plus":
            raise InfrastructureError("the pool has gone")
        return answer(task, given, settings, calls)

    told: list[str] = []
    with RunStore(tmp_path) as store:
        store.open(MANIFEST)
        made = list(
            collect(
                [TASK, OTHER],
                handing_in(GOOD),
                1,
                bench(flaky),
                store,
                failed=lambda t, e: told.append(t.name),
            )
        )
    assert [e.task_name for e in made] == ["other"] and told == ["plus"]
    # the pool has come back
    assert [e.task_name for e in collected(tmp_path, handing_in(GOOD), [TASK, OTHER]).episodes()] == [
        "other",
        "plus",
    ]


def test_a_judge_that_is_gone_for_good_ends_the_run(tmp_path: Path) -> None:
    def gone(*_: object) -> Verdict:
        raise InfrastructureError("the pool has gone")

    asked = bench(gone)
    with RunStore(tmp_path) as store:
        store.open(MANIFEST)
        with pytest.raises(InfrastructureError, match="the pool has gone"):
            list(collect([TASK, OTHER], handing_in(GOOD), 9, asked, store, max_faults=3))
    assert len(asked.judge.asked) == 3  # type: ignore[attr-defined]


def test_what_fine_tuning_takes(tmp_path: Path) -> None:
    with RunStore(tmp_path / "run") as store:
        store.open(MANIFEST)
        workbench = bench()
        originals = list(collect([TASK, OTHER], handing_in(BAD, GOOD), 1, workbench, store))
        originals += collect([TASK], handing_in(BAD), 2, workbench, store)
        for original in originals:
            render(original, workbench, store, best_available())
    found = select([RunReader(tmp_path / "run")], ENCODER, SampleSettings())
    # the originals have no workspace of their own, and one handed in nothing that passed
    assert found.episodes == 5 and found.left_out == {"not_positive": 3}
    assert [s.policy for s in found.samples] == ["agent:replayed:hand"] * 2
    sample = found.samples[0]
    learned = "".join(chr(i) for i, m in zip(sample.ids, sample.mask, strict=True) if m)
    assert learned.count(CLOSE) == 6 and learned.endswith(f"done.{CLOSE}")
    assert "// b" in learned and "tool_response" not in learned
    # nothing of the closing of one message and the opening of the next is learned
    assert "⟨a:" not in learned and sample.mask[-1]

    one = SampleSettings(max_per_task=1, max_tokens=len(sample.ids) - 3)
    cut = select([RunReader(tmp_path / "run")], ENCODER, one).samples[0]
    assert cut.ids == sample.ids[:-3] and cut.mask == sample.mask[:-3]

    write_lines(tmp_path / "samples.jsonl", found.samples)
    assert tuple(read_lines(tmp_path / "samples.jsonl", Sample)) == found.samples
    with (tmp_path / "samples.jsonl").open("a") as file:
        file.write('{"episode_id": ')
    with pytest.raises(InfrastructureError, match="line 3 cannot be read"):
        list(read_lines(tmp_path / "samples.jsonl", Sample))


def test_a_policy_that_nobody_can_learn_from_is_counted(tmp_path: Path) -> None:
    store = collected(tmp_path, handing_in(GOOD), [TASK])
    everything = SampleSettings.model_validate({"reward": {"counted": "best"}})
    found = select([RunReader(store.path)], ENCODER, everything)
    assert found.samples == () and found.left_out == {"no_conversation": 1}


def test_a_sample_without_anything_to_learn_is_refused() -> None:
    with pytest.raises(ValueError, match="something to learn"):
        # the first token is predicted by nothing
        Sample(episode_id="e", policy="p", task_hash="t", reward=1.0, ids=(1, 2), mask=(True, False))
