"""Rough times of a task on a GPU, and the turns in which many checks share one."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

ESTIMATE_MS = 20.0
"""A timed stretch of calls is about this long."""
MAX_ESTIMATE_CALLS = 50
ESTIMATE_STRETCHES = 3
Held = contextlib.AbstractContextManager[None]


class Turns:
    """Turns of a check that has the GPU to itself: it never waits."""

    def shared(self) -> Held:
        """The GPU beside a few others, for results."""
        return contextlib.nullcontext()

    def alone(self) -> Held:
        """The GPU without others, for times."""
        return contextlib.nullcontext()


@contextlib.contextmanager
def compiled(
    model: torch.nn.Module, inputs: list[Any], turns: Turns | None, backend: str = "inductor"
) -> Iterator[Callable[[], Any]]:
    """A call of the model under torch.compile in its default mode, to be timed while the block lasts.

    With `turns` it has been compiled and run once: compiled beside other checks, and alone on the GPU from the first
    run on, since compilers time their variants then.
    """
    if turns is None:
        plain = torch.compile(model, backend=backend)
        yield lambda: plain(*inputs)
        return
    with contextlib.ExitStack() as held:

        def wait() -> None:
            if not waited:
                waited.append(held.enter_context(turns.alone()))

        waited: list[None] = []
        waiting = torch.compile(model, backend=_waiting(backend, wait))
        with torch.no_grad():
            waiting(*inputs)
        wait()  # where there was nothing to compile
        yield lambda: waiting(*inputs)


def _waiting(backend: str, wait: Callable[[], None]) -> Callable[..., Any]:
    """A backend that compiles at once, and calls `wait` before anything that it compiled is run."""
    make = torch._dynamo.lookup_backend(backend)

    def compile_graph(graph: torch.fx.GraphModule, inputs: list[Any], **options: Any) -> Callable[..., Any]:
        run = make(graph, inputs, **options)

        def run_in_turn(*arguments: Any) -> Any:
            wait()
            return run(*arguments)

        return run_in_turn

    return compile_graph


def event_ms(call: Callable[[], Any]) -> float:
    """Rough time of one of a stream of calls in ms: the best of a few stretches between two events."""
    with torch.no_grad():
        for _ in range(2):
            call()
        torch.cuda.synchronize()
        single = _stretch_ms(call, 1)
        calls = max(1, min(MAX_ESTIMATE_CALLS, round(ESTIMATE_MS / max(single, 1e-3))))
        return min(_stretch_ms(call, calls) for _ in range(ESTIMATE_STRETCHES))


def _stretch_ms(call: Callable[[], Any], calls: int) -> float:
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    for _ in range(calls):
        call()
    last.record()
    last.synchronize()
    return first.elapsed_time(last) / calls
