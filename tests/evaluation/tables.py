"""Rows made by hand."""

from warpsmith.evaluation.row import Against, Condition, Measured, Row, Score, State
from warpsmith.types import Device, Rules, Status


def row(
    name: str,
    eager: float | None = None,
    compiled: float | None = None,
    *,
    status: Status = Status.PASSED,
    matched: float | None = None,
    noise: float | None = None,
    level: int | None = 1,
    sample: int = 0,
    device: Device = Device.CUDA,
    final: float | None = None,
    series: str = "scripted",
) -> Row:
    """A judged row; `noise` is half the width of every interval, relative."""

    def measured(ratio: float) -> Measured:
        if noise is None:
            return Measured(ratio=ratio)
        return Measured(ratio=ratio, low=ratio * (1 - noise), high=ratio * (1 + noise))

    sides = {
        Against.PAPER_EAGER: eager,
        Against.PAPER_COMPILE: compiled,
        Against.MATCHED_EAGER: matched,
        Against.MATCHED_COMPILE: matched,
        Against.MATCHED_BEST: matched,
    }
    ratios = {side: measured(ratio) for side, ratio in sides.items() if ratio is not None}
    answer = (
        Score(status=Status.PASSED, ratios={Against.PAPER_EAGER: Measured(ratio=final)}) if final else None
    )
    return Row(
        series=series,
        task_hash=f"hash of {name}",
        task_name=name,
        level=level,
        sample=sample,
        device=device,
        condition=Condition(gpu="X1" if device is Device.CUDA else "simulator", rules=Rules.PAPER),
        state=State.JUDGED,
        best=Score(status=status, ratios=ratios if status is Status.PASSED else {}),
        final=answer,
    )


def absent(name: str, state: State = State.MISSING, *, level: int | None = 1, sample: int = 0) -> Row:
    """A row of which nothing is known."""
    return Row(
        series="scripted",
        task_hash=f"hash of {name}",
        task_name=name,
        level=level,
        sample=sample,
        device=Device.CUDA,
        state=state,
    )
