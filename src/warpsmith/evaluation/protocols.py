"""Protocols and ablations as data: what a run does, what its figures are compared with, what was left out.

A run that follows one records all of it in its manifest, so that two runs of one name are of one kind.
"""

from typing import Any

from warpsmith.agent.settings import AgentSettings
from warpsmith.errors import UsageError
from warpsmith.evaluation.row import Answer
from warpsmith.reward import MARGIN, SpeedupKind
from warpsmith.rollout import Limits
from warpsmith.types import Device, Record, Rules
from warpsmith.types.protocols import JudgeSettings, Menu


class Protocol(Record):
    """How submissions are judged, rewarded and counted."""

    name: str
    what: str
    rules: Rules
    modes: tuple[str, ...]
    """Of PyTorch, whose baselines may compete; `default` is untouched flags."""
    baselines: Menu
    speedup: SpeedupKind
    """Which speed-up the reward and the tables' first line use; both are recorded wherever both were measured."""
    reward: str
    """By name, in `reward/table.py`."""
    margin: float = MARGIN
    """Of the reward. In tables, faster is merely faster: a ratio above 1."""
    turns: int
    training_turns: int
    context_tokens: int
    answer: Answer = Answer.BEST
    """Which submission is scored; the other is reported beside it."""
    checks: int = 5
    """Correctness checks on fresh random inputs."""

    def judge_settings(self, device: Device) -> JudgeSettings:
        """What a judgement under this protocol is asked to do."""
        return JudgeSettings(device=device, rules=self.rules, checks=self.checks, baselines=self.baselines)


PROTOCOLS = {
    protocol.name: protocol
    for protocol in (
        Protocol(
            name="paper",
            what="as published: over eager and torch.compile with PyTorch's flags untouched",
            rules=Rules.PAPER,
            modes=("default",),
            baselines=Menu.PAPER,
            speedup=SpeedupKind.PAPER,
            reward="milestone",
            turns=200,
            training_turns=150,
            context_tokens=131_072,
        ),
        Protocol(
            name="matched",
            what="over the fastest of PyTorch's modes that is as accurate as the candidate",
            rules=Rules.PAPER,
            modes=("default", "strict", "tf32", "bf16", "fp16"),
            baselines=Menu.MATCHED,
            speedup=SpeedupKind.MATCHED,
            reward="milestone",
            turns=200,
            training_turns=150,
            context_tokens=131_072,
        ),
    )
}
"""One entry a protocol. A matched run measures the paper's ratios as well: the same rows fill both lines."""


class Variant(Record):
    """An ablation: one thing is left out, and everything else stays as the protocol has it."""

    name: str
    without: str
    """What is left out, as the table says it."""
    published: str = ""
    """Its row of the published Table 2; empty: there is none."""
    reward: str | None = None
    stages_left_out: tuple[str, ...] = ()
    """Of training: the weights that are evaluated were made without them."""
    loop: bool = True
    skill: bool = True
    """Of the agent's settings, whose meaning they have: a policy that is no agent has neither."""


VARIANTS = {
    variant.name: variant
    for variant in (
        Variant(
            name="single-turn",
            without="the agent loop: one answer, nothing fed back",
            published="w/o Agent Loop",
            loop=False,
            stages_left_out=("collect", "rft", "value", "ppo"),
        ),
        Variant(
            name="raw-reward",
            without="milestones: the reward is t_compile / t_new",
            published="w/o Robust Reward",
            reward="raw",
        ),
        Variant(
            name="no-rft",
            without="rejection fine-tuning",
            published="w/o RFT",
            stages_left_out=("rft",),
        ),
        Variant(
            name="no-value-pretraining",
            without="value pretraining",
            published="w/o Value Pretraining",
            stages_left_out=("value",),
        ),
        Variant(name="no-skill", without="SKILL.md in the agent's folder and prompt", skill=False),
    )
}
"""One entry an ablation, in the order of the published table; the whole system is no variant."""


class Plan(Record):
    """A protocol, with one thing left out or nothing: what a run follows."""

    protocol: Protocol
    variant: Variant | None = None

    @property
    def limits(self) -> Limits:
        """When an episode ends."""
        return Limits(turns=self.protocol.turns)

    def agent(self, settings: AgentSettings) -> AgentSettings:
        """The settings of an agent under this plan: those given, without what the variant leaves out."""
        if self.variant is None:
            return settings
        kept = {"loop": settings.loop and self.variant.loop, "skill": settings.skill and self.variant.skill}
        return settings.model_copy(update=kept)

    @property
    def reward(self) -> str:
        """Name of the reward that training is on."""
        return (self.variant and self.variant.reward) or self.protocol.reward

    def manifest_fields(self) -> dict[str, Any]:
        """What a run's manifest records: `protocol` and `variant` by name, under `settings` all that they mean."""
        settings = {
            f"protocol.{name}": value for name, value in self.protocol.model_dump(mode="json").items()
        }
        if self.variant:
            settings |= {f"variant.{k}": v for k, v in self.variant.model_dump(mode="json").items()}
        return {
            "protocol": self.protocol.name,
            "variant": self.variant.name if self.variant else "",
            "settings": {k: ",".join(v) if isinstance(v, list) else v for k, v in settings.items()},
        }


def plan(protocol: str, variant: str = "") -> Plan:
    """The plan of these names; UsageError in one line where there is none."""
    if protocol not in PROTOCOLS:
        raise UsageError(f"unknown protocol {protocol!r}", hint=f"choose one of: {', '.join(PROTOCOLS)}")
    if variant and variant not in VARIANTS:
        raise UsageError(f"unknown variant {variant!r}", hint=f"choose one of: {', '.join(VARIANTS)}")
    return Plan(protocol=PROTOCOLS[protocol], variant=VARIANTS[variant] if variant else None)
