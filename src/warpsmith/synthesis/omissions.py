"""Why public names of torch are no operators of a catalogue, where the name or the kind of thing says so."""

import inspect
import re
from typing import Any

from warpsmith.synthesis.records import LeftOut

_RULES: tuple[tuple[LeftOut, str], ...] = (
    (LeftOut.IN_PLACE, r"[a-z0-9]_$"),
    (LeftOut.LAZY, r"\.Lazy"),
    (LeftOut.CONTAINER, r"\.(Container|Module|ModuleDict|ModuleList|ParameterDict|ParameterList|Sequential|RNNBase|"
                        r"RNNCellBase|DataParallel|Transformer|TransformerEncoder|TransformerDecoder)$"),
    (LeftOut.QUANTIZED, r"quantize|fbgemm|q_per_channel|\.q_scale|\.q_zero|\.int_repr|dequantize|scaled_mm|"
                        r"scaled_grouped_mm|fused_moving_avg"),
    (LeftOut.IDENTITY_IN_EVAL, r"(?i)dropout|\.(Identity|RReLU|rrelu)$"),
    (LeftOut.RANDOM, r"Fractional|fractional|gumbel|\.(rand|randn|randint|normal|bernoulli|poisson|multinomial|"
                     r"binomial|randperm)(_like)?$|\.(pca_lowrank|svd_lowrank|lobpcg|empty.*)$"),
    (LeftOut.DATA_DEPENDENT_SHAPE, r"\.(unique|unique_consecutive|nonzero|nonzero_static|argwhere|masked_select|"
                                   r"bincount|histogram|histogramdd|combinations)$|MaxUnpool|max_unpool"),
    (LeftOut.COMPLEX, r"\.(complex|polar|view_as_complex|view_as_real|real|imag|angle|conj|conj_physical|stft|istft|"
                      r"is_complex|resolve_conj|isreal|view_as_.*|eig|eigvals|vdot)$"),
    (LeftOut.DISTRIBUTED, r"mkldnn|cudnn_|miopen|native_|batch_norm_(elemt|gather|stats|backward|update)"),
    (LeftOut.DISCONTINUOUS, r"\.(floor|ceil|round|trunc|fix|sign|sgn|signbit|heaviside|frac|fmod|remainder|gcd|lcm|"
                            r"floor_divide|nextafter|histc|Hardshrink|hardshrink|Threshold|threshold)$"),
    (LeftOut.ALIAS, r"_copy$|\.(absolute|arc[a-z]+2?|concat|concatenate|swapaxes|swapdims|moveaxis|movedim|row_stack|"
                    r"subtract|multiply|divide|true_divide|negative|clip|greater.*|less.*|not_equal|trapz|det|"
                    r"ger|chain_matmul|symeig|frobenius_norm|nuclear_norm|adjoint|t|fliplr|flipud|upsample.*)$|"
                    r"_with_indices$|\.special\.(log_softmax|softmax|logsumexp|round|exp2|expm1|log1p)$|NLLLoss2d"),
    (LeftOut.UTILITY, r"\.(is_|get_|set_|as_|from_|sym_|unsafe_|import_|init|autocast|result_type|promote|can_cast|"
                      r"save|load|seed|manual_seed|arange|linspace|logspace|zeros|ones|full|eye|tensor|scalar_tensor|asarray|"
                      r"numel|clone|detach|resize|broadcast|meshgrid|cartesian|block_diag|atleast|typename|parse|compile|"
                      r"fork|wait|vmap|cond|while_loop|merge_type|unify|prepare|profiler|allclose|equal|handle_torch|"
                      r"has_torch|assert|boolean|sparse|hsmm|hspmm|dsmm|smm|spmm|sspaddmm|saddmm|tril_indices|triu_ind|"
                      r"[a-z]+_window|frombuffer|to_dlpack|classproperty|compiled_with|are_|range|clear|thread_safe|"
                      r"resolve|lift|positive|squeeze|unsqueeze|expand|view|reshape|ravel|contiguous|Optional|isin|"
                      r"isclose|isfinite|isinf|isnan|isneginf|isposinf|eq|ne|lt|le|gt|ge|any|all|logical_|bitwise_|"
                      r"rsub|fill|hash_tensor|norm_except_dim|float_power|slice_|dsplit|hsplit|vsplit|split|tensor_split|"
                      r"unbind|select|diagonal_scatter|select_scatter|as_strided|put|index_put|alias|values|row_indices|"
                      r"col_indices|ccol|crow|unravel_index|to_|rad2deg$|deg2rad$)"),
)  # fmt: skip
_COMPILED = tuple((reason, re.compile(pattern)) for reason, pattern in _RULES)


def reason_by_name(name: str, thing: Any) -> LeftOut:
    """Why it is left out; NO_TEMPLATE where nothing is known against it."""
    for reason, pattern in _COMPILED:
        if pattern.search(name):
            return reason
    if (inspect.getdoc(thing) or "").lstrip().lower().startswith(("deprecated", ".. warning:: deprecated")):
        return LeftOut.DEPRECATED
    return LeftOut.NO_TEMPLATE
