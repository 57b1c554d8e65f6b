"""PyTorch code written for CUDA runs on the CPU, in a process of its own."""

import subprocess
import sys

import pytest

CODE = {
    "factories": "x = torch.rand(3, device='cuda'); assert x.is_cuda and x.device == torch.device('cuda', 0)",
    "device context": """
with torch.device('cuda'):
    x, layer = torch.rand(2, 3), torch.nn.Linear(3, 3)
assert layer.weight.is_cuda and layer(x).device.type == 'cuda'
""",
    "moves": """
x = torch.rand(3)
assert x.cuda() is x and x.to('cuda') is x and x.to(torch.device('cuda:0')) is x
assert x.to(device='cuda', dtype=torch.float64).dtype == torch.float64
copy = x.cpu(); copy += 1; assert not torch.equal(copy, x)
copy = x.to('cpu'); copy += 1; assert not torch.equal(copy, x)
""",
    "modules": """
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LSTM(4, 4)).cuda().to('cuda').eval()
assert model(torch.rand(2, 4, device='cuda'))[0].shape == (2, 4)
model.load_state_dict(model.state_dict())
""",
    "torch.cuda": """
assert torch.cuda.is_available() and torch.cuda.device_count() == 1 and torch.cuda.current_device() == 0
assert torch.cuda.current_stream().cuda_stream == 0
assert torch.cuda.get_device_capability() == (9, 0)
assert torch.cuda.get_device_properties(0).multi_processor_count == 132
torch.cuda.synchronize(); torch.cuda.empty_cache()
with torch.cuda.stream(torch.cuda.Stream()), torch.cuda.device(0):
    event = torch.cuda.Event(enable_timing=True); event.record(); event.synchronize()
assert event.elapsed_time(event) == 0.0
""",
    "generators and default device": """
torch.cuda.manual_seed(1); a = torch.randn(2, device='cuda')
torch.manual_seed(1); assert torch.equal(a, torch.randn(2))
assert torch.randn(2, device='cuda', generator=torch.Generator(device='cuda')).is_cuda
torch.set_default_device('cuda'); assert torch.zeros(2).is_cuda
""",
    "new memory is poison": """
assert torch.empty(3, device='cuda').isnan().all() and torch.rand(2).new_empty(4).isnan().all()
assert (torch.empty_like(torch.zeros(3, dtype=torch.int32)) == 2**31 - 1).all()
""",
    "other devices stay": "assert torch.empty(2, device='meta').device.type == 'meta'",
    "load_inline is refused": """
from torch.utils.cpp_extension import load_inline
from warpsmith.errors import SubmissionUnsupportedError
try:
    load_inline(name='x', cpp_sources='')
except SubmissionUnsupportedError:
    pass
else:
    raise AssertionError
""",
}


@pytest.fixture(scope="module")
def answers() -> dict[str, str]:
    """What each piece of code raised, all in one process that has the preamble."""
    script = "from warpsmith.sim.preamble import install\ninstall()\ninstall()\n"
    script += "import json, torch, traceback\nout = {}\n"
    for name, code in CODE.items():
        script += f"try:\n    exec({code!r}, {{'torch': torch}}); out[{name!r}] = ''\n"
        script += f"except BaseException: out[{name!r}] = traceback.format_exc()\n"
    script += "print(json.dumps(out))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    import json

    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", CODE)
def test_code_for_cuda_runs(answers: dict[str, str], name: str) -> None:
    assert answers[name] == ""
