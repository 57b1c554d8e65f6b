"""Protocols and ablations: what they mean, and that a manifest records all of it."""

import pytest

from warpsmith.agent.settings import AgentSettings
from warpsmith.errors import UsageError
from warpsmith.evaluation.protocols import PROTOCOLS, VARIANTS, plan
from warpsmith.judge.timing.modes import MODES
from warpsmith.report.published import published_ablation
from warpsmith.reward import REWARDS, SpeedupKind
from warpsmith.store import Manifest
from warpsmith.types import Device, Rules
from warpsmith.types.protocols import JudgeSettings, Menu


def test_the_protocols_are_those_of_the_published_tables_and_of_equal_accuracy() -> None:
    paper, matched = PROTOCOLS["paper"], PROTOCOLS["matched"]
    assert (paper.baselines, paper.speedup, paper.modes) == (Menu.PAPER, SpeedupKind.PAPER, ("default",))
    assert (matched.baselines, matched.speedup) == (Menu.MATCHED, SpeedupKind.MATCHED)
    assert matched.modes == tuple(mode.name for mode in MODES)
    for protocol in (paper, matched):
        assert (protocol.turns, protocol.training_turns, protocol.context_tokens) == (200, 150, 131_072)
        assert (protocol.rules, protocol.reward, protocol.margin) == (Rules.PAPER, "milestone", 1.05)
        assert protocol.judge_settings(Device.CUDA) == JudgeSettings(
            device=Device.CUDA, rules=Rules.PAPER, checks=5, baselines=protocol.baselines
        )


def test_each_ablation_leaves_out_one_thing() -> None:
    assert list(VARIANTS) == ["single-turn", "raw-reward", "no-rft", "no-value-pretraining", "no-skill"]
    assert {plan("paper", name).limits.turns for name in VARIANTS} == {200}
    told = AgentSettings(compact=True, temperature=0.7)
    assert plan("paper", "single-turn").agent(told) == told.model_copy(update={"loop": False})
    assert plan("paper", "no-skill").agent(told) == told.model_copy(update={"skill": False})
    assert plan("paper").agent(told) == plan("paper", "no-rft").agent(told) == told
    # what an agent lacks anyway stays out
    assert not plan("paper", "no-skill").agent(AgentSettings(loop=False)).loop
    assert (plan("matched", "raw-reward").reward, plan("matched").reward) == ("raw", "milestone")
    assert VARIANTS["no-rft"].stages_left_out == ("rft",)
    assert [v.name for v in VARIANTS.values() if not v.skill] == ["no-skill"]
    assert {plan("paper", name).reward for name in VARIANTS} <= REWARDS.keys()
    assert [v.name for v in VARIANTS.values() if not published_ablation(v.published)] == ["no-skill"]


def test_a_manifest_records_what_the_names_mean() -> None:
    fields = plan("paper", "no-rft").manifest_fields()
    manifest = Manifest(
        command="bench", task_hash="h", task_name="set", policy="agent", device=Device.CUDA, **fields
    )
    assert (manifest.protocol, manifest.variant) == ("paper", "no-rft")
    assert manifest.settings["protocol.baselines"] == "paper"
    assert manifest.settings["protocol.modes"] == "default"
    assert manifest.settings["protocol.turns"] == 200
    assert manifest.settings["variant.stages_left_out"] == "rft"
    assert Manifest.model_validate_json(manifest.model_dump_json()) == manifest
    assert plan("paper").manifest_fields()["variant"] == ""


@pytest.mark.parametrize("names", [("papers",), ("paper", "no-agent")])
def test_an_unknown_name_is_wrong_usage(names: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="unknown"):
        plan(*names)
