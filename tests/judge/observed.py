"""A process of its own that runs each sample under the native observer and under a dispatch mode: JSON of both.

`python observed.py FOLDER [LIBRARY]`: the observer's libraries, and a library of torch operators to load.
"""

import ctypes
import json
import sys
import threading
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import matmul as captured

from warpsmith.judge.evidence.observer.client import Observer
from warpsmith.judge.reference.recorder import OperatorCounts

x, w, y = torch.rand(6, 8), torch.rand(8, 8), torch.rand(2, 3, 8)
image, filters = torch.rand(1, 3, 8, 8), torch.rand(4, 3, 3, 3)
lstm = torch.nn.LSTM(8, 8)
out = torch.empty(6, 8)
ALLOWED = {
    "nothing": lambda: None,
    "views": lambda: y.view(6, 8).t().unsqueeze(0).permute(1, 0, 2).select(0, 0)[..., :4].expand(3, 1, 4),
    "more views": lambda: (
        y.chunk(2),
        y.split(1, 1),
        y.narrow(0, 0, 1),
        y.movedim(0, 1),
        y.flatten(1),
        y.unbind(0),
    ),
    "empties": lambda: (torch.empty(3), torch.empty_like(x), x.new_empty(4), torch.empty_strided((2,), (1,))),
    "fills": lambda: (
        torch.zeros(3),
        torch.ones_like(x),
        torch.full((2, 2), 7.0),
        out.zero_(),
        out.fill_(2.0),
    ),
    "contiguous": lambda: x.t().contiguous(),
    "contiguous already": lambda: x.contiguous(),
    "reshape that copies": lambda: x.t().reshape(-1),
    "to the same dtype": lambda: x.to(torch.float32).to("cpu"),
    "size and strides": lambda: (x.size(), x.stride(), x.numel(), x.is_contiguous(), x.data_ptr()),
}
COMPUTING = {
    "@": lambda: x @ w,
    "captured": lambda: captured(x, w),
    "method": lambda: x.mm(w),
    "in place": lambda: out.add_(1),
    "linear": lambda: F.linear(x, w, w[0]),
    "norm": lambda: F.layer_norm(x, (8,)),
    "attention": lambda: F.scaled_dot_product_attention(y, y, y),
    "softmax": lambda: x.softmax(-1),
    "convolution": lambda: F.conv2d(image, filters),
    "pooling": lambda: F.max_pool2d(image, 2),
    "einsum": lambda: torch.einsum("ij,jk->ik", x, w),
    "lstm": lambda: lstm(y),
    "reflection": lambda: getattr(torch, "r" + "elu")(x),
    "by the registry": lambda: torch.ops.aten.sigmoid(x),
    "overload": lambda: torch.ops.aten.add.Tensor(x, x),
    "copy": lambda: out.copy_(x),
    "cast": lambda: x.to(torch.float64),
    "concatenation": lambda: torch.cat([x, x]),
    "index": lambda: x[torch.tensor([0, 1])],
    "item": lambda: x.sum().item(),
    "clone of a sum": lambda: (x + x).clone(),
}


def by_ctypes() -> None:
    """`at::relu_`, called past Python's bindings."""
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib/libtorch_cpu.so"))
    tensor = ctypes.c_void_p(out._cdata)
    library["_ZN2at4_ops5relu_4callERNS_6TensorE"](ctypes.byref(tensor))


def by_thread() -> None:
    """On another thread."""
    thread = threading.Thread(target=lambda: x.exp())
    thread.start()
    thread.join()


def in_scope_of_a_harmless_name() -> None:
    """Inside a scope that is only called as a view is."""
    with torch.autograd.profiler.record_function("aten::view"):
        x.cos()


def in_a_replaced_fill() -> None:
    """`zeros` computes: the submission has put its own in the place of torch's."""
    implementation = torch.library.Library("aten", "IMPL")
    implementation.impl("ones_like", lambda like, **_: like.mm(w), "CPU")
    torch.ones_like(x)


NATIVE_ONLY = {
    "ctypes": by_ctypes,
    "thread": by_thread,
    "scope": in_scope_of_a_harmless_name,
    "replaced": in_a_replaced_fill,
}


def main() -> None:
    """Prints {sample: {"native": …, "mode": …}}."""
    observer = Observer("cpu")
    observer.start(Path(sys.argv[1]))
    found: dict[str, object] = {"problems": observer.problems}
    samples = ALLOWED | COMPUTING | NATIVE_ONLY
    if len(sys.argv) > 2:
        torch.ops.load_library(sys.argv[2])
        samples = {f"own {i}": lambda i=i: torch.ops.samples_own.sometimes(x, i) for i in range(5)}
    with torch.no_grad():
        for name, run in samples.items():
            observer.arm()
            run()
            observer.hold()
            message = observer.read()
            entry = {"native": message["ops"], "blind": message["blind"]}
            if name not in NATIVE_ONLY and len(sys.argv) == 2:
                with OperatorCounts() as recorder:
                    run()
                entry["mode"] = recorder.seen
            found[name] = entry
        torch.autograd._enable_record_function(False)
        observer.arm()
        found["switched off"] = observer.read()["blind"]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
