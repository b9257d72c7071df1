"""Program → one Python file: jitted kernels, their compile-time arguments, and the function that launches them."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from ...calls import Calls
from ...graph import Graph, Size, product
from ...tile import MONOIDS, Contraction, Kernel, Load, Program, merged, part_kind, touched, walk
from ._blocks import Scope
from ._body import Body, loads_together
from ._dialect import POINTERS, Blocks
from ._functions import used
from ._launches import Launch, launches
from ._lines import tidied
from ._product import Product, extent, is_product, largest
from ._replay import is_replayable, replaying
from ._states import PROGRAMS, part_buffer

_DEPTH_ALIGNED = 16
_BLOCK, _LEAST_BLOCK, _LOADS = 1024, 128, (8, 16, 32)
"""Elements of a program; half, a quarter, an eighth as many if each loads more than so many values at once."""
_PROGRAMS = 528
"""Programs below which a GPU is not busy, by order of magnitude."""
_INT32 = 1 << 31
"""Positions from which 64 bits are needed, at several times the registers."""
_FEW = 32
"""Rows of a product for which a tile of as many is enough."""
_BUSY = 4
"""Loads behind the operands of a product beyond which a higher tile does not fit registers."""
_BUSIEST = 48
"""Loads beyond which only the lowest tile does."""


@dataclass(frozen=True)
class Choice:
    """The parameters that the tuner chooses."""

    lanes: str = "auto"
    """Whether lanes run over the innermost loops (`inner`) or the last of the nest (`outer`)."""
    block: int = 0
    """Elements that a program has at once; 0 for 1024, fewer where each has many loads in flight."""
    num_warps: int = 0
    """Warps of a program; 0 for 4, or 8 if a product's tile needs that many registers."""
    num_stages: int = 2
    block_m: int = 0
    """Rows of a tile; 0 for 64, or 32 for few rows or busy operands and 16 for the busiest if float32 is multiplied
    exactly.
    """
    block_n: int = 0
    """Columns of a tile; 0 for 128 if float32 is multiplied exactly and rows are not few, else 64.

    On an H200, 64 by 128 took half the time of 128 by 64 for convolutions, and as long for matrices.
    """
    block_k: int = 0
    """Inner elements of a tile; 0 for 16 if float32 is multiplied exactly, without tensor cores, and else 32."""
    replay: bool = False
    """Whether launches are recorded in a CUDA graph, and replayed."""
    precision: str = "ieee"
    """How float32 is multiplied: `ieee` exactly, `tf32x3` nearly so and on tensor cores."""


@dataclass
class Printer:
    """Prints one program."""

    program: Program
    graph: Graph
    choice: Choice
    kernels: list[str] = field(default_factory=list)
    evidence: list[dict[str, object]] = field(default_factory=list)

    def text(self, title: str) -> str:
        """Return the file."""
        wide = any(b.dtype == "float64" for b in self.program.buffers)
        counts = list(self._counts())
        large = any(int(size) >= _INT32 for size in counts)
        grows = () if large else (s for s in counts if isinstance(s, Size) and max(s.values) >= _INT32)
        within = tuple(dict.fromkeys(f"{s.text} < {_INT32}" for s in grows))
        self.program = replace(self.program, guards=(*self.program.guards, *within))
        self.dialect = Blocks(wide=wide, large=large)
        arguments = [b for b in self.program.buffers if b.role == "argument"]
        device = f"{arguments[0].name}.device" if arguments else '"cpu"'
        replayed = self.choice.replay and is_replayable(self.program)
        name = f"{self.program.name}_once" if replayed else self.program.name
        function = Calls(self.program, self.graph, name, self._launch, device=device).lines()
        if replayed:
            inputs = sorted(
                (b for b in arguments if b.name not in self.program.weights), key=lambda b: b.position
            )
            function += replaying(self.program.name, name, inputs)
        kernels = "\n".join(self.kernels)
        lines = [
            f'"""{title.strip()}\n"""' if "\n" in title.strip() else f'"""{title.strip()}"""',
            "", *(["import threading", ""] if replayed else []),
            "import torch", "import triton", "import triton.language as tl", "",
            *(["aten = torch.ops.aten", ""] if any("aten." in line for line in function) else []),
            *self._evidence(), "", "",
            *used(kernels), kernels, *function,
        ]  # fmt: skip
        return "\n".join(lines) + "\n"

    def _counts(self) -> Iterator[int]:
        """Yield what positions count: elements of buffers, iterations of nests."""
        yield from (b.elements for b in self.program.buffers)
        for step in self.program.steps:
            if isinstance(step, Contraction) and is_product(step):
                yield from (product([a.size for a in axes]) for axes in (step.rows, step.columns, step.inner))
            elif isinstance(step, Kernel | Contraction):
                yield from (launch.count for launch in launches(step, self.choice.lanes))

    def _evidence(self) -> list[str]:
        lines = ["TRITON_EVIDENCE = ["]
        for entry in self.evidence:
            lines += ["    {", *(f"        {key!r}: {value!r}," for key, value in entry.items()), "    },"]
        return [*lines, "]"]

    def _launch(self, step: Kernel | Contraction) -> list[str]:
        if isinstance(step, Contraction) and is_product(step):
            return self._product(step)
        return [line for launch in launches(step, self.choice.lanes) for line in self._traversal(launch)]

    # Products ------------------------------------------------------------------------------------------

    def _product(self, step: Contraction) -> list[str]:
        c = self.choice
        step = merged(step, {b.name: b.shape for b in self.program.buffers})
        reads, writes = touched(step)
        body = Product(self.program, self.dialect, step, c.precision).lines()
        plain = c.precision == "ieee" and any("PRECISION" in line for line in body)
        depth = c.block_k or (16 if plain else 32)
        read = sum(isinstance(e, Load) for side in (step.left, step.right) for e in walk(side))
        small = largest(step.rows) <= _FEW or read > _BUSY
        exact = 16 if read > _BUSIEST else 32 if small else 64
        high = c.block_m or (exact if plain else 64)
        wide = c.block_n or (128 if plain and not small else 64)
        constants: dict[str, tuple[str, object]] = {
            "BLOCK_M": (str(high), high), "BLOCK_N": (str(wide), wide),
            "BLOCK_K": (str(depth), depth), "GROUP": ("8", 8),
        }  # fmt: skip
        if any("PRECISION" in line for line in body):
            constants["PRECISION"] = (repr(c.precision), c.precision)
        tiles = f"triton.cdiv({extent(step.rows)}, {high}) * triton.cdiv({extent(step.columns)}, {wide})"
        grid = f"({tiles} * {extent(step.batch)},)" if step.batch else f"({tiles},)"
        return self._kernel(step.name, step.comment, [*reads, *writes], {}, body, constants, grid, [])

    # Traversals ----------------------------------------------------------------------------------------

    def _traversal(self, launch: Launch) -> list[str]:
        scope = Scope(self.program, self.dialect)
        block = self.choice.block or block_of(launch)
        body = Body(scope, launch, block)
        lines = body.lines()
        buffers = list(dict.fromkeys((*launch.loaded, *launch.stored)))
        constants: dict[str, tuple[str, object]] = dict(body.constants)
        size = "ROWS" if launch.way == "rows" else "BLOCK"
        if launch.way == "rows":
            constants = {"ROWS": _rows(body), **constants}
        elif launch.way == "points":
            constants["BLOCK"] = (str(block), block)
        before, parts = [], dict[str, str]()
        for b in (*launch.folds, *launch.joined):
            for p in MONOIDS[b.monoid].parts:
                kind = self.dialect.kind(part_kind(p, b.kind))
                parts[part_buffer(b.name, p)] = kind
                if b in launch.folds:
                    name = part_buffer(b.name, p)
                    before.append(f"{name} = torch.empty(({PROGRAMS},), dtype=torch.{kind}, device=DEVICE)")
        count = body.count if launch.nest else "1"
        tiles = f"triton.cdiv({count}, {constants[size][0]})" if launch.nest else "1"
        extra: list[tuple[str, str]] = []
        if launch.folds:
            before += [f"tiles = {tiles}", f"programs = min(tiles, {PROGRAMS})"]
            extra.append(("tiles", "i32"))
            tiles = "programs"
        if launch.joined:
            extra.append(("programs", "i32"))
        before = [line.replace("DEVICE", self._device) for line in before]
        return [
            *before,
            *self._kernel(
                launch.name, launch.comment, buffers, parts, lines, constants, f"({tiles},)", extra
            ),
        ]

    @property
    def _device(self) -> str:
        return next((f"{b.name}.device" for b in self.program.buffers if b.role == "argument"), '"cpu"')

    # Kernels -------------------------------------------------------------------------------------------

    def _kernel(
        self, name: str, comment: str, buffers: Sequence[str], parts: dict[str, str], body: Sequence[str],
        constants: dict[str, tuple[str, object]], grid: str, extra: Sequence[tuple[str, str]],
    ) -> list[str]:  # fmt: skip
        """Print one kernel and return the statements that launch it."""
        text = "\n".join(body)
        sizes = [n for n in self.program.symbols if re.search(rf"\b{n}\b", text)]
        if self.dialect.large:
            body = [*(f"{n} = {self.dialect.place(n)}" for n in sizes), *body]
        given = [*buffers, *parts, *sizes, *(n for n, _ in extra)]
        fixed = ", ".join(f"{n}: tl.constexpr" for n in constants)
        named = {b.name: b for b in self.program.buffers}
        traffic = ", ".join(
            f"{n} ({' * '.join(map(str, named[n].shape)) or '1'} {named[n].dtype})" for n in buffers
        )
        self.kernels += [
            f"# {comment}", f"# Memory: {traffic}.", "@triton.jit", f"def {name}(", f"    {', '.join(given)},",
            *([f"    {fixed},"] if fixed else []), "):",
            *(f"    {short}" for line in body for short in tidied(line)), "", "",
        ]  # fmt: skip
        warps = self._warps(constants, folds=("tiles", "i32") in extra)
        signature = {n: POINTERS[named[n].dtype] for n in buffers} | {
            n: POINTERS[k] for n, k in parts.items()
        }
        signature |= {n: "i32" for n in sizes} | dict(extra)
        self.evidence.append({
            "kernel": name, "signature": signature, "constexprs": {n: v for n, (_, v) in constants.items()},
            "divisible": [n for n in sizes if self._is_aligned(n)], "num_warps": warps,
            "num_stages": self.choice.num_stages,
        })  # fmt: skip
        passed = [f"{n}={t}" for n, (t, _) in constants.items()]
        passed += [f"num_warps={warps}", f"num_stages={self.choice.num_stages}"]
        return tidied(f"{name}[{grid}]({', '.join([*given, *passed])})")

    def _warps(self, constants: dict[str, tuple[str, object]], *, folds: bool) -> int:
        """Return the warps of a program; a wide row, or a tile of a product, gets enough to stay in registers, and
        what folds a whole tensor enough to read ahead.
        """
        if self.choice.num_warps:
            return self.choice.num_warps
        widths = [v for n, (_, v) in constants.items() if n.startswith("WIDTH") and isinstance(v, int)]
        return 8 if folds or "BLOCK_M" in constants else max(4, min(16, max(widths, default=0) // 512))

    def _is_aligned(self, name: str) -> bool:
        """Whether a size is a multiple of 16 on the largest workload seen."""
        position, dim = self.program.symbols[name]
        size = next(b.shape[dim] for b in self.program.buffers if b.position == position)
        values = size.values if isinstance(size, Size) else (int(size),)
        return values[0] % _DEPTH_ALIGNED == 0


def _rows(body: Body) -> tuple[str, int]:
    """Return how many rows a program has, so that their elements are about a block."""
    widths = [v for name, v in body.constants.items() if name.startswith("WIDTH")]
    if "BLOCK" in body.constants or not widths:
        return ("1", 1) if "BLOCK" in body.constants else (str(body.block), body.block)
    text = widths[0][0] if len(widths) == 1 else f"max({', '.join(t for t, _ in widths)})"
    return f"max(1, {body.block} // {text})", max(1, body.block // max(v for _, v in widths))


def block_of(launch: Launch) -> int:
    """Return how many elements a program has: of a long row more; of points that each read a whole window, or that
    are few altogether, fewer.
    """
    if launch.way != "points":
        return 2 * _BLOCK
    loads = loads_together(launch.body)
    block = next((_BLOCK >> i for i, most in enumerate(_LOADS) if loads <= most), _LEAST_BLOCK)
    while block > _LEAST_BLOCK and launch.count < _PROGRAMS * block:
        block //= 2
    return block
