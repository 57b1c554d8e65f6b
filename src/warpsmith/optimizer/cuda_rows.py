"""Row kernels: reductions with everything that feeds and follows them, passes over a row kept in registers."""

from __future__ import annotations

import re
from dataclasses import replace

from warpsmith.optimizer.cuda_expr import TYPES, Statements
from warpsmith.optimizer.cuda_guards import inside, unguarded
from warpsmith.optimizer.cuda_index import STREAM_BYTES, Axis, touches, vectors
from warpsmith.optimizer.cuda_text import Text, pointer_parameters, strided_loop
from warpsmith.optimizer.fuse import Item
from warpsmith.optimizer.ir import Iota, Load, Program, contiguous_strides, kind_of
from warpsmith.optimizer.plan import Launch, element_ids, is_windowed, kept_ids, passes
from warpsmith.optimizer.split import levels

COMBINE = {"sum": "Sum", "prod": "Product", "max": "Max", "min": "Min"}
STEP = {
    "sum": "{0} += {1};",
    "prod": "{0} *= {1};",
    "max": "{0} = nan_max({0}, {1});",
    "min": "{0} = nan_min({0}, {1});",
}
IDENTITY = {
    ("sum", "f"): "0.0f",
    ("prod", "f"): "1.0f",
    ("max", "f"): "-INFINITY",
    ("min", "f"): "INFINITY",
    ("max", "i"): "INT64_MIN",
    ("min", "i"): "INT64_MAX",
}


MAX_UNROLLED = 128
"""Steps of a thread that has its row to itself which are written out, so that places in the row are constants."""


def row_kernel(program: Program, launch: Launch) -> str:
    """The kernel's text."""
    return RowKernel(program, launch).text()


def row_function(program: Program, launch: Launch, name: str, fresh: frozenset[str], *, keep: bool) -> str:
    """The same as a device function that is told its block, for a kernel of several stages.

    `fresh`: buffers that other blocks of the kernel write; `keep`: what is read will be read again, so no streaming.
    """
    rows = RowKernel(program, launch)
    rows.block, rows.fresh, rows.keep = "block", fresh, keep
    return rows.text(f"__device__ __forceinline__ void {name}(const int block, ")


class RowKernel:
    """A kernel whose blocks (or threads) each own rows; scans are written with the same places and loads."""

    def __init__(self, program: Program, launch: Launch) -> None:
        self.program, self.launch = program, launch
        self.arena, self.kernel = program.arena, launch.kernel
        mask = self.kernel.mask
        self.masked = [k for k, m in enumerate(mask) if m]
        self.kept_factors = [k for k, m in enumerate(mask) if not m]
        self.outer = Axis("o", tuple(self.kernel.sizes[k] for k in self.kept_factors))
        self.inner = Axis("e", tuple(self.kernel.sizes[k] for k in self.masked), launch.vec)
        self.element = element_ids(self.arena, self.kernel)
        self.kept = kept_ids(self.arena, self.kernel) if launch.cached else []
        self.names: dict[int, str] = {}
        self.bases: dict[Load, str] = {}
        self.reductions = {i.buf: i for i in self.kernel.items if i.is_reduction}
        self.head = Text()
        self.outer_used: set[int] = set()
        self.ready: set[str] = set()
        self.block, self.keep = "blockIdx.x", is_windowed(self.arena, self.kernel)
        self.fresh: frozenset[str] = frozenset()
        self.suffix = "u" if launch.index == "unsigned" else "LL"

    def text(self, head: str | None = None) -> str:
        """The kernel, or the function that `head` begins."""
        launch, kernel = self.launch, self.kernel
        outs, ins = pointer_parameters(self.program, kernel, self.fresh)
        body = Text()
        depth = levels(self.arena, kernel)
        for number, roots in enumerate(passes(self.arena, kernel), 1):
            now = [i for i in kernel.items if depth.get(i.buf) == number]
            self._pass(body, number, roots, now)
        self._row_results(body)
        t = Text()
        if head is None:
            t.line(f"__global__ void __launch_bounds__({launch.block})")
            head = f"{launch.name}("
        with t.block(f"{head}{', '.join(outs + ins)})"):
            self._prologue(t)
            t.include(self.head)
            t.include(body)
        return str(t)

    # ---- where this thread works

    def _prologue(self, t: Text) -> None:
        launch, ctype, rows = self.launch, self.launch.index, self.kernel.rows
        per_block = launch.block // launch.group
        if launch.mode in ("row", "scan"):
            t.line(f"const {ctype} lane = threadIdx.x % {launch.group}u;")
            within = f"threadIdx.x / {launch.group}u"
        else:
            lane = f"threadIdx.x / {per_block}u" if launch.group > 1 else "0"
            t.line(f"const {ctype} lane = {lane};")
            within = f"threadIdx.x % {per_block}u"
        place = f"static_cast<{ctype}>({self.block})"
        text = place if per_block == 1 else f"{place} * {per_block}u + {within}"
        if rows % per_block:
            # the threads beyond the last row run along, for the barriers, and store nothing
            t.line(f"const {ctype} row = {text};")
            t.line(f"const bool live = row < {rows}{self.suffix};")
            t.line(f"const {ctype} o = live ? row : {rows - 1}{self.suffix};")
        else:
            t.line(f"const {ctype} o = {text};")
        for line in self.outer.coordinates(sorted(self.outer_used), ctype):
            t.line(line)

    @property
    def _guarded(self) -> bool:
        return bool(self.kernel.rows % (self.launch.block // self.launch.group))

    def _outer_offset(self, strides: tuple[int, ...], constant: int = 0) -> str:
        own = tuple(strides[k] for k in self.kept_factors)
        offset, used = self.outer.offset(own, self.launch.index)
        self.outer_used |= used
        parts = [p for p in (offset, str(constant) if constant else "") if p]
        return " + ".join(parts)

    def _signed(self, node: Iota) -> str:
        """An iota's part along the kept factors; its constant may be negative where the index type is unsigned."""
        outer = self._outer_offset(node.strides)
        parts = [
            f"static_cast<long long>({outer})" if outer else "",
            f"{node.offset}LL" if node.offset else "",
        ]
        return " + ".join(p for p in parts if p) or "0LL"

    def _base(self, load: Load) -> str:
        """Name of a pointer to the load's place in this row."""
        if load not in self.bases:
            offset = self._outer_offset(load.strides, load.offset)
            if not offset:
                self.bases[load] = load.buf
            else:
                name = f"p{len(self.bases)}"
                ctype = f"const auto* {name}"
                self.head.line(f"{ctype} = {load.buf} + ({offset});")
                self.bases[load] = name
        return self.bases[load]

    # ---- once a row

    def _row_leaf(self, node: Load | Iota) -> str:
        if isinstance(node, Iota):
            return f"({self._signed(node)})"
        if node.buf in self.reductions:
            return f"s_{node.buf}"
        return f"load_one({self._base(node)})"

    def _row_values(self, t: Text, roots: list[int]) -> None:
        """Name what these roots need that is the same along the row."""
        statements = Statements(self.arena, self._row_leaf)
        statements.names = self.names
        for root in roots:
            for at in list(self.arena.walk(root, lambda i: i not in self.element)):
                if at not in self.element and at not in self.names:
                    self._row_value(t, statements, at)

    def _row_value(self, t: Text, statements: Statements, at: int) -> None:
        node = self.arena.nodes[at]
        start = len(statements.lines)
        name = statements.add(at)
        for line in statements.lines[start:]:
            t.line(line)
        if isinstance(node, Load) and not node.is_address and node.buf not in self.reductions:
            t.line(f"const {TYPES[node.kind]} w{at} = {name};")
            self.names[at] = f"w{at}"

    def _row_results(self, t: Text) -> None:
        stored = [i for i in self.kernel.items if i.store and (i.is_reduction or i.scope == "row")]
        if not stored:
            return
        values: list[tuple[Item, str]] = []
        for item in stored:
            if item.is_reduction:
                values.append((item, f"s_{item.buf}"))
            else:
                self._row_values(t, [item.expr])
                values.append((item, self.names[item.expr]))
        lane = "lane == 0 && live" if self._guarded else "lane == 0"
        with t.block(f"if ({lane})"):
            for item, name in values:
                dtype = self.program.buffers[item.buf].dtype
                ctype = TYPES[kind_of(dtype)]
                t.line(f"const {ctype} r_{item.buf}[1] = {{{name}}};")
                t.line(f"store({item.buf} + o, r_{item.buf});")

    # ---- passes along the row

    def _pass(self, t: Text, number: int, roots: list[int], now: list[Item]) -> None:
        launch = self.launch
        t.line(f"// pass {number}: " + (", ".join(i.kind for i in now) if now else "write"))
        self._row_values(t, roots)
        for item in now:
            kind = self._kind(item.buf)
            t.line(f"{TYPES[kind]} s_{item.buf} = {IDENTITY[(item.kind, kind)]};")
        body = Text()
        alone = launch.group == 1 and now and not self.kept
        edge = inside(self.arena, self.kernel, roots, self.element, self._signed) if alone else ""
        self._elements(body, t, number, roots, now)
        if edge:
            # windows that lie within the input need no guards: all but those at its edges
            plain = [replace(i, expr=unguarded(self.arena, i.expr, self.element)) for i in now]
            self.element |= element_ids(self.arena, replace(self.kernel, items=tuple(plain)))
            self._row_values(t, [i.expr for i in plain])
            fast = Text()
            self._elements(fast, t, number, [i.expr for i in plain], plain)
            with t.block(f"if ({edge})"):
                self._loop(t, fast)
            with t.block("else"):
                self._loop(t, body)
        else:
            self._loop(t, body)
        for item in now:
            combine = COMBINE[item.kind]
            if launch.mode == "row" and launch.group > 1:
                t.line(f"s_{item.buf} = reduce_row<{launch.group}, {combine}>(s_{item.buf});")
            elif launch.mode == "column" and launch.group > 1:
                columns = launch.block // launch.group
                t.line(f"s_{item.buf} = reduce_column<{launch.group}, {columns}, {combine}>(s_{item.buf});")

    def _kind(self, buf: str) -> str:
        return kind_of(self.program.buffers[buf].dtype)

    def _loop(self, t: Text, body: Text) -> None:
        """All vectors of the row that are this thread's: whole rounds unguarded, the last one guarded."""
        launch = self.launch
        count = self.kernel.length // launch.vec
        whole, rest = divmod(count, launch.group)
        suffix = self.suffix
        alone = launch.group == 1 and launch.per_thread <= MAX_UNROLLED
        if self.kept or launch.per_thread <= 2 or alone:
            t.line("#pragma unroll")
            with t.block(f"for (int k = 0; k < {launch.per_thread}; ++k)"):
                if rest or re.search(r"\be\b", str(body)):
                    t.line(f"const {launch.index} e = lane + k * {launch.group}{suffix};")
                if rest:
                    with t.block(f"if (e < {count}{suffix})"):
                        t.include(body)
                else:
                    t.include(body)
            return
        unroll = max(1, (16 if launch.vec == 1 else 8) // max(1, self._large_loads()))
        strided_loop(t, body, launch, whole, rest, suffix, unroll)

    def _large_loads(self) -> int:
        loads = {n for i in self.kernel.items for n in self.arena.loads(i.expr)}
        return sum(2 * touches(self.kernel.sizes, n.strides) >= self.kernel.numel for n in loads)

    def _elements(self, t: Text, outside: Text, number: int, roots: list[int], now: list[Item]) -> None:
        """The body of a pass for the vector `e`; arrays that later passes need are declared `outside`."""
        launch, arena = self.launch, self.arena
        arrays: dict[Load | Iota, str] = {}
        loads: list[str] = []
        used: set[int] = set()

        def leaf(node: Load | Iota) -> str:
            if node not in arrays:
                arrays[node] = self._element_load(node, len(arrays), loads, used)
            return arrays[node]

        statements = Statements(arena, leaf)
        statements.names = {at: name for at, name in self.names.items() if at not in self.element}
        statements.names.update({at: f"c{at}[k][j]" for at in self.kept if f"c{at}" in self.ready})
        keep_now = [a for a in self.kept if f"c{a}" not in self.ready and self._below(a, roots)]
        tail: list[str] = []
        for root in roots:
            statements.add(root)
        for at in keep_now:
            outside.line(f"{TYPES[arena.nodes[at].kind]} c{at}[{launch.per_thread}][{launch.vec}];")
            tail.append(f"c{at}[k][j] = {statements.names[at]};")
            self.ready.add(f"c{at}")
        for item in now:
            tail.append(STEP[item.kind].format(f"s_{item.buf}", statements.names[item.expr]))
        written = [] if now else [i for i in self.kernel.items if i.scope == "element" and i.store]
        for k, item in enumerate(written):
            tail.append(f"r{k}[j] = {statements.names[item.expr]};")
        for line in [
            *self.inner.coordinates(sorted(used | self._store_coordinates(written)), launch.index),
            *loads,
        ]:
            t.line(line)
        for k, item in enumerate(written):
            t.line(f"{TYPES[self._kind(item.buf)]} r{k}[{launch.vec}];")
        t.line("#pragma unroll")
        with t.block(f"for (int j = 0; j < {launch.vec}; ++j)"):
            for line in [*statements.lines, *tail]:
                t.line(line)
        self._store(t, written)

    def _below(self, at: int, roots: list[int]) -> bool:
        return any(at in set(self.arena.walk(root)) for root in roots)

    def _element_load(self, node: Load | Iota, number: int, loads: list[str], used: set[int]) -> str:
        launch = self.launch
        strides = tuple(node.strides[k] for k in self.masked)
        offset, coordinates = self.inner.offset(strides, launch.index)
        used |= coordinates
        if isinstance(node, Iota):
            inner = f" + static_cast<long long>({offset})" if offset else ""
            step = f" + j * {strides[-1]}" if launch.vec > 1 and strides[-1] else ""
            return f"({self._signed(node)}{inner}{step})"
        place = f"{self._base(node)} + {offset}" if offset else self._base(node)
        name = f"a{number}"
        kind = TYPES[node.kind]
        if launch.vec > 1 and strides[-1] == 0:
            loads.append(f"const {kind} {name} = load_one({place});")
            return name
        loads.append(f"{kind} {name}[{launch.vec}];")
        if launch.vec == 1 or vectors(node, node.strides, launch.vec):
            once = not self.keep and (launch.cached or len(passes(self.arena, self.kernel)) == 1)
            big = 2 * touches(self.kernel.sizes, node.strides) >= self.kernel.numel
            hint = (
                "_streaming" if once and big and self.program.buffers[node.buf].nbytes >= STREAM_BYTES else ""
            )
            loads.append(f"load{hint}({name}, {place});")
        else:
            loads.append(f"load_strided<{strides[-1]}>({name}, {place});")
        return f"{name}[j]"

    # ---- writing elements

    def _store_strides(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        strides = contiguous_strides(self.kernel.sizes)
        return strides, tuple(strides[k] for k in self.masked)

    def _store_coordinates(self, written: list[Item]) -> set[int]:
        return self.inner.offset(self._store_strides()[1], self.launch.index)[1] if written else set()

    def _store(self, t: Text, written: list[Item], values: str | None = None) -> None:
        strides, inner = self._store_strides()
        for k, item in enumerate(written):
            base = f"q_{item.buf}"
            outer = self._outer_offset(strides)
            self.head.line(f"auto* {base} = {item.buf}" + (f" + ({outer});" if outer else ";"))
            offset, _ = self.inner.offset(inner, self.launch.index)
            hint = "_streaming" if self.program.buffers[item.buf].nbytes >= STREAM_BYTES else ""
            guard = "if (live) " if self._guarded else ""
            t.line(f"{guard}store{hint}({base} + {offset or '0'}, {values or f'r{k}'});")
