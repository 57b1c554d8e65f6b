"""Models that were trained by low-rank adapters: a folder in PEFT's format, which names the model that it lies on.

That model may be an adapter's folder again, so that a stage behind another stores only what it added itself.
Whoever uses such a model merges the chain; a trainer gets a folder of whole weights, made when it starts.
"""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from warpsmith.errors import UsageError
from warpsmith.store.files import write_atomic

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_KEPT = frozenset({"config.json", "generation_config.json"})
_BASE = "base_model_name_or_path"
_FROM = "made_from.json"
"""In a merged folder: what it was merged from."""
_HINT = "give the folder of a model in Hugging Face's format"


def is_adapter(folder: Path) -> bool:
    """Whether a folder holds an adapter."""
    return (folder / CONFIG).is_file()


def chain(folder: Path) -> list[Path]:
    """The folders of a model, the whole one first. Raises UsageError where one of them is missing."""
    found = [folder.absolute()]
    while is_adapter(found[0]):
        base = json.loads((found[0] / CONFIG).read_text("utf-8")).get(_BASE)
        # a relative path counts from the adapter, so that folders can be moved together
        below = Path(os.path.normpath(found[0] / base)) if base else None
        if below is None or below in found or not (below / "config.json").is_file():
            raise UsageError(
                f"{found[0]} is an adapter of {base}, which holds no model", hint="bring that folder along"
            )
        found.insert(0, below)
    return found


def tokenizer_folder(folder: Path) -> Path:
    """Where a model's tokenizer lies: adapters have none of their own. Raises UsageError."""
    return chain(folder)[0]


def load_whole(folder: Path, dtype: str, attention: str = "sdpa", *, value_head: bool = False) -> Any:
    """The model with all its adapters merged, on the CPU. `value_head`: with one number a token instead of words.

    Merging is computed in float32. Raises UsageError where the folder holds no model.
    """
    import torch

    whole, *adapters = chain(folder)
    wanted = getattr(torch, dtype)
    model = _load(whole, torch.float32 if adapters else wanted, attention, value_head)
    for adapter in adapters:
        from peft import PeftModel

        model = PeftModel.from_pretrained(model, str(adapter)).merge_and_unload()
    return model.to(wanted)


def whole_folder(folder: Path, into: Path, *, value_head: bool = False) -> Path:
    """`folder` itself; for an adapter `into`, where its whole weights are laid in float32 unless they are there."""
    if not is_adapter(folder):
        return folder
    told = json.dumps({"model": str(folder.absolute())})
    if (into / _FROM).is_file() and (into / _FROM).read_text("utf-8") == told:
        return into
    shutil.rmtree(into, ignore_errors=True)
    load_whole(folder, "float32", value_head=value_head).save_pretrained(into)
    for path in tokenizer_folder(folder).iterdir():
        if path.is_file() and path.suffix not in (".safetensors", ".bin") and not (into / path.name).exists():
            shutil.copy(path, into / path.name)
    # last: where it lies, the folder is whole
    write_atomic(into / _FROM, told)
    return into


def made_from(folder: Path) -> Path:
    """What a folder of `whole_folder` was merged from; another folder itself."""
    try:
        return Path(json.loads((folder / _FROM).read_text("utf-8"))["model"])
    except FileNotFoundError:
        return folder


def write_adapter(folder: Path, config: Mapping[str, Any], weights: Mapping[str, Any], base: Path) -> None:
    """An adapter of the model in `base`, in PEFT's format; `weights` are tensors by PEFT's names.

    Its task is left out: PEFT would take what generates for the only model that it can lie on, and a critic starts
    from what generates.
    """
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        # a tokenizer is larger than a small adapter, and the model below has it
        if path.name not in _KEPT:
            path.unlink()
    save_file(dict(weights), folder / WEIGHTS, metadata={"format": "pt"})
    relative = os.path.relpath(made_from(base).absolute(), folder.absolute())
    write_atomic(folder / CONFIG, json.dumps(dict(config) | {_BASE: relative, "task_type": None}, indent=2))


def fresh_head(model: Any, missing: set[str]) -> None:
    """A value head that its folder did not hold says 0 of everything: alike in every process that makes it."""
    for name, weights in model.named_parameters():
        if name in missing:
            weights.data.zero_()


def load_value_model(folder: str, dtype: Any, attention: str, **options: Any) -> Any:
    """A model with one number a token, whose head is `fresh_head` where the folder holds none."""
    from transformers import AutoModelForTokenClassification

    model, told = AutoModelForTokenClassification.from_pretrained(
        folder, dtype=dtype, attn_implementation=attention, output_loading_info=True, **options
    )
    fresh_head(model, set(told["missing_keys"]))
    return model


def _load(folder: Path, dtype: Any, attention: str, value_head: bool) -> Any:
    from transformers import AutoModelForCausalLM

    try:
        if value_head:
            return load_value_model(str(folder), dtype, attention, num_labels=1, local_files_only=True)
        return AutoModelForCausalLM.from_pretrained(
            str(folder), dtype=dtype, attn_implementation=attention, local_files_only=True
        )
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder} holds no model", hint=_HINT) from error
