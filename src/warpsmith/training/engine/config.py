"""verl's own configuration with a recipe's overrides on it."""

from collections.abc import Sequence
from typing import Any


def compose(name: str, overrides: Sequence[str]) -> Any:
    """The configuration `name` of verl's trainers. An override that it does not know is refused."""
    import hydra

    with hydra.initialize_config_module(config_module="verl.trainer.config", version_base=None):
        return hydra.compose(config_name=name, overrides=list(overrides))
