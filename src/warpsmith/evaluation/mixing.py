"""What must not be mixed in one line of a table, and what may be but has to be said. Imports no torch."""

from collections import Counter
from collections.abc import Sequence

from warpsmith.errors import UsageError
from warpsmith.evaluation.metrics import by_series
from warpsmith.evaluation.row import Condition, Row

_MAY_DIFFER = ("protocols", "menus of baselines")
"""Between lines: a matched run has the paper's ratios too, and each line names its protocol."""


def mixed(rows: Sequence[Row]) -> list[str]:
    """What each series mixes of GPU models, rules, protocols or menus of baselines: one line each."""
    found = []
    for series, of in by_series(rows).items():
        told = _differing([row.condition for row in of if row.condition])
        found += [f"{series} mixes {name}: {values}" for name, values in told.items()]
    return found


def incomparable(rows: Sequence[Row]) -> list[str]:
    """What differs between series, or within one beside what may not: to be said beside every table."""
    everything = [row.condition for row in rows if row.condition]
    within = {name for of in by_series(rows).values() for name in _differing([r.condition for r in of])}
    told = {n: v for n, v in _differing(everything).items() if n not in within}
    found = [f"the lines differ in {n}: {v}" for n, v in told.items() if n not in _MAY_DIFFER]
    versions = Counter(row.versions for row in rows if row.versions)
    if len(versions) > 1:
        found.append(f"several versions: {'; '.join(f'{name} ({n})' for name, n in versions.most_common())}")
    return found


def refuse_mixed(rows: Sequence[Row]) -> None:
    """UsageError where a line of a table would mix what must not be mixed."""
    if found := mixed(rows):
        raise UsageError(
            f"these runs cannot stand in one line: {found[0]}",
            hint="report them apart, name them apart with --label, or let it stand with --mixed",
        )


def _differing(conditions: Sequence[Condition | None]) -> dict[str, str]:
    known = [condition for condition in conditions if condition]
    names = {"gpu": "GPUs", "rules": "rules", "protocol": "protocols", "baselines": "menus of baselines"}
    found = {}
    for field, name in names.items():
        counts = Counter(str(getattr(condition, field)) or "none named" for condition in known)
        if len(counts) > 1:
            found[name] = "; ".join(f"{value} ({n})" for value, n in counts.most_common())
    return found
