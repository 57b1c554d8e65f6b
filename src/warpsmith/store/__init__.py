"""Where runs, results and caches lie on disk."""

from warpsmith.store.files import write_atomic
from warpsmith.store.paths import cache_root
from warpsmith.store.run import RunReader, RunStore
from warpsmith.store.segments import FailureLine, Manifest

__all__ = ["FailureLine", "Manifest", "RunReader", "RunStore", "cache_root", "write_atomic"]
