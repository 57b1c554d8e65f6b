"""Reductions across rows, four neighbouring columns a thread: aligned vector loads, several rows in flight."""

from __future__ import annotations

from warpsmith.optimizer.cuda_expr import TYPES, Statements
from warpsmith.optimizer.cuda_index import STREAM_BYTES, Axis, touches, vectors
from warpsmith.optimizer.cuda_rows import COMBINE, IDENTITY, STEP
from warpsmith.optimizer.cuda_text import Text, pointer_parameters, strided_loop
from warpsmith.optimizer.fuse import Item
from warpsmith.optimizer.ir import Iota, Load, Program, kind_of
from warpsmith.optimizer.plan import Launch

UNROLL = 8
"""Vector loads that a thread issues before it adds them up."""


def columns_kernel(program: Program, launch: Launch) -> str:
    """The kernel's text."""
    return _Columns(program, launch).text()


class _Columns:
    def __init__(self, program: Program, launch: Launch) -> None:
        self.program, self.launch = program, launch
        self.arena, self.kernel = program.arena, launch.kernel
        mask = self.kernel.mask
        self.masked = [k for k, m in enumerate(mask) if m]
        self.kept = [k for k, m in enumerate(mask) if not m]
        self.outer = Axis("o", tuple(self.kernel.sizes[k] for k in self.kept), launch.vec)
        self.inner = Axis("e", tuple(self.kernel.sizes[k] for k in self.masked))
        self.reductions = {i.buf: i for i in self.kernel.items if i.is_reduction}
        self.suffix = "u" if launch.index == "unsigned" else "LL"
        self.used: set[int] = set()

    def text(self) -> str:
        launch, kernel, s = self.launch, self.kernel, self.suffix
        per_block = launch.block // launch.group
        columns = kernel.rows // launch.vec
        body = Text()
        self._reduce(body, per_block)
        self._results(body, columns % per_block != 0)
        outs, ins = pointer_parameters(self.program, kernel)
        t = Text()
        t.line(f"__global__ void __launch_bounds__({launch.block})")
        with t.block(f"{launch.name}({', '.join(outs + ins)})"):
            ctype = launch.index
            t.line(f"const {ctype} lane = " + (f"threadIdx.x / {per_block}u;" if launch.group > 1 else "0;"))
            place = f"static_cast<{ctype}>(blockIdx.x) * {per_block}u + threadIdx.x % {per_block}u"
            if columns % per_block:
                # the threads beyond the last column run along, for the barriers, and store nothing
                t.line(f"const {ctype} column = {place};")
                t.line(f"const bool live = column < {columns}{s};")
                t.line(f"const {ctype} o = live ? column : {columns - 1}{s};")
            else:
                t.line(f"const {ctype} o = {place};")
            for line in self.outer.coordinates(sorted(self.used), ctype):
                t.line(line)
            t.include(body)
        return str(t)

    def _kind(self, buf: str) -> str:
        return kind_of(self.program.buffers[buf].dtype)

    def _reduce(self, t: Text, per_block: int) -> None:
        launch, s = self.launch, self.suffix
        items = list(self.reductions.values())
        for item in items:
            kind = self._kind(item.buf)
            t.line(f"{TYPES[kind]} s_{item.buf}[{launch.vec}];")
            t.line("#pragma unroll")
            t.line(f"for (int j = 0; j < {launch.vec}; ++j) s_{item.buf}[j] = {IDENTITY[(item.kind, kind)]};")
        body = Text()
        lines = [(STEP[i.kind].format(f"s_{i.buf}[j]", "{0}"), i) for i in items]
        self._vector(body, items, lines, within=True)
        whole, rest = divmod(self.kernel.length, launch.group)
        strided_loop(t, body, launch, whole, rest, s, UNROLL)
        if launch.group > 1:
            t.line("#pragma unroll")
            with t.block(f"for (int j = 0; j < {launch.vec}; ++j)"):
                for item in items:
                    name = f"s_{item.buf}[j]"
                    call = f"reduce_column<{launch.group}, {per_block}, {COMBINE[item.kind]}>({name})"
                    t.line(f"{name} = {call};")

    def _results(self, t: Text, guarded: bool) -> None:
        stored = [i for i in self.kernel.items if i.store]
        with t.block("if (lane == 0 && live)" if guarded else "if (lane == 0)"):
            for item in stored:
                t.line(f"{TYPES[self._kind(item.buf)]} r_{item.buf}[{self.launch.vec}];")
            others = [i for i in stored if not i.is_reduction]
            lines = [(f"r_{i.buf}[j] = {{0}};", i) for i in others]
            fixed = [f"r_{i.buf}[j] = s_{i.buf}[j];" for i in stored if i.is_reduction]
            self._vector(t, others, lines, within=False, fixed=fixed)
            for item in stored:
                t.line(f"store({item.buf} + o * {self.launch.vec}{self.suffix}, r_{item.buf});")

    def _vector(
        self,
        t: Text,
        items: list[Item],
        lines: list[tuple[str, Item]],
        *,
        within: bool,
        fixed: list[str] | None = None,
    ) -> None:
        """What `lines` say of each item's value, for the columns j of this thread (`within`: and the row `e`)."""
        loads: list[str] = []
        inner: set[int] = set()
        names: dict[Load | Iota, str] = {}

        def leaf(node: Load | Iota) -> str:
            if node not in names:
                names[node] = self._leaf(node, f"{'a' if within else 'b'}{len(names)}", loads, inner)
            return names[node]

        statements = Statements(self.arena, leaf)
        results = {item.buf: statements.add(item.expr) for item in items}
        for line in [*self.inner.coordinates(sorted(inner), self.launch.index), *loads]:
            t.line(line)
        t.line("#pragma unroll")
        with t.block(f"for (int j = 0; j < {self.launch.vec}; ++j)"):
            for line in statements.lines:
                t.line(line)
            for text, item in lines:
                t.line(text.replace("{0}", results[item.buf]))
            for line in fixed or []:
                t.line(line)

    def _leaf(self, node: Load | Iota, name: str, loads: list[str], inner: set[int]) -> str:
        vec, ctype = self.launch.vec, self.launch.index
        if isinstance(node, Load) and node.buf in self.reductions:
            return f"s_{node.buf}[j]"
        across = tuple(node.strides[k] for k in self.kept)
        along = tuple(node.strides[k] for k in self.masked)
        parts = []
        for axis, strides, used in ((self.outer, across, self.used), (self.inner, along, inner)):
            text, coordinates = axis.offset(strides, ctype)
            used |= coordinates
            if text:
                parts.append(text)
        last = across[-1]
        if isinstance(node, Iota):
            terms = [f"static_cast<long long>({p})" for p in parts]
            terms += [f"{node.offset}LL"] if node.offset else []
            terms += [f"j * {last}"] if last else []
            return f"({' + '.join(terms) or '0LL'})"
        place = " + ".join(
            [node.buf, *(f"({p})" for p in parts), *([str(node.offset)] if node.offset else [])]
        )
        kind = TYPES[node.kind]
        if last == 0:
            loads.append(f"const {kind} {name} = load_one({place});")
            return name
        loads.append(f"{kind} {name}[{vec}];")
        if vectors(node, across, vec):
            large = 2 * touches(self.kernel.sizes, node.strides) >= self.kernel.numel
            streams = large and self.program.buffers[node.buf].nbytes >= STREAM_BYTES
            loads.append(f"load{'_streaming' if streams else ''}({name}, {place});")
        else:
            loads.append(f"load_strided<{last}>({name}, {place});")
        return f"{name}[j]"
