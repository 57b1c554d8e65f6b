"""Models of a few thousand parameters with tokenizers of their own, made here: nothing is fetched."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

TEMPLATE = (
    "{% if tools %}<|tools|>{{ tools | tojson }}<|end|>{% endif %}"
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SPECIAL = ["<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>", "<|tools|>"]


def tokenizer(words: Sequence[str] = (), template: str | None = TEMPLATE) -> Any:
    """One token a byte, and one for each of `words`, however long."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({letter: at for at, letter in enumerate(letters)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(word, special=True) for word in SPECIAL])
    made.add_tokens([AddedToken(word, special=False, normalized=False) for word in words])
    return PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|end|>", chat_template=template)


def random_model(
    folder: Path, context: int = 512, template: str | None = TEMPLATE, **generation: object
) -> Path:
    """Two layers of random weights, the same in every run."""
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(0)
        _save(folder, tokenizer(template=template), layers=2, context=context, generation=generation)
    return folder


def chain_model(
    folder: Path,
    *words: str,
    context: int = 4096,
    template: str | None = TEMPLATE,
    response: dict[str, Any] | None = None,
) -> Path:
    """Answers with `words`, whatever it is asked: each token has one that follows it."""
    import torch

    made = tokenizer(words, template)
    made.response_template = response
    order = ["<|assistant|>", *words, "<|end|>"]
    ids = [made.convert_tokens_to_ids(word) for word in order]

    def link(model: Any) -> None:
        layer = model.model.layers[0]
        layer.self_attn.o_proj.weight.zero_()
        layer.mlp.down_proj.weight.zero_()
        model.model.embed_tokens.weight.copy_(torch.eye(len(made)))
        follows = torch.zeros(len(made), len(made))
        for here, there in pairwise(ids):
            follows[there, here] = 1.0
        model.lm_head.weight.copy_(follows)

    _save(folder, made, layers=1, hidden=len(made), context=context, change=link)
    return folder


def _save(
    folder: Path,
    made: Any,
    *,
    layers: int,
    context: int,
    hidden: int = 16,
    generation: Any = None,
    change: Any = None,
) -> None:
    import torch
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

    end = made.convert_tokens_to_ids("<|end|>")
    config = LlamaConfig(
        vocab_size=len(made),
        hidden_size=hidden,
        intermediate_size=32,
        num_hidden_layers=layers,
        num_attention_heads=1,
        num_key_value_heads=1,
        head_dim=8,
        max_position_embeddings=context,
        eos_token_id=end,
        bos_token_id=None,
        pad_token_id=end,
    )
    model = LlamaForCausalLM(config)
    model.generation_config = GenerationConfig(eos_token_id=end, pad_token_id=end, **(generation or {}))
    with torch.no_grad():
        if change:
            change(model)
    model.save_pretrained(folder)
    made.save_pretrained(folder)
