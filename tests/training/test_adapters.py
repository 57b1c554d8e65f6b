"""Models by adapters: what a chain of them computes, and what is refused."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from warpsmith.errors import UsageError

torch = pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("transformers", reason="needs the extra train")
pytest.importorskip("peft", reason="needs the extra train")

from warpsmith.training.adapters import chain, load_whole, made_from, whole_folder, write_adapter  # noqa: E402
from warpsmith.training.tiny import make_tiny_model  # noqa: E402

RANK, ALPHA = 2, 6
CONFIG = {
    "peft_type": "LORA",
    "r": RANK,
    "lora_alpha": ALPHA,
    "target_modules": ["q_proj"],
    "task_type": "CAUSAL_LM",
}
LAYER = "model.layers.0.self_attn.q_proj"
IDS = torch.tensor([[5, 6, 7, 8]])


def adapter(folder: Path, base: Path, seed: int, modules: dict[str, tuple[int, int]]) -> dict[str, Any]:
    """Writes an adapter of random weights; what it adds to each module's weights."""
    chance = torch.Generator().manual_seed(seed)
    weights, added = {}, {}
    for module, (out, into) in modules.items():
        a = torch.randn(RANK, into, generator=chance)
        b = torch.randn(out, RANK, generator=chance)
        weights |= {
            f"base_model.model.{module}.lora_A.weight": a,
            f"base_model.model.{module}.lora_B.weight": b,
        }
        added[module] = ALPHA / RANK * b @ a
    names = sorted({module.split(".")[-1] for module in modules})
    write_adapter(folder, CONFIG | {"target_modules": names}, weights, base)
    shutil.copy(base / "config.json", folder)
    return added


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """base <- first <- critic, all below one folder."""
    root = tmp_path_factory.mktemp("adapters")
    make_tiny_model(root / "base", ["warps and blocks"] * 9)
    return root


def test_a_chain_adds_up_and_moves_as_a_whole(folders: Path, tmp_path: Path) -> None:
    first = adapter(folders / "first", folders / "base", 1, {LAYER: (32, 32)})
    second = adapter(folders / "second", folders / "first", 2, {LAYER: (32, 32)})
    moved = tmp_path / "moved"
    shutil.copytree(folders, moved)
    assert [path.name for path in chain(moved / "second")] == ["base", "first", "second"]
    assert chain(moved / "second")[0] == moved / "base"
    plain, whole = load_whole(folders / "base", "float32"), load_whole(moved / "second", "float32")
    expected = plain.get_parameter(f"{LAYER}.weight") + first[LAYER] + second[LAYER]
    torch.testing.assert_close(whole.get_parameter(f"{LAYER}.weight"), expected)
    assert sorted(dict(whole.named_parameters())) == sorted(dict(plain.named_parameters()))


def test_a_critic_lies_on_what_generates_and_its_new_head_says_nothing(folders: Path, tmp_path: Path) -> None:
    adapter(folders / "actor", folders / "base", 3, {LAYER: (32, 32)})
    fresh = load_whole(folders / "actor", "float32", value_head=True).eval()
    assert fresh(IDS).logits.tolist() == [[[0.0]] * 4]
    head = adapter(tmp_path / "critic", folders / "actor", 4, {"score": (1, 32)})
    critic = load_whole(tmp_path / "critic", "float32", value_head=True).eval()
    hidden = fresh.model(IDS).last_hidden_state
    torch.testing.assert_close(critic(IDS).logits, hidden @ head["score"].T)


def test_whole_weights_are_laid_out_once_and_name_what_they_are_of(folders: Path, tmp_path: Path) -> None:
    adapter(folders / "laid", folders / "base", 5, {LAYER: (32, 32)})
    assert whole_folder(folders / "base", tmp_path / "start") == folders / "base"
    start = whole_folder(folders / "laid", tmp_path / "start")
    assert start == tmp_path / "start" and made_from(start) == folders / "laid"
    wanted = load_whole(folders / "laid", "float32").get_parameter(f"{LAYER}.weight")
    torch.testing.assert_close(load_whole(start, "float32").get_parameter(f"{LAYER}.weight"), wanted)
    before = (start / "model.safetensors").stat().st_mtime_ns
    whole_folder(folders / "laid", start)
    assert (start / "model.safetensors").stat().st_mtime_ns == before
    # cut short: made again
    (start / "made_from.json").unlink()
    (start / "model.safetensors").write_bytes(b"cut")
    whole_folder(folders / "laid", start)
    torch.testing.assert_close(load_whole(start, "float32").get_parameter(f"{LAYER}.weight"), wanted)
    # an adapter of what was laid out names the adapter, not the copy
    adapter(tmp_path / "next", start, 6, {LAYER: (32, 32)})
    assert chain(tmp_path / "next")[:2] == [folders / "base", folders / "laid"]


def test_an_adapter_without_its_model(folders: Path, tmp_path: Path) -> None:
    adapter(tmp_path / "alone", folders / "base", 7, {LAYER: (32, 32)})
    shutil.move(tmp_path / "alone", tmp_path / "else" / "where")
    with pytest.raises(UsageError, match="which holds no model"):
        load_whole(tmp_path / "else" / "where", "float32")
