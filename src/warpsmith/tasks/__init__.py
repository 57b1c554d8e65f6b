"""Where tasks come from: `load` reads one, `load_all` all that a spec names; `variants` changes sizes and inputs."""

from warpsmith.tasks.spec import SOURCES, load, load_all
from warpsmith.tasks.user_file import load_task
from warpsmith.tasks.variants import Variant, variants

__all__ = ["SOURCES", "Variant", "load", "load_all", "load_task", "variants"]
