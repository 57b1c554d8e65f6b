"""The judge's session on random graphs, against an expectation computed apart from it.

*Above the gates* is said here in numpy and in float64, from the two published rules (`room`): an element of a float
output is above them if |a - e| exceeds 1e-2 + 1e-2 |e| (the paper's gate; on the task's own inputs), or the
scale-aware gate (on any inputs). So is every other form, dtype, shape, integer, bool, or place of NaN and infinity,
an index that chooses another value, and an input that is left otherwise than the reference leaves it.

The expectation is computed for every call that the judge made, and must explain the verdict: nothing that is above
the gates, as far as the judge says that it widened them, may pass; nothing that lies within them may be refused.
An honest way is moreover never refused, within the gates or not, unless the task's own rounding takes half a gate.

WARPSMITH_GRAPHS sets the number of graphs of each kind; without it, fixed ones run in half a minute.
"""

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.judge.graphs import WAYS, Graph, graphs
from tests.judge.inprocess import Called, Outcome, judged

from warpsmith.types import Status, Submission, Task, Verdict

OWN_CALLS = 6
"""One observed, five checked; what follows are other distributions."""
MARGIN = 1.02
"""Nothing is claimed about errors within 2 % of a gate."""
CHOSEN_UNITS = 4
"""Two computed values this many units of TF32, or of their dtype, apart may be taken for each other by an index."""
INACCURATE = 0.5
LONG = int(os.environ.get("WARPSMITH_GRAPHS", 0))
PROFILE = settings(
    deadline=None,
    derandomize=not LONG,
    database=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)

FACTORS = (0.01, 0.3, 0.9, 1.1, 1.5, 4.0, 100.0, 1e6)
"""Planted errors as multiples of SIZE, the scale-aware gate where it is not centred."""
SIZE = "(0.01 * y.double().square().mean().sqrt() + 0.01 * y.double().abs())"
PLANTED = {
    "one element": "y = copy(y); i = {k} % y.numel(); y.view(-1)[i] += ({f} * {size}).view(-1)[i].to(y.dtype)",
    "one row": "y = copy(y); i = {k} % len(y); y[i] += ({f} * {size})[i].to(y.dtype)",
    "whole output": "y = (y.double() + {f} * {size}).to(y.dtype)",
    "gain": "y = (y.double() * (1 + 0.01 * {f})).to(y.dtype)",
    "one distribution": "if x.abs().max() > 30: y = y * 3",
    "negative inputs": "if (x <= 0).all(): y = (y.double() + {f} * {size}).to(y.dtype)",
    "third call": "if again == 2: y = (y.double() + {f} * {size}).to(y.dtype)",
    "after the weights": "if again > 3: y = (y.double() + {f} * {size}).to(y.dtype)",
    "dtype": "y = y.double() if y.dtype != torch.float64 else y.float()",
    "shape": "y = y.unsqueeze(0)",
    "flat": "y = y.reshape(-1, 1)",
    "stale output": "y = kept.setdefault('y', y.clone())",
    "input changed": "x.view(-1)[{k} % x.numel()] += 0.5",
    "not finite": "y = copy(y); y.view(-1)[{k} % y.numel()] = {odd}",
    "last unwritten": "y = copy(y); y.view(-1)[-1] = kept.get('last', 0.0); kept['last'] = float(y.sum())",
    "last row unwritten": "y = copy(y); y[-1] = 0",
    "eight bits": "y = y.float().to(torch.float8_e4m3fn).to(y.dtype)",
    "nothing": "y = torch.zeros_like(y)",
    "off by one": "y = y.roll(1, -1)",
    "next row": "y = y.roll(1, 0)",
    "transposed": "y = y.flip(0)",
    "mean instead": "y = y.double().mean().expand(y.shape).to(y.dtype)",
    "extremes cut": "s = float(y.double().square().mean().sqrt()); y = y.clamp(-2 * s, 2 * s)",
}  # fmt: skip
SPOILT_INPUT = {
    "one input ignored": "z = torch.zeros_like(z)",
    "mask ignored": "mask = torch.ones_like(mask)",
    "index off by one": "at = at + 1",
    "eight bits inside": "x = x.float().to(torch.float8_e4m3fn).to(x.dtype)",
    "batch skipped": "x = torch.cat([x[:1], torch.zeros_like(x[1:])])",
}
"""The same before the first operator."""


def planted_text(kind: str, factor: float, k: int) -> str:
    odd = ("math.nan", "math.inf", "-math.inf")[k % 3]
    return PLANTED[kind].format(f=factor * (1 if k % 2 else -1), k=k, size=SIZE, odd=odd)


def spoilt(graph: Graph, way: str, which: int, kind: str, factor: float, k: int) -> str:
    """A submission with an error of that kind."""
    if kind in PLANTED:
        return graph.submission(way, which, planted_text(kind, factor, k))
    text = graph.submission(way, which)
    first = "        self.again += 1\n"
    return text.replace(first, f"{first}        {SPOILT_INPUT[kind]}\n")


# ---- the expectation, in numpy ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """How far one call lies from the gates: the largest |a - e| over what is allowed, inf where forms differ."""

    paper: float = 0.0
    scale: float = 0.0

    def __or__(self, other: "Found") -> "Found":
        return Found(max(self.paper, other.paper), max(self.scale, other.scale))


WRONG = Found(np.inf, np.inf)
LARGEST = 1e300
OTHER_INTEGER = Found(LARGEST, LARGEST)


def room(
    e: np.ndarray, eps: float, tiny: float, accumulator: float, tolerance: float = 1e-2
) -> tuple[np.ndarray, np.ndarray]:
    """What each gate allows at each element of `e`, float64."""
    finite = e[np.isfinite(e)]
    paper = tolerance + tolerance * np.abs(e)
    if not finite.size:
        return paper, np.full(e.shape, tiny)
    mean, rms, spread = finite.mean(), np.sqrt(np.mean(finite**2)), finite.std()
    unit = max(eps, 64 * accumulator)
    tolerance = max(tolerance, unit)
    if finite.size >= 16 and spread < 0.1 * abs(mean):
        return paper, tolerance * spread + unit * abs(mean) + tiny + tolerance * np.abs(e - mean)
    return paper, tolerance * rms + tiny + tolerance * np.abs(e)


def compare_floats(
    e: torch.Tensor, a: torch.Tensor, widened: tuple[float, float], tolerance: float = 1e-2
) -> Found:
    info = torch.finfo(e.dtype)
    tiny = 2.0**-24 if e.dtype == torch.float16 else info.tiny
    accumulator = 2.0**-52 if e.dtype == torch.float64 else 2.0**-23
    e, a = e.double().numpy(), a.double().numpy()
    with np.errstate(all="ignore"):
        paper, scale = room(e, info.eps, tiny, accumulator, tolerance)
        same = (a == e) | (np.isnan(a) & np.isnan(e))
        error = np.where(same, 0.0, np.abs(a - e))
        error = np.where(~np.isfinite(error) | (~same & ~np.isfinite(e)), np.inf, error)
        ratios = [error / (allowed + more) for allowed, more in zip((paper, scale), widened, strict=True)]
        ratios = [np.where(np.isfinite(error), np.minimum(ratio, LARGEST), np.inf) for ratio in ratios]
    return Found(*(float(np.where(same, 0.0, r).max()) for r in ratios)) if e.size else Found()


def compare(
    e: object, a: object, widened: tuple[float, float], source: torch.Tensor | None, direct: bool
) -> Found:
    """Nested values. `source`: what integer outputs choose from, along its last dimension."""
    if type(e) is not type(a):
        return WRONG
    if isinstance(e, tuple | list):
        if len(e) != len(a):
            return WRONG
        return _all(compare(x, y, widened, source, direct) for x, y in zip(e, a, strict=True))
    if isinstance(e, dict):
        if e.keys() != a.keys():
            return WRONG
        return _all(compare(e[k], a[k], widened, source, direct) for k in e)
    if isinstance(e, float):
        e, a = (torch.tensor(v, dtype=torch.float64) for v in (e, a))
    if not isinstance(e, torch.Tensor):
        return Found() if e == a else WRONG
    if e.dtype != a.dtype or e.shape != a.shape:
        return WRONG
    if e.is_floating_point():
        return compare_floats(e, a, widened)
    if torch.equal(e, a):
        return Found()
    return Found() if e.dtype == torch.int64 and equivalent(e, a, source, direct) else OTHER_INTEGER


def _all(parts: object) -> Found:
    found = Found()
    for part in parts:
        found = found | part
    return found


def equivalent(e: torch.Tensor, a: torch.Tensor, source: torch.Tensor, direct: bool) -> bool:
    """Whether other indices choose equal values: exactly where an input was read, else within a few units."""
    one = e.dim() < source.dim()
    e, a = (t.unsqueeze(-1) if one else t for t in (e, a))
    if ((a < 0) | (a >= source.shape[-1])).any() or any(
        len(set(row)) < len(row) for row in a.reshape(-1, a.shape[-1]).tolist()
    ):
        return False
    chosen = [source.gather(-1, t) for t in (e, a)]
    if direct:
        return torch.equal(*chosen)
    unit = max(2.0**-10, torch.finfo(source.dtype).eps)
    return compare_floats(*chosen, (0.0, 0.0), CHOSEN_UNITS * unit).scale <= 1


class TaskHere:
    """The task run here, apart from the judge."""

    def __init__(self, graph: Graph):
        self.space: dict = {}
        exec(graph.task(probe=True), self.space)
        self.direct = graph.choice[1] == "x"

    def found(self, call: Called, widened: tuple[float, float] = (0.0, 0.0)) -> Found:
        """How a recorded call lies to the gates."""
        expected, source, left = self._run(call.given, call.state)
        for e, a in zip(left, call.left, strict=True):
            if not torch.equal(e, a) and not (
                e.is_floating_point() and compare_floats(e, a, (0.0, 0.0)).scale <= 1
            ):
                return WRONG
        return compare(expected, call.output, widened, source, self.direct)

    def inaccuracy(self, call: Called) -> Found:
        """The same of the task itself: how far it lies from its own float64 run."""
        expected, source, _ = self._run(call.given, call.state)
        wide = [t.double() if t.is_floating_point() else t for t in call.given]
        exact = self._run(wide, {k: v.double() for k, v in call.state.items()}, torch.float64)[0]
        return compare(expected, narrowed(exact, expected), (0.0, 0.0), source, self.direct)

    def doubt(self, call: Called) -> float:
        """The same of the task in float64, and with every float moved by a unit of TF32: the largest."""
        expected, source, _ = self._run(call.given, call.state)
        found = [self.inaccuracy(call)]
        for _ in range(12):
            moved = self._run([jitter(t) for t in call.given], {k: jitter(v) for k, v in call.state.items()})[
                0
            ]
            found.append(compare(expected, moved, (0.0, 0.0), source, self.direct))
        return max(f.scale for f in found)

    def _run(
        self, given: list, state: dict, dtype: torch.dtype | None = None
    ) -> tuple[object, torch.Tensor, list]:
        model = self.space["Model"]().eval()
        model = model.to(dtype) if dtype else model
        model.load_state_dict(state)
        inputs = [t.clone() for t in given]
        with torch.no_grad():
            return *model(*inputs), inputs


def narrowed(wide: object, like: object) -> object:
    """Nested values with their tensors in the dtypes of `like`."""
    if isinstance(wide, tuple | list):
        return type(wide)(narrowed(w, e) for w, e in zip(wide, like, strict=True))
    if isinstance(wide, dict):
        return {k: narrowed(w, like[k]) for k, w in wide.items()}
    return wide.to(like.dtype) if isinstance(wide, torch.Tensor) else wide


def jitter(t: torch.Tensor) -> torch.Tensor:
    if not t.is_floating_point():
        return t.clone()
    unit = max(2.0**-10, torch.finfo(t.dtype).eps)
    return t * (1 + unit * (2 * torch.randint(0, 2, t.shape) - 1).to(t.dtype))


# ---- properties ------------------------------------------------------------------------------------------------


def explained(graph: Graph, outcome: Outcome) -> str:
    """Checks the verdict against the expectation; says what kind of case it was."""
    if outcome.status is Status.TASK_REFUSED:
        return "task refused"
    task, within = TaskHere(graph), True
    for i, call in enumerate(outcome.calls):
        last = i + 1 == len(outcome.calls) and outcome.status is Status.WRONG
        own = i < OWN_CALLS
        plain = task.found(call)
        worst = max(plain.paper, plain.scale) if own else plain.scale
        within = within and worst <= 1 / MARGIN
        if last:
            assert worst > 1 / MARGIN, f"refused within the gates: call {i}, {plain}; {outcome.detail}"
            return "refused"
        if worst > MARGIN:
            wide = task.found(call, outcome.widened)
            if own:
                assert max(wide.paper, wide.scale) <= MARGIN, (
                    f"passed above the gates: call {i}, {plain}, {wide}"
                )
                assert max(outcome.widened) > 0
            else:
                assert plain.scale < np.inf, f"passed with another form or value that is not finite: call {i}"
                doubt = task.doubt(call)
                assert doubt > 0.5, (
                    f"passed above the gates: distribution {i - OWN_CALLS}, {plain}, doubt {doubt}"
                )
    assert outcome.status is Status.PASSED, f"{outcome.status}: {outcome.detail}"
    return "within" if within else "widened"


def beyond_its_dtype(graph: Graph, outcome: Outcome) -> bool:
    """Whether the task itself is off by half a gate somewhere, so that no two kernels need agree.

    Said by its own float64 run; of float64, which has none, by moving its inputs.
    """
    task, worst = TaskHere(graph), 0.0
    for i, call in enumerate(outcome.calls):
        if graph.dtype == "float64":
            worst = max(worst, task.doubt(call))
        else:
            found = task.inaccuracy(call)
            worst = max(worst, found.scale, found.paper if i < OWN_CALLS else 0.0)
    return worst > INACCURATE


def say(graph: Graph, submission: str, outcome: Outcome) -> str:
    """All that a counterexample needs."""
    own = submission[submission.index("class ModelNew") :]
    told = (outcome.status, outcome.detail, outcome.notes, outcome.findings.checks, outcome.widened)
    return f"\n{graph}\n{graph.task()}\n{own}\n{told}"


@pytest.fixture
def counted(capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest) -> "Counter[str]":
    """Counts that a long run prints."""
    counts: Counter[str] = Counter()
    yield counts
    if LONG:
        with capsys.disabled():
            print(f"\n{request.node.name}: {dict(sorted(counts.items()))}")


def test_no_honest_way_is_refused(tmp_path: Path, counted: "Counter[str]") -> None:
    @given(graphs(), st.sampled_from(WAYS), st.integers(0, 3))
    @settings(PROFILE, max_examples=LONG or 80)
    def run(graph: Graph, way: str, which: int) -> None:
        code = graph.submission(way, which)
        outcome = judged(tmp_path, graph.task(), code, recorded=True)
        counted[outcome.status.value] += 1
        if outcome.status is Status.PASSED:
            counted[f"passed {explained(graph, outcome)}"] += 1
        elif outcome.status is not Status.TASK_REFUSED:
            assert beyond_its_dtype(graph, outcome), say(graph, code, outcome)
            counted[f"refused where the task itself is no more accurate: {graph.dtype}"] += 1

    run()
    assert counted["passed"] > counted["task_refused"]


def test_every_verdict_on_a_planted_error_is_explained(tmp_path: Path, counted: "Counter[str]") -> None:
    kinds = sorted(PLANTED) + sorted(SPOILT_INPUT)

    @given(
        graphs(), st.sampled_from(kinds), st.sampled_from(FACTORS), st.integers(0, 500), st.sampled_from(WAYS)
    )
    @settings(PROFILE, max_examples=LONG or 150)
    def run(graph: Graph, kind: str, factor: float, k: int, way: str) -> None:
        code = spoilt(graph, way, k % 4, kind, factor, k)
        outcome = judged(tmp_path, graph.task(), code, recorded=True)
        try:
            said = explained(graph, outcome)
        except AssertionError as error:
            raise AssertionError(f"{error}{say(graph, code, outcome)}") from None
        counted[said] += 1
        if LONG:
            counted[f"{kind}: {said}"] += 1

    run()
    assert counted["refused"] > counted["within"] + counted["widened"]


WHOLE = Graph(
    steps=("bias", "product", "softmax", "cumsum"),
    shape=(9, 16),
    dtype="float32",
    drawn="ties",
    form="dict",
    choice=("argmax", "x"),
    in_place=True,
    broadcast=True,
)


def test_the_whole_judge_passes_an_honest_way(judge: Callable[..., Verdict]) -> None:
    verdict = judge(Task(name="graph", code=WHOLE.task()), submission(WHOLE.submission("tf32", 1)))
    assert verdict.status is Status.PASSED, verdict.detail


@pytest.mark.parametrize("kind", ["one element", "third call"])
def test_the_whole_judge_refuses_planted_errors(judge: Callable[..., Verdict], kind: str) -> None:
    verdict = judge(
        Task(name="graph", code=WHOLE.task()), submission(spoilt(WHOLE, "formulas", 1, kind, 1.5, 3))
    )
    assert verdict.status is Status.WRONG, verdict.detail


def submission(code: str) -> Submission:
    return Submission(files={"model_new.py": code})
