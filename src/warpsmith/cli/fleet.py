"""What judges many submissions at a time: workers that stay, shared by the threads of one command."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, Self

from warpsmith.cli import wiring
from warpsmith.cli.wiring import AGENT, POLICIES, Bench
from warpsmith.types import Device, Target

if TYPE_CHECKING:
    from warpsmith.judge.service import LocalJudge
    from warpsmith.types.protocols import Policy


class Fleet(Protocol):
    """What judges many submissions at a time. Leaving the `with` block ends all that was started."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def bench(self) -> Bench:
        """One for each thread."""
        ...

    def policy(self, word: str, make_agent: "Callable[[], Policy]") -> "Policy":
        """A policy of this name, its jobs in this fleet's pool; `agent` is what `make_agent` makes."""
        ...

    def stop(self) -> None:
        """Ends what runs; whoever waits for it gets an error."""
        ...


class LocalFleet:
    """Workers of this machine that stay, one a GPU or `jobs` on the simulator."""

    def __init__(self, device: Device, jobs: int, told: Callable[[str], None]):
        from warpsmith.compile import LocalCompiler
        from warpsmith.gpu.pool import WorkerPool
        from warpsmith.gpu.warm import WarmWorker
        from warpsmith.sandbox import best_available
        from warpsmith.sandbox.process import Tree

        self._device, self._arch = device, wiring.visible()[0].arch if device is Device.CUDA else ""
        self._compiler, self._sandbox = LocalCompiler(), best_available()
        self._pool = WorkerPool(lambda: WarmWorker(Tree, WARM), sim_jobs=jobs, told=told)
        self._judges: list[LocalJudge] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        for judge in self._judges:
            judge.close()

    def bench(self) -> Bench:
        """A judge of its own on the shared pool and compiler."""
        from warpsmith.judge.repeating import RepeatingJudge
        from warpsmith.judge.service import LocalJudge

        judge = LocalJudge(self._pool, self._compiler, self._sandbox, arch=self._arch, ahead=True)
        self._judges.append(judge)
        repeating = RepeatingJudge(judge, self._pool.renew)
        target = Target(device=self._device, arch=self._arch)
        return Bench(repeating, self._compiler, target, self._sandbox.name)

    def policy(self, word: str, make_agent: "Callable[[], Policy]") -> "Policy":
        """One of POLICIES, or the agent."""
        if word == AGENT:
            return make_agent()
        if POLICIES.get(word) is wiring.builtin:
            from warpsmith.optimizer import BuiltinPolicy

            return BuiltinPolicy(pool=self._pool)
        return POLICIES[word]()

    def stop(self) -> None:
        """Ends the pool."""
        self._pool.close()


class EachItsOwn:
    """A fleet of a pool in POOLS that has none of its own: each thread's bench has what it needs to itself."""

    def __init__(self, place: str, device: Device):
        self._place, self._device = place, device

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is held."""

    def bench(self) -> Bench:
        """As `bench` makes it."""
        return wiring.bench(self._device, lambda phase, what: None, ahead=True, place=self._place)

    def policy(self, word: str, make_agent: "Callable[[], Policy]") -> "Policy":
        """One of POLICIES, or the agent."""
        return make_agent() if word == AGENT else POLICIES[word]()

    def stop(self) -> None:
        """Nothing is held."""


def fleet(device: Device, jobs: int, told: Callable[[str], None], *, place: str = "local") -> Fleet:
    """What judges `jobs` submissions at a time on `device`; `told` hears of devices that fail."""
    return FLEETS[place](device, jobs, told) if place in FLEETS else EachItsOwn(place, device)


WARM = ("warpsmith.judge.session", "warpsmith.optimizer.worker")
"""What workers load before their first job."""
FLEETS: dict[str, Callable[[Device, int, Callable[[str], None]], Fleet]] = {"local": LocalFleet}
"""Pools that keep workers for many judgements: one line each, beside that in POOLS."""
