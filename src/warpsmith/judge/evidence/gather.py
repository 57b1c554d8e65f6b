"""Gathers what the observer saw of each bracket, and says it as one record and as outcomes of checks.

All of it comes from the candidate's process: a message of the wrong form never counts for the candidate.
"""

import statistics
from collections import defaultdict
from dataclasses import dataclass, field

from warpsmith.judge.evidence import kernels, operators
from warpsmith.judge.evidence.observer.parts import KERNELS, OPERATORS
from warpsmith.types import CheckOutcome, Evidence, KernelKind, KernelSeen, OperatorSource

CHECK = "library_kernels"
LONGEST_NAME = 300
LONGEST_MANGLED = 16 * 1024
MOST_DIFFERENCES = 8
_MOST = 1 << 40
_KINDS = {"C": KernelKind.MEMCPY, "S": KernelKind.MEMSET}

Key = tuple[str, int]
"""CUPTI's kind of record and the number of a name."""
Labels = dict[Key, tuple[str, KernelKind]]
"""A kernel's readable name and its origin."""


@dataclass(frozen=True)
class _Ran:
    """What ran on the device in one bracket: key → (count, nanoseconds, records without a time)."""

    calls: int
    seen: dict[Key, tuple[int, int, int]]

    @property
    def nanoseconds(self) -> int:
        return sum(entry[1] for entry in self.seen.values())


@dataclass
class Gathered:
    """Over the brackets of one runner. `own`: the readable names of the kernels that the submission's build made."""

    own: frozenset[str] = frozenset()
    brackets: int = 0
    calls: int = 0
    malformed: int = 0
    blind: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    problems: dict[str, str] = field(default_factory=dict)
    operators: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    operators_brackets: int = 0
    lost: int = 0
    names: dict[int, str] = field(default_factory=dict)
    ran: list[_Ran] = field(default_factory=list)

    def add(self, calls: int, message: dict) -> None:
        """One bracket of `calls` calls, and what its runner answered to `evidence`."""
        self.brackets += 1
        self.calls += calls
        try:
            self._add(calls, message)
        except (KeyError, ValueError, TypeError, AttributeError):
            self.malformed += 1

    def _add(self, calls: int, message: dict) -> None:
        self.problems = {part: str(message["problems"][part])[:300] for part in (KERNELS, OPERATORS)}
        for part in message["blind"]:
            if part not in (KERNELS, OPERATORS):
                raise ValueError("no part of the observer")
            self.blind[part] += 1
        if "ops" in message:
            counted = {_text(name)[:200]: _number(count) for name, count in message["ops"].items()}
            self.operators_brackets += 1
            for name, count in counted.items():
                self.operators[name] += count
        self.names |= {int(i): _text(name) for i, name in message.get("names", {}).items()}
        if "kernels" in message:
            self.lost += _number(message["lost"])
            entries = [(str(kind), _number(i), *map(_number, rest)) for i, kind, *rest in message["kernels"]]
            self.ran.append(_Ran(calls, {(kind, i): (n, ns, bare) for kind, i, n, ns, bare in entries}))

    # ---- outcomes ---------------------------------------------------------------------------------------------

    def outcomes(self) -> list[CheckOutcome]:
        """Every rule that can be decided on what was seen so far."""
        found = self.kernels_outcome()
        return [self.operators_outcome(), *([found] if found is not None else [])]

    def operators_outcome(self) -> CheckOutcome:
        """The rule on torch operators, over every call so far."""
        if self.malformed or not self.operators_brackets:
            return operators.outcome(None)
        if self.blind[OPERATORS]:
            return CheckOutcome(
                check=operators.CHECK, passed=False,
                detail=f"the observer of operators was switched off before {self.blind[OPERATORS]} brackets",
            )  # fmt: skip
        return operators.outcome(dict(self.operators))

    def kernels_outcome(self) -> CheckOutcome | None:
        """The rule on libraries' kernels; None where no kernel was observed."""
        evidence = self.evidence()
        if evidence is None or evidence.kernels_problem:
            return None
        refused = [k for k in evidence.kernels if not kernels.is_allowed(k.name, k.kind)]
        if refused:
            shown = "; ".join(f"{k.name[:80]} ({k.kind.value}, {_percent(k.share)})" for k in refused[:4])
            more = f" and {len(refused) - 4} more" if len(refused) > 4 else ""
            return CheckOutcome(
                check=CHECK, passed=False, detail=f"forward runs kernels of others: {shown}{more}"
            )
        return CheckOutcome(check=CHECK, passed=True, detail=shares(evidence))

    def evidence(self) -> Evidence | None:
        """The whole record; None where nothing has been asked yet."""
        if not self.brackets:
            return None
        source = OperatorSource.NONE
        if self.operators_brackets:
            native = not self.problems.get(OPERATORS)
            source = OperatorSource.NATIVE if native else OperatorSource.ONE_CALL
        common = {
            "brackets": self.brackets, "calls": self.calls, "lost_records": self.lost,
            "operators_source": source, "operators_problem": self.problems.get(OPERATORS, ""),
            "operators": dict(sorted(self.operators.items())),
        }  # fmt: skip
        problem = self._kernels_problem()
        if problem:
            return Evidence(kernels_problem=problem, **common)
        labels = self._labels()
        seen = self._kernels(labels)
        differences = self._differences(labels)
        untimed = any(entry[2] for ran in self.ran for entry in ran.seen.values())
        total = sum(ran.nanoseconds for ran in self.ran)
        own = sum(k.share or 0.0 for k in seen if k.kind is KernelKind.OWN)
        calls = sum(ran.calls for ran in self.ran)
        return Evidence(
            kernels=seen, own_share=min(1.0, own) if total and not untimed else None,
            launches_per_call=sum(k.count for k in seen) / calls,
            device_ms=None if untimed else self._device_ms(),
            consistent=not differences, differences=tuple(differences[:MOST_DIFFERENCES]),
            brackets_without_kernel=sum(not ran.seen for ran in self.ran), **common,
        )  # fmt: skip

    def notes(self) -> list[str]:
        """What a verdict on a GPU should say besides."""
        evidence = self.evidence()
        if evidence is None or evidence.kernels_problem:
            return [f"evidence: unavailable ({evidence.kernels_problem if evidence else 'nothing ran'})"]
        lost = f"evidence: CUPTI lost {evidence.lost_records} records: counts and shares are too low"
        bare = (
            f"evidence: no kernel ran in {evidence.brackets_without_kernel} of {evidence.brackets} brackets"
        )
        return [
            *([lost] if evidence.lost_records else []),
            *([bare] if evidence.brackets_without_kernel else []),
        ]

    # ---- steps ------------------------------------------------------------------------------------------------

    def _kernels_problem(self) -> str:
        if self.malformed:
            return f"the process gave no list of what ran in {self.malformed} of {self.brackets} brackets"
        if problem := self.problems.get(KERNELS, "not observed"):
            return problem
        if self.blind[KERNELS]:
            return f"CUPTI no longer saw kernels in {self.blind[KERNELS]} of {self.brackets} brackets"
        return "" if self.ran else "nothing was observed"

    def _labels(self) -> Labels:
        """Each key's name and kind."""
        keys = {key for ran in self.ran for key in ran.seen}
        shown = kernels.readable({self.names.get(number, "") for _, number in keys})
        labels = {}
        for kind, number in keys:
            name = shown[self.names.get(number, "")]
            labels[kind, number] = (name, _KINDS.get(kind) or kernels.kind_of(name, self.own))
        return labels

    def _kernels(self, labels: Labels) -> tuple[KernelSeen, ...]:
        total = sum(ran.nanoseconds for ran in self.ran)
        untimed = any(entry[2] for ran in self.ran for entry in ran.seen.values())
        rows = []
        for key, (name, kind) in labels.items():
            entries = [ran.seen[key] for ran in self.ran if key in ran.seen]
            nanoseconds = sum(entry[1] for entry in entries)
            share = nanoseconds / total if total and not untimed else None
            count = sum(entry[0] for entry in entries)
            rows.append((nanoseconds, KernelSeen(
                name=name[:LONGEST_NAME], kind=kind, count=count, share=share, brackets=len(entries),
            )))  # fmt: skip
        rows.sort(key=lambda row: (-row[0], row[1].name))
        return tuple(row for _, row in rows)

    def _device_ms(self) -> float | None:
        """Of a call, over the brackets that ran the most calls: those are the timed ones."""
        most = max(ran.calls for ran in self.ran)
        times = [ran.nanoseconds / ran.calls / 1e6 for ran in self.ran if ran.calls == most]
        return statistics.median(times) or None

    def _differences(self, labels: Labels) -> list[str]:
        said = []
        for key, (name, _) in sorted(labels.items(), key=lambda item: item[1][0]):
            per_call = [ran.seen.get(key, (0, 0, 0))[0] / ran.calls for ran in self.ran]
            absent = sum(n == 0 for n in per_call)
            if absent:
                said.append(f"{name[:120]} ran in {len(per_call) - absent} of {len(per_call)} brackets")
            elif max(per_call) != min(per_call):
                said.append(f"{name[:120]} ran {min(per_call):g} to {max(per_call):g} times a call")
        return said


def shares(evidence: Evidence) -> str:
    """One line: the share of device time by origin, such as `device time: own 83.0%, cublas 17.0%`."""
    if found := evidence.shares():
        return "device time: " + ", ".join(f"{kind.value} {share:.1%}" for kind, share in found.items())
    return f"{len(evidence.kernels)} kernels, no times" if evidence.kernels else "no kernel ran"


def _percent(share: float | None) -> str:
    return "no time" if share is None else f"{share:.1%}"


def _text(value: object) -> str:
    """A name in one line of plain characters: it is shown on terminals, and demangled line by line."""
    return "".join(c if " " <= c <= "~" else "?" for c in str(value)[:LONGEST_MANGLED])


def _number(value: object) -> int:
    """A count as the message has it. Raises ValueError for anything else."""
    if type(value) is not int or not 0 <= value <= _MOST:
        raise ValueError("not a count")
    return value
