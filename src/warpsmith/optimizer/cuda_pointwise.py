"""Pointwise kernels: several vectors a thread, all of their loads issued before the arithmetic."""

from __future__ import annotations

from warpsmith.optimizer.cuda_expr import TYPES, Statements
from warpsmith.optimizer.cuda_index import STREAM_BYTES, Axis, touches, vectors
from warpsmith.optimizer.cuda_text import Text, pointer_parameters
from warpsmith.optimizer.ir import Iota, Load, Program, kind_of
from warpsmith.optimizer.plan import Launch


def pointwise_kernel(program: Program, launch: Launch) -> str:
    """The kernel's text."""
    return _Pointwise(program, launch).text()


class _Pointwise:
    def __init__(self, program: Program, launch: Launch) -> None:
        self.program, self.launch = program, launch
        self.arena, self.kernel = program.arena, launch.kernel
        self.axis = Axis("e", self.kernel.sizes, launch.vec)
        self.used: set[int] = set()
        loads = dict.fromkeys(n for i in self.kernel.items for n in self.arena.loads(i.expr))
        self.loads = [n for n in loads if not n.is_address]
        self.big = [n for n in self.loads if self._is_big(n)]

    def _is_big(self, load: Load) -> bool:
        strides = load.strides
        whole = 2 * touches(self.kernel.sizes, strides) >= self.kernel.numel
        return whole and (self.launch.vec == 1 or vectors(load, strides, self.launch.vec))

    def text(self) -> str:
        launch, ctype = self.launch, self.launch.index
        suffix = "u" if ctype == "unsigned" else "LL"
        count = -(-self.kernel.numel // launch.vec)
        step = launch.block * launch.items
        exact = count % step == 0
        outs, ins = pointer_parameters(self.program, self.kernel)
        t = Text()
        t.line(f"__global__ void __launch_bounds__({launch.block})")
        with t.block(f"{launch.name}({', '.join(outs + ins)})"):
            t.line(f"const {ctype} first = static_cast<{ctype}>(blockIdx.x) * {step}{suffix} + threadIdx.x;")
            guard = "" if exact else f"if (e < {count}{suffix}) "
            for k, load in enumerate(self.big):
                t.line(f"{TYPES[load.kind]} a{k}[{launch.items}][{launch.vec}];")
            if self.big:
                body = Text()
                self._load_all(body)
                self._each_item(t, guard, suffix, body)
            body = Text()
            self._compute(body)
            self._each_item(t, guard, suffix, body)
        return str(t)

    def _each_item(self, t: Text, guard: str, suffix: str, body: Text) -> None:
        launch = self.launch
        t.line("#pragma unroll")
        with t.block(f"for (int k = 0; k < {launch.items}; ++k)"):
            t.line(f"const {launch.index} e = first + k * {launch.block}{suffix};")
            if guard:
                with t.block(guard.strip()):
                    t.include(body)
            else:
                t.include(body)

    def _load_all(self, t: Text) -> None:
        used: set[int] = set()
        lines = []
        for k, load in enumerate(self.big):
            offset, coordinates = self.axis.offset(load.strides, self.launch.index)
            used |= coordinates
            hint = "_streaming" if self.program.buffers[load.buf].nbytes >= STREAM_BYTES else ""
            lines.append(f"load{hint}(a{k}[k], {_place(load.buf, offset, load.offset)});")
        for line in [*self.axis.coordinates(sorted(used), self.launch.index), *lines]:
            t.line(line)

    def _compute(self, t: Text) -> None:
        launch, ctype = self.launch, self.launch.index
        used: set[int] = set()
        before: list[str] = []
        names: dict[Load | Iota, str] = {load: f"a{k}[k][j]" for k, load in enumerate(self.big)}
        last = len(self.kernel.sizes) - 1

        def leaf(node: Load | Iota) -> str:
            if node in names:
                return names[node]
            offset, coordinates = self.axis.offset(node.strides, ctype)
            used.update(coordinates)
            inner = node.strides[last] if last >= 0 else 0
            if isinstance(node, Iota):
                text = " + ".join(f"static_cast<long long>({x})" for x in [offset] if x) or "0"
                names[node] = f"({text} + {node.offset} + j * {inner})"
                return names[node]
            at = len(names)
            kind = TYPES[node.kind]
            place = _place(node.buf, offset, node.offset)
            if inner == 0 or launch.vec == 1:
                before.append(f"const {kind} b{at} = load_one({place});")
                names[node] = f"b{at}"
            else:
                before.append(f"{kind} b{at}[{launch.vec}];")
                wide = vectors(node, node.strides, launch.vec)
                load = f"load(b{at}, {place});" if wide else f"load_strided<{inner}>(b{at}, {place});"
                before.append(load)
                names[node] = f"b{at}[j]"
            return names[node]

        statements = Statements(self.arena, leaf)
        stored = [i for i in self.kernel.items if i.store]
        results = [statements.add(i.expr) for i in stored]
        for line in [*self.axis.coordinates(sorted(used), ctype), *before]:
            t.line(line)
        for k, item in enumerate(stored):
            t.line(f"{TYPES[kind_of(self.program.buffers[item.buf].dtype)]} r{k}[{launch.vec}];")
        t.line("#pragma unroll")
        with t.block(f"for (int j = 0; j < {launch.vec}; ++j)"):
            for line in statements.lines:
                t.line(line)
            for k, result in enumerate(results):
                t.line(f"r{k}[j] = {result};")
        here = "e" if launch.vec == 1 else f"e * {launch.vec}{'u' if ctype == 'unsigned' else ''}"
        for k, item in enumerate(stored):
            hint = "_streaming" if self.program.buffers[item.buf].nbytes >= STREAM_BYTES else ""
            t.line(f"store{hint}({item.buf} + {here}, r{k});")


def _place(buf: str, offset: str, constant: int) -> str:
    text = f"{buf} + {offset}" if offset else buf
    return f"{text} + {constant}" if constant else text
