"""Which torch operators a forward dispatched, and which of them are computation.

The recorder runs inside the candidate's process: it explains, and decides only the `paper` rules.
"""

from warpsmith.judge.recorder import base_name
from warpsmith.types import CheckOutcome

CHECK = "torch_compute"
ALLOWED = frozenset(
    """
    alias as_strided detach expand lift_fresh permute reshape select slice split split_with_sizes squeeze t
    transpose unbind unflatten unfold unsqueeze view view_as_real view_as_complex _unsafe_view _reshape_alias
    chunk narrow diagonal movedim swapaxes
    empty empty_like empty_strided empty_permuted new_empty new_empty_strided
    zeros zeros_like ones ones_like full full_like new_zeros new_ones new_full zero_ fill_ scalar_tensor
    """.split()
)
"""Views, empties and constant fills (DESIGN: what a forward may use under the paper's rules)."""
CONTIGUOUS = frozenset({"clone", "contiguous"})
"""`x.contiguous()` dispatches `clone`."""


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
