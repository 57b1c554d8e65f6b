"""Which torch operators a forward dispatched, and which of them are computation.

What was seen comes from the candidate's process: it explains, and decides only the `paper` rules.
"""

from warpsmith.judge.evidence.operator_names import ALLOWED, CONTIGUOUS, base_name
from warpsmith.types import CheckOutcome

CHECK = "torch_compute"


def outcome(observed: object) -> CheckOutcome:
    """Passed where nothing but allowed operators was dispatched; a report of the wrong form does not pass."""
    if not isinstance(observed, dict) or not all(isinstance(k, str) for k in observed):
        return CheckOutcome(
            check=CHECK, passed=False, detail="the candidate's process gave no list of operators"
        )
    computing = sorted(name for name in observed if base_name(name) not in ALLOWED | CONTIGUOUS)
    if computing:
        shown = ", ".join(computing[:6]) + (" …" if len(computing) > 6 else "")
        return CheckOutcome(
            check=CHECK, passed=False, detail=f"forward computes with torch operators: {shown}"
        )
    return CheckOutcome(check=CHECK, passed=True, detail="forward computes with its own operators only")
