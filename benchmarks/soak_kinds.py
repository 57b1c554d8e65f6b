"""What the soak submits: kinds of submissions, each with what the judge must say of it."""

import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent))
from tests.exploits.registry import collected
from tests.judge import samples
from tests.judge.samples import FAULT_KERNEL

from warpsmith.types import Device, Rules, Status, Submission, Task

TASK = Task(name="soak", code=samples.TASK)
MODEL = """
import torch
import cuda_extension
KEPT = []
class ModelNew(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale
        self.shift = torch.nn.Parameter(torch.empty(24))
    def forward(self, x):
        FIRST
        out = torch.empty_like(x)
        cuda_extension.affine(out, x, self.shift, self.scale * FACTOR, x.numel(), x.shape[1], FAULT)
        LAST
"""
DAEMON = (
    "KEPT or KEPT.append(__import__('subprocess').Popen(['sh', '-c', 'trap \"\" TERM HUP; sleep 600'], "
    "start_new_session=True))"
)
LITTER = (
    "KEPT or KEPT.append([open(f'/dev/shm/soak{i}', 'wb').write(b'x' * 4096) and "
    "open(f'/tmp/soak{i}', 'wb').write(b'x' * 4096) for i in range(50)])"
)
FORKS = "KEPT or [KEPT.append(__import__('os').fork() or __import__('time').sleep(600)) for _ in range(40)]"
# answers that nobody asked for, on every socket that it finds
SPAM = (
    '[__import__(\'os\').write(fd, b\'{"ok":"call","tensors":[]}\') for fd in range(3, 64) '
    "if __import__('os').path.exists(f'/proc/self/fd/{fd}') and "
    "__import__('os').readlink(f'/proc/self/fd/{fd}').startswith('socket')]"
)


@dataclass(frozen=True)
class Kind:
    """One kind of submission."""

    name: str
    group: str
    task: Task
    submission: Submission
    expected: frozenset[Status]
    rules: Rules = Rules.PRACTICAL
    patience_s: float = 60.0
    """A call's limit."""
    measured: bool = False
    """Whether its calls are timed as well: what is honest while nobody times it."""


def made(
    name: str, group: str, *expected: Status, fault: int = 0, first: str = "pass", last: str = "return out",
    factor: str = "1.0", kernel: str = FAULT_KERNEL, patience_s: float = 60.0,
) -> Kind:  # fmt: skip
    """The honest submission with something in it."""
    parts = {"FIRST": first, "LAST": last, "FACTOR": factor, "FAULT": str(fault)}
    model = MODEL
    for word, text in parts.items():
        model = model.replace(word, text)
    files = {"model_new.py": model, "kernels/affine.cu": kernel}
    return Kind(name, group, TASK, Submission(files=files), frozenset(expected), patience_s=patience_s)


def own() -> list[Kind]:
    """All but the exploits."""
    passed, wrong, crashed = Status.PASSED, Status.WRONG, Status.CRASHED
    return [
        made("honest", "good", passed),
        made("honest in place", "good", passed, last="out.mul_(1.0); return out"),
        made("another factor", "wrong", wrong, factor="1.05"),
        made("another shape", "wrong", wrong, last="return out[:, :12]"),
        made("not a number", "wrong", wrong, last="return out * float('nan')"),
        made("input changed", "wrong", wrong, last="x.zero_(); return out"),
        made("illegal access", "crashing", crashed, fault=1),
        made("device assert", "crashing", crashed, fault=2),
        made("raises", "crashing", crashed, first="raise ValueError('no')"),
        made("exit status 0", "crashing", crashed, first="__import__('os')._exit(0)"),
        made(
            "kills itself", "crashing", crashed, first="__import__('os').kill(__import__('os').getpid(), 9)"
        ),
        made("more memory than there is", "crashing", crashed, first="torch.empty(1 << 50)"),
        made(
            "does not compile",
            "crashing",
            Status.COMPILE_FAILED,
            kernel=FAULT_KERNEL.replace("int i =", "nonsense i ="),
        ),
        made("endless kernel", "endless", Status.TIMED_OUT, fault=3, patience_s=1.0),
        made("endless host code", "endless", Status.TIMED_OUT, first="while True: pass", patience_s=1.0),
        made("prints 20 MB", "flooding", passed, first="KEPT or KEPT.append(print('x' * 20_000_000))"),
        made("speaks out of turn", "flooding", crashed, first=SPAM),
        made("a daemon", "leaving", passed, first=DAEMON),
        made("40 children", "leaving", passed, crashed, first=FORKS),
        made("files in /tmp and /dev/shm", "leaving", passed, first=LITTER),
    ]


SHARES = {"good": 30, "wrong": 15, "crashing": 15, "hostile": 27, "flooding": 5, "leaving": 6, "endless": 2}
"""Of a hundred submissions."""


TIMED_ONLY = {"honest-forty-times"}


def hostile(device: Device) -> list[Kind]:
    """The exploits that exist on the device, each under the rules that it is told for."""
    return [
        Kind(
            e.name,
            "hostile",
            e.judged_task,
            e.evil_submission,
            frozenset({e.status}),
            e.rules,
            measured=e.name in TIMED_ONLY,
        )
        for e in collected()
        if device in e.devices and not e.known
    ]


def order(kinds: Sequence[Kind], seed: int, count: int) -> list[Kind]:
    """The first `count` submissions of a seed; more of it begin with the same."""
    chance = random.Random(seed)
    groups: dict[str, list[Kind]] = {group: [] for group in SHARES}
    for kind in kinds:
        groups[kind.group].append(kind)
    names = list(SHARES)
    return [
        chance.choice(groups[chance.choices(names, weights=[SHARES[n] for n in names])[0]])
        for _ in range(count)
    ]
