"""Which tasks of a set are the same as another of it, and which are those of a benchmark.

Three kinds of likeness, each enough by itself against a benchmark: the same text, a text that is more alike than 0.9,
the same fingerprint. Within a set two traced tasks are compared by their graphs alone, since tasks that differ in one
operator can have texts more alike than 0.9; near texts count where one of the two could not be traced.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from warpsmith.synthesis.similarity import NEAR, Bag, bag, near_pairs
from warpsmith.synthesis.structure import FingerprintKind, Structure
from warpsmith.synthesis.structure_log import StructureLog, logged
from warpsmith.tasks import kernelbench
from warpsmith.types import Record, sha256_hex
from warpsmith.types.protocols import Sandbox


class Likeness(StrEnum):
    """In what two tasks are the same; in the order in which it is said."""

    SAME_TEXT = "same_text"
    SAME_STRUCTURE = "same_structure"
    NEAR_TEXT = "near_text"


@dataclass(frozen=True)
class Known:
    """A task with its structure."""

    name: str
    code: str
    structure: Structure

    @property
    def text_hash(self) -> str:
        """Hash of the text, as that of `Task`."""
        return sha256_hex(self.code)


class Match(Record):
    """A task that is to go, by its place, and what it is like."""

    place: int
    name: str
    like: str
    """Name of the task that it repeats."""
    likeness: Likeness
    similarity: float | None = None
    """Of the texts, where that is the reason."""


def benchmark(
    path: Path, *, sandbox: Sandbox | None = None, workers: int = 1, log: StructureLog | None = None
) -> list[Known]:
    """The tasks of a KernelBench file or folder with their structures, from the log where it has them.

    Raises TaskUnreadableError where the path holds none, InfrastructureError where tasks cannot be traced.
    """
    tasks = kernelbench.load(path)
    codes = [task.code for task in tasks]
    found = logged(codes, log, sandbox=sandbox, workers=workers)
    return [
        Known(f"level {task.level} problem {task.problem_id}", task.code, structure)
        for task, structure in zip(tasks, found, strict=True)
    ]


def contaminated(tasks: Sequence[Known], against: Sequence[Known], *, above: float = NEAR) -> list[Match]:
    """The tasks that repeat one of `against`, each once, in order, with the first reason of `Likeness`."""
    texts: dict[str, Known] = {}
    graphs: dict[str, Known] = {}
    for other in against:
        texts.setdefault(other.text_hash, other)
        graphs.setdefault(other.structure.fingerprint, other)
    nearest: dict[int, tuple[float, int]] = {}
    for near in near_pairs([_bag(task) for task in tasks], [_bag(other) for other in against], above=above):
        best = nearest.get(near.first, (0.0, 0))
        nearest[near.first] = max(best, (near.similarity, -near.second))
    matches = []
    for place, task in enumerate(tasks):
        if other := texts.get(task.text_hash):
            matches.append(_match(place, task, other, Likeness.SAME_TEXT))
        elif other := graphs.get(task.structure.fingerprint):
            matches.append(_match(place, task, other, Likeness.SAME_STRUCTURE))
        elif place in nearest:
            similarity, negative = nearest[place]
            matches.append(_match(place, task, against[-negative], Likeness.NEAR_TEXT, similarity))
    return matches


def duplicates(tasks: Sequence[Known], *, above: float = NEAR) -> list[Match]:
    """The tasks that repeat one that stays. What is left holds no two that are alike.

    Which stays does not depend on the order: one that was traced, the shortest text, the smaller hash.
    """
    order = sorted(range(len(tasks)), key=lambda p: (*_preference(tasks[p]), p))
    near: dict[int, list[tuple[int, float]]] = defaultdict(list)
    # untraced against all: two that were traced are compared by their graphs
    untraced = [p for p, task in enumerate(tasks) if task.structure.kind is not FingerprintKind.GRAPH]
    bags = {p: _bag(tasks[p]) for p in (range(len(tasks)) if untraced else ())}
    for pair in near_pairs([bags[p] for p in untraced], [bags[p] for p in bags], above=above):
        first, second = untraced[pair.first], pair.second
        near[first].append((second, pair.similarity))
        near[second].append((first, pair.similarity))
    texts: dict[str, int] = {}
    graphs: dict[str, int] = {}
    kept: set[int] = set()
    matches = []
    for place in order:
        task = tasks[place]
        like = next(((s, p) for p, s in sorted(near[place]) if p in kept and p != place), None)
        if (other := texts.get(task.text_hash)) is not None:
            matches.append(_match(place, task, tasks[other], Likeness.SAME_TEXT))
        elif (other := graphs.get(task.structure.fingerprint)) is not None:
            matches.append(_match(place, task, tasks[other], Likeness.SAME_STRUCTURE))
        elif like is not None:
            matches.append(_match(place, task, tasks[like[1]], Likeness.NEAR_TEXT, like[0]))
        else:
            kept.add(place)
            graphs[task.structure.fingerprint] = place
        texts.setdefault(task.text_hash, place)
    return sorted(matches, key=lambda match: match.place)


def counts(matches: Iterable[Match]) -> dict[str, int]:
    """How many for each reason, every reason named."""
    found = Counter(match.likeness for match in matches)
    return {likeness.value: found[likeness] for likeness in Likeness}


def _match(
    place: int, task: Known, other: Known, likeness: Likeness, similarity: float | None = None
) -> Match:
    return Match(place=place, name=task.name, like=other.name, likeness=likeness, similarity=similarity)


def _preference(task: Known) -> tuple[bool, int, str]:
    return task.structure.kind is not FingerprintKind.GRAPH, len(task.code), task.text_hash


def _bag(task: Known) -> Bag:
    """The pq-grams of a text; of one that is no Python none, so that it is like nothing."""
    return Bag() if task.structure.kind is FingerprintKind.UNREADABLE else bag(task.code)
