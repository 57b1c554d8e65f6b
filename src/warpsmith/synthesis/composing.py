"""A set of composed tasks in one JSONL file, no two of one structure key, gone on with after a kill."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from warpsmith.store.record_log import RecordLog
from warpsmith.synthesis.mixes import Mix
from warpsmith.synthesis.records import ComposedTask, Origin
from warpsmith.synthesis.sizing import CouldNotComposeError
from warpsmith.types import Record


class Composer(Protocol):
    """Writes the task of a number, the same one each time. Raises CouldNotComposeError where it finds none."""

    mix: Mix
    seed: int

    def compose(self, index: int) -> ComposedTask: ...


class ComposeCounts(Record):
    """What became of the numbers that were tried in one call."""

    tried: int = 0
    composed: int = 0
    repeated: int = 0
    """Of a structure that the set holds."""
    not_found: int = 0
    """No task was found in the attempts allowed."""


class ComposeLog(RecordLog[ComposedTask]):
    """The tasks of a set by name."""

    def __init__(self, path: Path):
        super().__init__(path, ComposedTask, lambda task: task.name)

    def of(self, composer: Composer, origin: Origin) -> list[ComposedTask]:
        """What this composer wrote, in order."""
        wanted = (origin, composer.mix.name, composer.seed)
        return [
            t for t in self.rows() if (t.provenance.origin, t.provenance.mix, t.provenance.seed) == wanted
        ]


def compose_set(
    composer: Composer,
    log: ComposeLog,
    count: int,
    *,
    origin: Origin = Origin.GRAMMAR,
    last: int | None = None,
    told: Callable[[ComposedTask], None] = lambda task: None,
) -> ComposeCounts:
    """Composes until the log holds `count` tasks of the composer's origin, mix and seed, or number `last` is reached.

    Numbers go up from the last one there; a number whose structure the set holds already, or for which nothing is
    found, is passed over. The same catalogue, mix, seed and count give the same bytes, in one call or in several.
    """
    before = log.of(composer, origin)
    keys = {task.key for task in log.rows()}
    index = max((task.index for task in before), default=-1) + 1
    found: Counter[str] = Counter()
    held = len(before)
    while held < count and (last is None or index < last):
        found["tried"] += 1
        try:
            task = composer.compose(index)
        except CouldNotComposeError:
            found["not_found"] += 1
        else:
            if task.key in keys:
                found["repeated"] += 1
            else:
                keys.add(task.key)
                log.append(task, durable=False)
                told(task)
                found["composed"] += 1
                held += 1
        index += 1
    return ComposeCounts(**found)
