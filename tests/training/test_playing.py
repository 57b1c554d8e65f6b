"""Names of models in episodes."""

import pytest

from warpsmith.training.playing import model_name


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("/runs/rft/checkpoints/global_step_8/huggingface", "rft-global_step_8"),
        ("/runs/ppo/checkpoints/global_step_30/actor/huggingface", "ppo-global_step_30"),
        ("/models/qwen", "models-qwen"),
        ("/", "model"),
    ],
)
def test_names(folder: str, name: str) -> None:
    assert model_name(folder) == name
