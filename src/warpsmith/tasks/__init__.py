"""Where tasks come from. `load(spec)` reads one task, `load_all(spec)` every task that a spec names."""

from warpsmith.tasks.spec import SOURCES, load, load_all
from warpsmith.tasks.user_file import load_task

__all__ = ["SOURCES", "load", "load_all", "load_task"]
