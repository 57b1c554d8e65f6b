"""Scan kernels: a block walks along its row in tiles with a carry, or a thread walks down its column."""

from __future__ import annotations

from warpsmith.optimizer.cuda_expr import TYPES, Statements
from warpsmith.optimizer.cuda_rows import RowKernel
from warpsmith.optimizer.cuda_text import Text, pointer_parameters
from warpsmith.optimizer.ir import Iota, Load, Program
from warpsmith.optimizer.plan import Launch

_COMBINE = {"cumsum": ("Sum", "+", "0"), "cumprod": ("Product", "*", "1")}


def scan_kernel(program: Program, launch: Launch) -> str:
    """The kernel's text."""
    return _Scan(program, launch).text()


class _Scan(RowKernel):
    def text(self) -> str:
        (item,) = self.kernel.items
        self.item, self.reverse = item, item.kind.endswith("_reverse")
        self.kind = self._kind(item.buf)
        self.combine, self.sign, one = _COMBINE[item.kind.removesuffix("_reverse")]
        self.identity = f"{one}.0f" if self.kind == "f" else f"{one}LL"
        outs, ins = pointer_parameters(self.program, self.kernel)
        body = Text()
        self._row_values(body, [item.expr])
        (self._tiles if self.launch.mode == "scan" else self._column)(body)
        t = Text()
        t.line(f"__global__ void __launch_bounds__({self.launch.block})")
        with t.block(f"{self.launch.name}({', '.join(outs + ins)})"):
            self._prologue(t)
            t.include(self.head)
            t.include(body)
        return str(t)

    def _elements_into(self, target: str) -> Text:
        """Statements that put the vector `e` of the scanned expression into `target[j]`."""
        body, loads, used = Text(), [], set()
        arrays: dict[Load | Iota, str] = {}

        def leaf(node: Load | Iota) -> str:
            if node not in arrays:
                arrays[node] = self._element_load(node, len(arrays), loads, used)
            return arrays[node]

        statements = Statements(self.arena, leaf)
        statements.names = {at: name for at, name in self.names.items() if at not in self.element}
        result = statements.add(self.item.expr)
        stores = self._store_coordinates([self.item]) if self.launch.mode != "scan" else set()
        for line in [*self.inner.coordinates(sorted(used | stores), self.launch.index), *loads]:
            body.line(line)
        body.line("#pragma unroll")
        with body.block(f"for (int j = 0; j < {self.launch.vec}; ++j)"):
            for line in statements.lines:
                body.line(line)
            body.line(f"{target}[j] = {result};")
        return body

    def _tiles(self, t: Text) -> None:
        """Tiles of `items` rounds of the block; a round is scanned by warps, the warps' totals by the first one."""
        launch, ctype, s = self.launch, self.launch.index, self.suffix
        vec, rounds, warps = launch.vec, launch.items, launch.block // 32
        count = self.kernel.length // vec
        tile = launch.block * rounds
        value = TYPES[self.kind]
        place = f"{count - 1}{s} - r" if self.reverse else "r"
        t.line(f"__shared__ {value} part[{rounds * warps}];")
        t.line(f"{value} carry = {self.identity};")
        exact = count % tile == 0
        with t.block(f"for ({ctype} first = lane; first - lane < {count}{s}; first += {tile}{s})"):
            t.line(f"{value} x[{rounds}][{vec}], before[{rounds}];")
            self._each_round(t, lambda: self._load_round(t, place, None if exact else f"r < {count}{s}"))
            self._each_round(t, lambda: self._scan_round(t, warps), place=False)
            t.line("__syncthreads();")
            t.line(f"scan_parts<{rounds * warps}, {self.combine}>(part, carry);")
            t.line("__syncthreads();")
            t.line(f"const {value} through = part[{rounds * warps - 1}];")
            self._each_round(
                t, lambda: self._store_round(t, place, warps, None if exact else f"r < {count}{s}")
            )
            t.line("carry = through;")
            t.line("__syncthreads();")

    def _each_round(self, t: Text, write: object, place: bool = True) -> None:
        t.line("#pragma unroll")
        with t.block(f"for (int k = 0; k < {self.launch.items}; ++k)"):
            if place:
                t.line(f"const {self.launch.index} r = first + k * {self.launch.block}{self.suffix};")
            write()  # type: ignore[operator]

    def _load_round(self, t: Text, place: str, guard: str | None) -> None:
        body = self._elements_into("x[k]")
        if guard:
            t.line("#pragma unroll")
            t.line(f"for (int j = 0; j < {self.launch.vec}; ++j) x[k][j] = {self.identity};")
        with t.block(f"if ({guard})" if guard else ""):
            t.line(f"const {self.launch.index} e = {place};")
            t.include(body)

    def _scan_round(self, t: Text, warps: int) -> None:
        vec, sign = self.launch.vec, self.sign
        if vec > 1:
            t.line("#pragma unroll")
            if self.reverse:
                t.line(f"for (int j = {vec - 2}; j >= 0; --j) x[k][j] = x[k][j + 1] {sign} x[k][j];")
            else:
                t.line(f"for (int j = 1; j < {vec}; ++j) x[k][j] = x[k][j - 1] {sign} x[k][j];")
        own = 0 if self.reverse else vec - 1
        t.line(f"{TYPES[self.kind]} total = scan_warp<{self.combine}>(x[k][{own}]);")
        t.line(f"if (threadIdx.x % 32 == 31) part[k * {warps} + threadIdx.x / 32] = total;")
        t.line("total = __shfl_up_sync(0xffffffffu, total, 1);")
        t.line(f"before[k] = threadIdx.x % 32 == 0 ? {self.identity} : total;")

    def _store_round(self, t: Text, place: str, warps: int, guard: str | None) -> None:
        vec, sign = self.launch.vec, self.sign
        t.line(f"const int own = k * {warps} + threadIdx.x / 32;")
        t.line(f"const auto earlier = (own ? part[own - 1] : carry) {sign} before[k];")
        t.line("#pragma unroll")
        t.line(f"for (int j = 0; j < {vec}; ++j) x[k][j] = earlier {sign} x[k][j];")
        stored = Text()
        for line in self.inner.coordinates(sorted(self._store_coordinates([self.item])), self.launch.index):
            stored.line(line)
        self._store(stored, [self.item], "x[k]")
        with t.block(f"if ({guard})" if guard else ""):
            t.line(f"const {self.launch.index} e = {place};")
            t.include(stored)

    def _column(self, t: Text) -> None:
        ctype, length, s = self.launch.index, self.kernel.length, self.suffix
        t.line(f"{TYPES[self.kind]} carry = {self.identity};")
        t.line("#pragma unroll 8")
        with t.block(f"for ({ctype} r = 0; r < {length}{s}; ++r)"):
            t.line(f"const {ctype} e = {f'{length - 1}{s} - r' if self.reverse else 'r'};")
            t.line(f"{TYPES[self.kind]} x[1];")
            t.include(self._elements_into("x"))
            t.line(f"x[0] = carry {self.sign} x[0];")
            t.line("carry = x[0];")
            self._store(t, [self.item], "x")
