"""The job that tells a worker and its device from broken ones: known sums, known products, memory that keeps."""

import os
from pathlib import Path

ENTRY = "warpsmith.gpu.self_test:run"
TIMEOUT_S = 120.0
_BYTES = 1 << 28
_SIDE = 1024


def run(folder: Path) -> None:
    """Returns where all is well; raises otherwise. Only with a GPU given to it is a GPU tried."""
    (Path(folder) / "self_test").write_text("the disk takes a file")
    if os.environ.get("CUDA_VISIBLE_DEVICES"):
        _try_gpu()


def _try_gpu() -> None:
    import torch

    memory = torch.empty(_BYTES // 4, dtype=torch.int32, device="cuda")
    for pattern in (0x55555555, -0x55555556):
        memory.fill_(pattern)
        if not bool((memory == pattern).all()):
            raise RuntimeError("the GPU's memory does not keep what is written")
    # small integers: every order of summation is exact, in TF32 too
    a = (torch.arange(_SIDE * _SIDE, device="cuda") % 7).reshape(_SIDE, _SIDE).float()
    found = (a @ a.T).double()
    wanted = a.double().cpu() @ a.double().cpu().T
    if not torch.equal(found.cpu(), wanted):
        raise RuntimeError("the GPU computes a wrong product")
    torch.cuda.synchronize()
