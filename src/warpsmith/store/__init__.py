"""Where runs, results and caches lie on disk."""

from warpsmith.store.files import write_atomic
from warpsmith.store.paths import cache_root
from warpsmith.store.run import RunReader, RunStore
from warpsmith.store.segments import FailureLine, GpuPin, Manifest, Pins

__all__ = ["FailureLine", "GpuPin", "Manifest", "Pins", "RunReader", "RunStore", "cache_root", "write_atomic"]
