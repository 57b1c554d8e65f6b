"""The runs over KernelBench as functions: what each records, and that ablations leave out what they say."""

import json
from pathlib import Path

import pytest

from warpsmith.errors import UsageError
from warpsmith.evaluation.bench import Ending
from warpsmith.evaluation.protocols import VARIANTS
from warpsmith.llm.scripted import ScriptedReply
from warpsmith.recipes import kernelbench
from warpsmith.recipes.fleet import Station
from warpsmith.recipes.kernelbench import Agent, Run
from warpsmith.rollout.journal import journal_path, read_journal
from warpsmith.rollout.scripted import ScriptedCompiler, ScriptedJudge, scripted_verdict
from warpsmith.store import RunReader
from warpsmith.types import Device, Status, StopReason, Submission, Target, Task, Verdict
from warpsmith.types.llm import Role
from warpsmith.types.protocols import JudgeSettings

CODE = "class Model: ...\ndef get_inputs(): ...\ndef get_init_inputs(): ...\n# {}\n"
ROWS = ((1, 1), (1, 2), (2, 1), (4, 1))


class ScriptedFleet:
    """Judges everything right, and tells which settings it was asked for."""

    pool = None
    asked: list[JudgeSettings]

    def __init__(self, device: Device, jobs: int, told: object) -> None:
        self._device = device
        ScriptedFleet.asked = []

    def __enter__(self) -> "ScriptedFleet":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def station(self) -> Station:
        return Station(ScriptedJudge(self.answer), ScriptedCompiler(), Target(device=self._device))

    def answer(self, task: Task, given: Submission, settings: JudgeSettings, calls: int) -> Verdict:
        ScriptedFleet.asked.append(settings)
        return scripted_verdict(task, given, settings, Status.PASSED)

    def stop(self) -> None:
        pass


@pytest.fixture
def run(tmp_path: Path) -> Run:
    rows = tmp_path / "rows.jsonl"
    with rows.open("w") as file:
        for level, problem in ROWS:
            row = {"level": level, "problem_id": problem, "name": f"{problem}_X"}
            file.write(json.dumps(row | {"code": CODE.format(f"{level} {problem}")}) + "\n")
    return Run(kernelbench=str(rows), out=tmp_path / "runs", device=Device.CUDA, levels="1,2", jobs=1)


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    write = {"name": "Bash", "arguments": {"command": "echo '# good' > model_new.py"}}
    replies = [{"calls": [write, {"name": "Verify", "arguments": {}}]}, {"text": "done"}]
    for reply in replies:
        ScriptedReply.model_validate(reply)
    (tmp_path / "script.json").write_text(json.dumps(replies))
    return Agent(model=f"scripted:{tmp_path / 'script.json'}")


def system_text(folder: Path) -> str:
    episode = RunReader(folder).episodes()[0]
    entries = read_journal(journal_path(folder, episode.episode_id))
    return next(e.message.text for e in entries if e.message and e.message.role is Role.SYSTEM)


@pytest.mark.parametrize("protocol", ["paper", "matched"])
def test_a_protocol_over_the_levels_that_were_asked_for(run: Run, agent: Agent, protocol: str) -> None:
    recipe = {"paper": kernelbench.paper, "matched": kernelbench.matched}[protocol]
    outcome = recipe(run, agent, make_fleet=ScriptedFleet)
    assert (outcome.ending, outcome.finished, outcome.lost) == (Ending.DONE, 3, ())
    reader = RunReader(run.out / protocol)
    manifest = reader.manifest
    assert (manifest.protocol, manifest.variant, manifest.command) == (protocol, "", "bench")
    assert [(t.level, t.problem_id) for t in manifest.tasks] == [(1, 1), (1, 2), (2, 1)]
    assert manifest.settings["limit.turns"] == 200 and manifest.settings["protocol.name"] == protocol
    assert str(manifest.settings["revision"]).startswith("rows-")
    final = [s for s in ScriptedFleet.asked if s.interleave]
    assert {s.rules.value for s in final} == {"paper"} and {s.baselines.value for s in final} == {protocol}
    assert {e.seed is not None and e.sample == 0 for e in reader.episodes()} == {True}
    assert "CUDA" in system_text(run.out / protocol)
    # called again it is told that all is done
    again = recipe(run, agent, make_fleet=ScriptedFleet)
    assert (again.finished, again.ending) == (0, Ending.DONE)


def test_more_samples_go_on_with_the_missing_ones_and_fewer_are_refused(run: Run, agent: Agent) -> None:
    one = run.model_copy(update={"levels": "1/1"})
    more = one.model_copy(update={"samples": 3})
    assert kernelbench.paper(one, agent, make_fleet=ScriptedFleet).finished == 1
    first = RunReader(run.out / "paper").episodes()
    assert kernelbench.paper(more, agent, make_fleet=ScriptedFleet).finished == 2
    reader = RunReader(run.out / "paper")
    assert reader.episodes()[:1] == first and [e.sample for e in reader.episodes()] == [0, 1, 2]
    assert reader.manifest.settings["samples"] == 3
    with pytest.raises(UsageError, match=r"settings\.samples was 3, now 1"):
        kernelbench.paper(one, agent, make_fleet=ScriptedFleet)
    # its folder by default is the same, too
    assert one.asked("paper").key == more.asked("paper").key != run.asked("paper").key


def test_the_ablations_over_the_same_tasks(run: Run, agent: Agent) -> None:
    trained = {name: agent for name in ("raw-reward", "no-rft", "no-value-pretraining")}
    one = run.model_copy(update={"levels": "1/1"})
    outcomes = kernelbench.table_2(one, agent, trained, make_fleet=ScriptedFleet)
    assert list(outcomes) == ["", *VARIANTS] and {o.finished for o in outcomes.values()} == {1}
    manifests = {name: RunReader(run.out / f"paper-{name}").manifest for name in VARIANTS}
    assert {name: m.variant for name, m in manifests.items()} == {name: name for name in VARIANTS}
    assert len({m.task_hash for m in manifests.values()}) == 1
    # single turn: one answer, nothing fed back
    (single,) = RunReader(run.out / "paper-single-turn").episodes()
    (whole,) = RunReader(run.out / "paper").episodes()
    assert (len(single.turns), len(whole.turns)) == (1, 2)
    # by the agent's own switch, under the same limits
    assert (single.policy_settings["loop"], single.stop) == (False, StopReason.FINISHED)
    assert whole.policy_settings == single.policy_settings | {"loop": True}
    assert manifests["single-turn"].settings["limit.turns"] == 200
    # no skill: neither in the prompt nor in the folder
    told, bare = system_text(run.out / "paper"), system_text(run.out / "paper-no-skill")
    assert len(bare) < len(told) and told.startswith(bare)


def test_models_for_what_is_no_ablation_are_refused(run: Run, agent: Agent) -> None:
    with pytest.raises(UsageError, match="unknown variant 'no-such'"):
        kernelbench.table_2(run, agent, {"no-such": agent}, make_fleet=ScriptedFleet)
    with pytest.raises(UsageError, match="unknown variant 'other'"):
        kernelbench.ablation("other", run, agent, make_fleet=ScriptedFleet)
