"""A pool whose worker stays, so that tests do not load torch for each judgement."""

from warpsmith.gpu.pool import WorkerPool
from warpsmith.gpu.warm import WarmWorker
from warpsmith.recipes.fleet import WARM
from warpsmith.sandbox.process import Tree


def warm_pool() -> WorkerPool:
    """One worker on the simulator, as the product's own fleet has it. Close it."""
    return WorkerPool(lambda: WarmWorker(Tree, WARM), sim_jobs=1)
