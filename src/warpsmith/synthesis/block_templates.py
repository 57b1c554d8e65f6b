"""How a class of a model library is constructed and fed: values of its configuration, and inputs by name."""

import re
from dataclasses import dataclass

from warpsmith.synthesis.records import Family, InputTemplate, Parameter

FAMILIES: tuple[tuple[Family, str], ...] = (
    (Family.ROTARY, r"Rotary|RoPE"),
    (Family.ROUTING, r"Router|Gate$|Gating|Experts?$|Moe|MoE|TopK"),
    (Family.SSM, r"Mamba|SSM|Mixer|DeltaNet|Recurrent|RgLru|Rwkv"),
    (Family.ATTENTION, r"Attention|Attn"),
    (Family.CONV, r"Conv"),
    (Family.NORM, r"Norm"),
    (Family.ACTIVATION, r"Activation|GELU|SiLU|Swish|ReLU|GLU$"),
    (Family.MLP, r"MLP|Mlp|FeedForward|FFN|Intermediate|Output$|GLU|Dense"),
)
"""First match of a class's name wins."""
_WHOLE_MODELS = re.compile(
    r"(Model|ForC|ForQ|ForM|ForS|ForT|ForI|ForP|ForO|PreTrained|ModelOutput|Encoder|Decoder|Stage|Backbone)"
)


def family_of(name: str) -> Family | None:
    """The family that a class's name says; None for whole models and for what is of no family."""
    if _WHOLE_MODELS.search(name):
        return None
    return next((family for family, words in FAMILIES if re.search(words, name)), None)


PARAMETERS = (
    Parameter(name="batch", choices=("8", "16", "32"), size=True),
    Parameter(name="length", choices=("512", "1024", "256"), size=True),
    Parameter(name="hidden", choices=("1024", "2048", "512"), size=True),
)
SMALL = {"batch": 2, "length": 32, "hidden": 64}
"""Sizes at which a template is tried."""
HEADS = 8

_WIDTHS = {
    "{hidden}": "llm_embed_dim hidden_features input_channels hidden_channels filters"
    " hidden_size d_model embed_dim n_embd dim hidden_dim emb_dim in_features in_channels channels input_dim"
    " in_dim embedding_dim normalized_shape width d_embed features num_features out_features out_channels output_dim"
    " input_size output_size out_dim encoder_hidden_size decoder_hidden_size query_dim inner_dim attention_dim"
    " lru_width linear_units attention_hidden_size vision_hidden_size embed_dims conv_dim kv_dim q_dim size n_state",
    "4 * {hidden}": "intermediate_size ffn_dim encoder_ffn_dim decoder_ffn_dim n_inner d_ff ffn_hidden_size mlp_dim"
    " d_inner shared_expert_intermediate_size dense_intermediate_size ffn_size",
    "{hidden} // 8": "head_dim attention_head_dim head_size d_kv v_head_dim d_head kv_channels key_dim value_dim"
    " attention_head_size head_width global_head_dim",
    "{hidden} // 2": "moe_intermediate_size expert_hidden_size q_lora_rank expert_dim moe_ffn_hidden_size",
    "{hidden} // 4": "kv_lora_rank reduced_dim bottleneck_size rank",
    "{hidden} // 16": "qk_rope_head_dim qk_nope_head_dim rotary_dim",
    "8": "num_attention_heads num_heads n_head n_heads num_key_value_heads encoder_attention_heads heads"
    " decoder_attention_heads num_experts n_routed_experts num_local_experts moe_num_experts n_head_kv nhead"
    " num_kv_heads mamba_num_heads num_query_groups num_self_attention_heads attention_heads linear_num_key_heads"
    " linear_num_value_heads",
    "2": "num_experts_per_tok top_k moe_top_k moe_topk num_selected_experts num_experts_per_token n_shared_experts"
    " num_hidden_layers num_layers n_layer n_layers",
    "1": "n_group topk_group n_groups num_expert_groups groups layer_idx layer_id layer_number layer_index index"
    " layer_depth",
    "3": "kernel_size conv_kernel_size num_channels",
    "4": "conv_kernel mamba_d_conv d_conv conv_kernel_size_ linear_conv_kernel_dim conv_dimension",
    "7": "window_size",
    "1 ": "stride dilation padding",
    "16": "patch_size state_size ssm_state_size mamba_d_state d_state",
    "256": "vocab_size",
    "224": "image_size",
    "2048": "max_position_embeddings n_positions max_positions max_seq_len original_max_position_embeddings n_ctx"
    " max_source_positions max_target_positions block_size max_seq_length context_length",
    "0.0": "dropout attention_dropout hidden_dropout hidden_dropout_prob attention_probs_dropout_prob attn_pdrop"
    " resid_pdrop activation_dropout drop_path_rate drop_path dropout_rate attn_dropout proj_drop embd_pdrop p"
    " dropout_p router_jitter_noise jitter_noise input_jitter_noise drop_prob hidden_dropout_rate classifier_dropout",
    "1e-06": "eps rms_norm_eps layer_norm_eps layer_norm_epsilon norm_eps layernorm_eps variance_epsilon"
    " norm_epsilon",
    "None": "past_key_values sliding_window rope_scaling quantization_config pretraining_tp layer_types_ device",
    "False": "output_attentions output_hidden_states is_cross_attention use_cache is_decoder add_cross_attention"
    " gradient_checkpointing return_dict",
    "'eager'": "_attn_implementation _experts_implementation",
    "'silu'": "hidden_act activation_function hidden_activation activation act_fn mlp_hidden_act",
    "1.0": "routed_scaling_factor initializer_factor scaling",
    "10000.0": "rope_theta base theta",
    "{'rope_type': 'default', 'rope_theta': 10000.0, 'partial_rotary_factor': 1.0}": "rope_parameters",
    "['full_attention'] * 4": "layer_types",
}
VALUES = {name: value for value, names in _WIDTHS.items() for name in names.split()}
"""Python of a constructor argument or of an attribute of the configuration, by its name."""


@dataclass(frozen=True)
class Feeding:
    """Inputs for a forward, and the arguments that it is called with in their order: names or Python."""

    inputs: tuple[InputTemplate, ...]
    arguments: tuple[tuple[str, str], ...]


_MAIN_SHAPES = (
    ("{batch}", "{length}", "{hidden}"),
    ("{batch}", "{length}", "4 * {hidden}"),
    ("{batch} * {length}", "{hidden}"),
    ("{batch}", "{hidden}", "{length}"),
    ("{batch}", "{hidden}", "14", "14"),
    ("{batch}", "14", "14", "{hidden}"),
    ("{batch}", "3", "224", "224"),
    ("{batch}", "8", "{length}", "{hidden} // 8"),
)
_HEAD = ("{batch}", "{length}", "{hidden} // 8")
_NONE = frozenset(
    """
    attention_mask mask past_key_values past_key_value layer_past cache_params cache_position head_mask padding_mask
    encoder_attention_mask layer_head_mask position_bias rel_pos relative_position_bias key_value_states seq_idx
    encoder_hidden_states spatial_shapes bias drop_mask key_padding_mask attn_mask prev_topk_indices expert_bias
    """.split()
)
_FALSE = frozenset(
    "output_attentions use_cache is_causal training return_attention output_router_logits".split()
)
_FIXED = {
    **dict.fromkeys(_NONE, "None"),
    **dict.fromkeys(_FALSE, "False"),
    **dict.fromkeys(("seq_len", "seqlen", "sequence_length"), "{length}"),
    "layer_type": "'full_attention'",
}
"""Arguments that are the same Python always."""
_HEADS = frozenset("cos sin freqs_cis rotary_pos_emb".split())
_PLACES = (("{batch}", "{length}"), "torch.arange({length}).expand({batch}, {length})")
_CHOSEN = (("{batch} * {length}", "2"), "torch.randint(0, 8, ({shape}))")
_STARTS = (("{batch} + 1",), "torch.arange(0, {batch} * {length} + 1, {length})")
_INTEGERS = {
    **dict.fromkeys(("position_ids", "positions"), _PLACES),
    **dict.fromkeys(("top_k_index", "selected_experts", "router_indices", "topk_indices"), _CHOSEN),
    **dict.fromkeys(("cu_seqlens", "cu_seq_lens"), _STARTS),
}
"""Shape, and what draws it."""
_WEIGHTS = dict.fromkeys(
    ("top_k_weights", "routing_weights", "topk_weights"), (("{batch} * {length}", "2"), "torch.rand({shape})")
)
_MAIN = frozenset(
    """
    hidden_states x input inputs hidden_state features feature tensor states inputs_embeds embeddings query queries
    pixel_values input_tensor residual hidden key value keys values src target query_states key_states value_states
    gate context image_features input_states hidden_features encoder_output router_logits hidden_features
    attention_output input_features input_embeds residual_tensor query_tensor key_tensor value_tensor ctx_tensor
    layer_input image text vision_features text_features residual_tensor_1 residual_tensor_2 intermediate_states
    input_hidden_states attention_states hidden_states_1 hidden_states_2 encoded_patches hiddens input_ layer_output
    query_layer key_layer value_layer audio_features x_
    """.split()
)


def feedings(required: tuple[str, ...], optional: tuple[str, ...]) -> list[Feeding]:
    """Ways of feeding a forward that takes these arguments, to be tried in order; none for an unknown argument."""
    found = []
    for shape in _MAIN_SHAPES:
        for second in (shape, _MAIN_SHAPES[0]):
            feeding = _feeding(required, optional, shape, second)
            if feeding is not None and feeding not in found:
                found.append(feeding)
    return found


def _feeding(
    required: tuple[str, ...],
    optional: tuple[str, ...],
    shape: tuple[str, ...],
    second: tuple[str, ...],
) -> Feeding | None:
    inputs: list[InputTemplate] = []
    arguments: list[tuple[str, str]] = []

    def tensor(name: str, shape: tuple[str, ...], **more: str) -> str:
        # names of sizes are taken, and `x` is the first input's placeholder
        name = f"{name}_input" if name in _PLAIN or (name == "x" and inputs) else name
        inputs.append(InputTemplate(name=name, shape=tuple(s.format(**_PLAIN) for s in shape), **more))
        return f"{{{name}}}"

    flat = len(shape) == 2
    head = ("{batch} * {length}", "{hidden} // 8") if flat else _HEAD
    for name in (*required, *(o for o in optional if o in ("position_embeddings", "position_ids"))):
        if name in _MAIN:
            value = tensor(name, shape if not inputs else second)
        elif name == "position_embeddings":
            value = "({}, {})".format(*(tensor(part, head) for part in ("cosines", "sines")))
        elif name in _HEADS:
            value = tensor(name, head)
        elif name in _INTEGERS or name in _WEIGHTS:
            size, draw = {**_INTEGERS, **_WEIGHTS}[name]
            value = tensor(name, size, dtype="int64" if name in _INTEGERS else "float32", draw=draw)
        elif name in _FIXED:
            value = _FIXED[name]
        else:
            return None
        arguments.append((name, value))
    return Feeding(tuple(inputs), tuple(arguments))


_PLAIN = {name: name for name in ("batch", "length", "hidden")}
