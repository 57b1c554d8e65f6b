"""A model of a few thousand parameters, which says nothing sensible: for tests and dry runs of the trainer."""

import functools
import itertools
from collections.abc import Sequence
from pathlib import Path

from warpsmith.agent.single_turn import SingleTurnPolicy
from warpsmith.llm.scripted import ScriptedLLM, ScriptedReply
from warpsmith.training.judges import JudgeSpec, connect_judge
from warpsmith.training.playing import PlayInputs, play_stage
from warpsmith.training.reward import RewardSettings
from warpsmith.training.stage import Stage, StageResult
from warpsmith.types import Task
from warpsmith.types.protocols import Policy

_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def make_tiny_model(
    folder: Path,
    texts: Sequence[str],
    *,
    vocabulary: int = 512,
    width: int = 32,
    layers: int = 2,
    seed: int = 0,
) -> Path:
    """Writes a Qwen2 model of random weights with a byte-level tokenizer learned from `texts`; returns `folder`."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    raw.train_from_iterator(
        list(texts),
        trainers.BpeTrainer(vocab_size=vocabulary, special_tokens=_SPECIAL, initial_alphabet=alphabet),
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=raw, eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    tokenizer.chat_template = _TEMPLATE
    tokenizer.save_pretrained(folder)
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=-(-len(tokenizer) // 64) * 64,
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=32_768,
        tie_word_embeddings=False,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        dtype="float32",
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    return folder


def demonstrate(folder: Path, tasks: Sequence[Task], answers: Sequence[str], judge: JudgeSpec) -> StageResult:
    """A stage's folder of episodes in which every task was given every one of `answers`: something to learn first."""
    given = itertools.cycle(answer for answer in answers for _ in tasks)

    def teacher() -> Policy:
        return SingleTurnPolicy(ScriptedLLM([ScriptedReply(text=next(given))], name="teacher"))

    inputs = PlayInputs(policy="single_turn:teacher", samples=len(answers))
    bench = functools.partial(connect_judge, judge)
    return play_stage(folder, Stage.COLLECT, tasks, inputs, bench, teacher, RewardSettings(), note=_unsaid)


def _unsaid(text: str) -> None:
    pass
