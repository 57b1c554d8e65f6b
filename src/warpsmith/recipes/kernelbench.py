"""KernelBench levels 1 to 3 under the published protocol and the accuracy-matched one, and the ablations beside them.

Each function is one run of one table line: `warpsmith report RUN…` makes the table. A run that was killed goes on by
being called again. Nothing here trains: the ablations of training take the model that was trained without the stage.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from warpsmith import tasks as sources
from warpsmith.agent.settings import AgentSettings
from warpsmith.evaluation.bench import Budget, Outcome
from warpsmith.evaluation.protocols import VARIANTS, Plan, plan
from warpsmith.llm import LLMSettings
from warpsmith.recipes import policies
from warpsmith.recipes.bench import Asked, Listener, MakeFleet, MakePolicy, bench
from warpsmith.recipes.fleet import LocalFleet
from warpsmith.types import Device, Record, Task

LEVELS = "1,2,3"
AGENT_TEMPERATURE = 1.0


class Run(Record):
    """What all of these runs have in common. `kernelbench`: a clone, a file of rows, or `hub`."""

    kernelbench: str
    out: Path
    """The run folders' parent."""
    device: Device = Device.CUDA
    levels: str = LEVELS
    """A selection as task specs have it: levels, or problems such as `1/1-5`."""
    samples: int = 1
    seed: int = 0
    jobs: int = 0
    budget: Budget = Budget()

    def tasks(self) -> list[Task]:
        """The tasks, in order. Raises TaskUnreadableError."""
        return sources.load_all(self._spec)

    @property
    def _spec(self) -> str:
        return f"kernelbench:{self.kernelbench}#{self.levels}"

    def asked(self, protocol: str, variant: str = "") -> Asked:
        """The question that the set is put under a protocol."""
        return Asked.of(
            plan(protocol, variant), self.device, self._spec, samples=self.samples, seed=self.seed
        )


class Agent(Record):
    """A language model as `BACKEND:NAME`, such as the checkpoint that a server of one's own serves."""

    model: str
    llm: LLMSettings = LLMSettings()
    settings: AgentSettings = AgentSettings(temperature=AGENT_TEMPERATURE)

    def maker(self, followed: Plan) -> MakePolicy:
        """Makes the agent on it that a plan asks for, one for each episode. Raises as `policies.agent` does."""
        settings = followed.agent(self.settings)
        return lambda station: policies.agent(self.model, self.llm, settings, station=station)


def paper(
    run: Run,
    agent: Agent | None = None,
    *,
    listener: Listener | None = None,
    make_fleet: MakeFleet = LocalFleet,
) -> Outcome:
    """As published: 200 turns, PyTorch's default modes as baselines. Without an agent the built-in policy works."""
    return _under("paper", run, agent, listener, make_fleet)


def matched(
    run: Run,
    agent: Agent | None = None,
    *,
    listener: Listener | None = None,
    make_fleet: MakeFleet = LocalFleet,
) -> Outcome:
    """The same with the fastest of PyTorch's modes that is as accurate; the published ratios are measured as well."""
    return _under("matched", run, agent, listener, make_fleet)


def ablation(
    name: str,
    run: Run,
    agent: Agent,
    protocol: str = "paper",
    *,
    listener: Listener | None = None,
    make_fleet: MakeFleet = LocalFleet,
) -> Outcome:
    """One line of the published Table 2 over the same tasks: one of VARIANTS, by name. Raises UsageError for others.

    `agent` must be what the variant says: for `raw-reward`, `no-rft` and `no-value-pretraining` the model that was
    trained so, for `single-turn` and `no-skill` the whole system's or any other: what is left out is left out here.
    """
    asked = run.asked(protocol, name)
    make = agent.maker(plan(protocol, name))
    return bench(
        asked, run.tasks(), make, run.out / _folder(protocol, name), jobs=run.jobs, budget=run.budget,
        listener=listener, make_fleet=make_fleet, priced=agent.llm.price is not None,
    )  # fmt: skip


single_turn = partial(ablation, "single-turn")
raw_reward = partial(ablation, "raw-reward")
no_rft = partial(ablation, "no-rft")
no_value_pretraining = partial(ablation, "no-value-pretraining")
no_skill = partial(ablation, "no-skill")


def table_2(
    run: Run,
    whole: Agent,
    trained: Mapping[str, Agent],
    protocol: str = "paper",
    *,
    listener: Listener | None = None,
    make_fleet: MakeFleet = LocalFleet,
) -> dict[str, Outcome]:
    """The whole system and every ablation for which there is a model: by name, the whole system as `""`.

    `trained`: the models that were trained without a stage, by the variant's name; `single-turn` and `no-skill` take
    the whole system's where they have none of their own. Raises UsageError for a name that is no variant.
    """
    agents = {"single-turn": whole, "no-skill": whole, **trained}
    outcomes = {"": _under(protocol, run, whole, listener, make_fleet)}
    for name in _in_order(agents):
        outcomes[name] = ablation(name, run, agents[name], protocol, listener=listener, make_fleet=make_fleet)
    return outcomes


def _in_order(names: Mapping[str, Agent]) -> Sequence[str]:
    for name in names:
        plan("paper", name)
    return [name for name in VARIANTS if name in names]


def _under(
    protocol: str, run: Run, agent: Agent | None, listener: Listener | None, make_fleet: MakeFleet
) -> Outcome:
    make = agent.maker(plan(protocol)) if agent else policies.builtin
    priced = agent is not None and agent.llm.price is not None
    return bench(
        run.asked(protocol), run.tasks(), make, run.out / _folder(protocol, ""), jobs=run.jobs,
        budget=run.budget, listener=listener, make_fleet=make_fleet, priced=priced,
    )  # fmt: skip


def _folder(protocol: str, variant: str) -> str:
    return f"{protocol}-{variant}" if variant else protocol
