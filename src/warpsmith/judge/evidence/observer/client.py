"""In the runner's process: loads the observer before the submission's code, and reads what it saw of each bracket.

Order within a bracket: `arm` (forgets what came before), the calls, `hold` (puts their operators aside), `read`.
What a bracket showed is one message; names of kernels are sent once and referred to by number afterwards.
"""

import ctypes
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import torch

from warpsmith.compile.libraries import wheel_folders
from warpsmith.judge.evidence.observer.parts import KERNELS, OPERATORS, library
from warpsmith.judge.evidence.operator_names import ALLOWED, CONTIGUOUS

NAME_BYTES = 40 * 1024
"""Of new names of kernels in one message; the rest is sent with the next."""
MOST_ENTRIES = 800
LONGEST_NAME = 16 * 1024
_ROOM = 1 << 16
_ERROR_BYTES = 600
_INNER = frozenset({"copy_", "resize_", "resize_as_", "set_", "_to_copy", "_conj", "_neg_view"})
"""What views, allocations and fills call inside."""


class Observer:
    """Both parts. A part that is not there has its reason in `problems`; nothing here raises."""

    def __init__(self, device: str):
        self.problems = {KERNELS: "not started", OPERATORS: "not started"}
        self._cuda = device == "cuda"
        self._started = False
        # bound here, so that replacing torch's attributes changes nothing later
        self._touch: Callable[..., object] = torch.empty
        self._kernels: ctypes.CDLL | None = None
        self._operators: ctypes.CDLL | None = None
        self._numbers: dict[str, int] = {}
        self._unsent: list[str] = []
        self._blind: list[str] = []
        self._switched = False

    @property
    def counts_operators(self) -> bool:
        """True where operators are counted natively, in every call."""
        return self._operators is not None

    def start(self, folder: Path, cupti: Iterable[Path] | None = None) -> None:
        """Load what `build.lay_out` put into `folder`. `cupti`: libraries to try, by default this machine's.

        Only the first call does anything: counting twice would be wrong.
        """
        if self._started:
            return
        self._started = True
        self._operators = self._load(folder, OPERATORS, self._start_operators)
        if not self._cuda:
            self.problems[KERNELS] = "kernels run on the CPU here"
            return
        paths = list(cupti_libraries() if cupti is None else cupti)
        self._kernels = self._load(folder, KERNELS, lambda lib: self._start_kernels(lib, paths))

    def check_sight(self, launch: Callable[[], object]) -> None:
        """A CUPTI that does not see the kernel that `launch` starts, and waits for, sees none: it is not used."""
        if self._kernels is not None:
            self._kernels.observer_kernels_reset()
            launch()
            if self._kernels.observer_kernels_reset() < 1:
                self.problems[KERNELS] = "CUPTI sees no kernel on this machine"
                self._kernels = None

    def arm(self) -> None:
        """Forget what came before. On a GPU the caller has just run a kernel: a part that saw nothing is blind."""
        self._blind = []
        if self._operators is not None:
            self._touch(0)
            if self._operators.observer_operators_reset() < 1:
                self._blind.append(OPERATORS)
        if self._kernels is not None and self._kernels.observer_kernels_reset() < 1:
            self._blind.append(KERNELS)

    def hold(self) -> None:
        """The calls are over: what is dispatched from here on is not theirs."""
        if self._operators is not None:
            self._operators.observer_operators_hold()

    def read(self) -> dict:
        """What the bracket showed, as a message."""
        message: dict = {"problems": self.problems, "blind": self._blind}
        if self._operators is not None:
            if self._switched and OPERATORS not in self._blind:
                self._blind.append(OPERATORS)
            lines = _lines(self._operators.observer_operators_read)
            message["ops"] = {
                _dotted(name): int(count) for name, count in (line.split("\t") for line in lines or ())
            }
        if self._kernels is not None:
            lines = _lines(self._kernels.observer_kernels_read)
            message |= {"blind": [*self._blind, KERNELS]} if lines is None else self._kernel_entries(lines)
        return message

    # ---- steps ------------------------------------------------------------------------------------------------

    def _kernel_entries(self, lines: list[str]) -> dict:
        entries, lost = [], 0
        for line in lines:
            kind, count, nanoseconds, untimed, name = line.split("\t", 4)
            if kind == "L":
                lost += int(count)
            elif len(entries) < MOST_ENTRIES:
                entries.append([self._number(name), kind, int(count), int(nanoseconds), int(untimed)])
            else:
                lost += int(count)
        names, size = {}, 0
        while self._unsent and size < NAME_BYTES:
            name = self._unsent.pop(0)
            names[str(self._numbers[name])] = name
            size += len(name)
        return {"kernels": entries, "names": names, "lost": lost}

    def _number(self, name: str) -> int:
        name = name[:LONGEST_NAME]
        if name not in self._numbers:
            self._numbers[name] = len(self._numbers)
            self._unsent.append(name)
        return self._numbers[name]

    def _load(self, folder: Path, part: str, start: Callable[[ctypes.CDLL], str]) -> ctypes.CDLL | None:
        path = library(folder, part)
        try:
            if not path.is_file():
                reason = path.with_suffix(".txt")
                self.problems[part] = reason.read_text()[:300] if reason.is_file() else "it was not built"
                return None
            loaded = ctypes.CDLL(str(path))
            self.problems[part] = start(loaded)[:300]
        except (OSError, AttributeError) as error:
            self.problems[part] = f"the observer does not load: {error}"[:300]
        return None if self.problems[part] else loaded

    def _start_operators(self, lib: ctypes.CDLL) -> str:
        names = torch._C._dispatch_get_all_op_names()
        has = torch._C._dispatch_has_kernel_for_dispatch_key
        composites = [
            name
            for name in names
            if has(name, "CompositeImplicitAutograd") and not has(name, "CPU") and not has(name, "CUDA")
        ]
        lib.observer_operators_read.restype = lib.observer_operators_reset.restype = ctypes.c_long
        words = (composites, {name.split("::")[0] for name in names}, ALLOWED | CONTIGUOUS | _INNER)
        lib.observer_operators_start(*(" ".join(sorted(word)).encode() for word in words))
        self._guard_switch()
        return ""

    def _guard_switch(self) -> None:
        """Whoever touches RecordFunction's switch is taken to hide operators, also if it is put back in the end."""

        def touched(_enabled: bool) -> None:
            self._switched = True

        torch.autograd._enable_record_function = touched
        torch._C._autograd._enable_record_function = touched

    def _start_kernels(self, lib: ctypes.CDLL, paths: list[Path]) -> str:
        lib.observer_kernels_read.restype = lib.observer_kernels_reset.restype = ctypes.c_long
        why = ctypes.create_string_buffer(b"no CUPTI on this machine", _ERROR_BYTES)
        for path in paths:
            if lib.observer_kernels_start(str(path).encode(), why, ctypes.c_size_t(_ERROR_BYTES)) == 0:
                return ""
        return why.value.decode(errors="replace") or "CUPTI does not start"


def cupti_libraries() -> list[Path]:
    """CUPTI libraries of this machine, the one that this process already has first: two would not both work."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    loaded = [Path(line.split(maxsplit=5)[5]) for line in maps if "libcupti.so" in line]
    parts = ("lib64", "extras/CUPTI/lib64", "targets/x86_64-linux/lib")
    folders = [wheel / "lib" for wheel in wheel_folders()]
    folders += [root / part for root in _toolkits() for part in parts]
    major = (torch.version.cuda or "").split(".")[0]
    found = [path for folder in folders for path in sorted(folder.glob("libcupti.so*"), reverse=True)]
    # a driver takes older ones too, but torch's own version is the one that was tried with it
    found.sort(key=lambda path: 0 if re.search(rf"\.so\.{major}\b", path.name) else 1)
    return list(dict.fromkeys(path.resolve() for path in (*loaded, *found)))


def _toolkits() -> list[Path]:
    return [Path("/usr/local/cuda"), *sorted(Path("/usr/local").glob("cuda-*"), reverse=True)]


def _lines(read: Callable[..., int]) -> list[str] | None:
    """All lines that a library has to say; None where it cannot."""
    room = _ROOM
    for _ in range(4):
        buffer = ctypes.create_string_buffer(room)
        needed = read(buffer, ctypes.c_size_t(room))
        if needed < 0:
            return None
        if needed <= room:
            return buffer.raw[:needed].decode(errors="replace").splitlines()
        room = 2 * needed
    return None


def _dotted(name: str) -> str:
    """`aten::add.Tensor` → `aten.add.Tensor`, as a dispatch mode names it."""
    full, _, overload = name.partition(".")
    return f"{full.replace('::', '.')}.{overload or 'default'}"
