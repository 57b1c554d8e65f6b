"""Names of torch operators, and what they mean to the judge. Imports nothing."""

ALLOWED = frozenset(
    """
    alias as_strided detach detach_ expand lift_fresh permute reshape select slice split split_with_sizes squeeze t
    transpose unbind unflatten unfold unsqueeze view view_as_real view_as_complex _unsafe_view _reshape_alias
    chunk narrow diagonal movedim swapaxes
    empty empty_like empty_strided empty_permuted new_empty new_empty_strided
    zeros zeros_like ones ones_like full full_like new_zeros new_ones new_full zero_ fill_ scalar_tensor
    """.split()
)
"""Views, empties and constant fills (DESIGN: what a forward may use under the paper's rules)."""
CONTIGUOUS = frozenset({"clone", "contiguous"})
"""`x.contiguous()` dispatches `clone`."""
FAULTING = frozenset(
    """
    binary_cross_entropy bernoulli bernoulli_ multinomial
    embedding embedding_bag _embedding_bag _embedding_bag_forward_only one_hot
    index index_put index_put_ _index_put_impl_ index_select index_add index_copy index_fill gather take
    scatter scatter_ scatter_add scatter_reduce nll_loss_forward nll_loss2d_forward
    """.split()
)
"""Operators that end a CUDA context for values or indices out of their range, where a CPU would raise."""


def base_name(operator: str) -> str:
    """`aten.add.Tensor` → `add`."""
    parts = operator.split(".")
    return parts[1] if len(parts) > 1 else operator
