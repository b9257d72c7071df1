"""A contraction as tiles of the result: `tl.dot` over the inner axis, prologue and epilogue on the tiles."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...graph import Size, product, text_of
from ...tile import Axis, Contraction, Expression, Guard, Let, Literal, Load, Program, walk
from ._blocks import Dims, Scope
from ._dialect import Blocks, bare

_LEAST = 8
"""Rows, columns or inner elements below which a tile of a product would be mostly empty."""


def is_product(step: Contraction) -> bool:
    """Whether tiles suit a contraction; if not, it runs as plain loops."""
    return not step.others and min(largest(step.rows), largest(step.columns), largest(step.inner)) >= _LEAST


def largest(axes: Sequence[Axis]) -> int:
    """Return the most elements that axes have together."""
    size = product([a.size for a in axes])
    return max(size.values) if isinstance(size, Size) else int(size)


def extent(axes: Sequence[Axis]) -> str:
    """Print how many elements axes have together."""
    return text_of(product([a.size for a in axes]))


def _is_zero_beyond(e: Expression) -> bool:
    """Whether a masked load by itself gives zero where a tile has no element."""
    if isinstance(e, Guard):
        return isinstance(e.value, Load) and isinstance(e.other, Literal) and e.other.value == 0
    return isinstance(e, Load)


@dataclass
class Product:
    """Prints one contraction."""

    program: Program
    dialect: Blocks
    step: Contraction
    precision: str
    at: dict[str, tuple[str, Dims]] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """Print the body of the kernel."""
        step, d = self.step, self.dialect
        rows, columns, inner = extent(step.rows), extent(step.columns), extent(step.inner)
        head = [
            "# Programs next to each other share rows or columns, so that the second cache serves them.",
            f"across = tl.cdiv({columns}, BLOCK_N)",
            f"tiles = across * tl.cdiv({rows}, BLOCK_M)",
            "tile = tl.program_id(0) % tiles",
            "group = tile // (GROUP * across) * GROUP",
            f"high = tl.minimum(tl.cdiv({rows}, BLOCK_M) - group, GROUP)",
            "place = tile % (GROUP * across)",
            f"row = {d.place('(group + place % high)')} * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]",
            f"column = {d.place('(place // high)')} * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]",
            f"live, here = row < {rows}, column < {columns}",
            *self._split(step.batch, d.place("(tl.program_id(0) // tiles)"), frozenset()),
            *self._split(step.rows, "row", frozenset({0})),
            *self._split(step.columns, "column", frozenset({1})),
        ]
        total = step.accumulator
        half = self._half()
        digits = self._split(step.inner, "inner", frozenset())
        left = self._operand(step.left, {0: "live", 1: "inside"}, 1, half)
        right = self._operand(step.right, {0: "inside", 1: "here"}, 0, half)
        depth = f"({d.place('start')} + tl.arange(0, BLOCK_K))"
        loop = [
            f"inner = {depth}[None, :]", *digits, f"inside = inner < {inner}",
            f"left = {left}",
            f"inner = {depth}[:, None]", *digits, f"inside = inner < {inner}",
            f"right = {right}",
            f"{total} = tl.dot(left, right, {total}{'' if half else ', input_precision=PRECISION'})",
        ]  # fmt: skip
        return [
            *head,
            f"{total} = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)",
            f"for start in range(0, {inner}, BLOCK_K):",
            *(f"    {line}" for line in loop),
            *self._epilogue({0: "live", 1: "here"}),
        ]

    def _split(self, axes: Sequence[Axis], flat: str, dims: Dims) -> list[str]:
        """Print the positions of axes that run as one, the last fastest."""
        if len(axes) == 1:
            self.at[axes[0].name] = (flat, dims)
            return []
        found, inner = [], list[int]()
        for place, axis in reversed(list(enumerate(axes))):
            self.at[axis.name] = (axis.name, dims)
            text = f"{flat} // ({text_of(product(inner))})" if inner else flat
            found.append(f"{axis.name} = {text} % {text_of(axis.size)}" if place else f"{axis.name} = {text}")
            inner.append(axis.size)
        return found

    def _scope(self, masks: Mapping[int, str]) -> Scope:
        return Scope(self.program, self.dialect, dict(self.at), masks=dict(masks))

    def _operand(self, e: Expression, masks: Mapping[int, str], depth: int, half: str) -> str:
        """Print a tile of an operand, zero beyond the inner axis."""
        scope = self._scope(masks)
        sides = (*self.step.rows, *self.step.columns)
        scope.at |= {axis.name: (self.at[axis.name][0], frozenset({1 - depth})) for axis in sides}
        scope.at |= {axis.name: (self.at[axis.name][0], frozenset({depth})) for axis in self.step.inner}
        scope.at |= {
            "#0": ("row" if depth else "inner", frozenset({0})),
            "#1": ("inner" if depth else "column", frozenset({1})),
        }
        text = scope.to(e, "float32")
        if not _is_zero_beyond(e) or scope.dims_of(e) != {0, 1}:
            text = f"tl.where({masks[0]} & {masks[1]}, {bare(text)}, 0.0)"
        if half:
            whole = text.removesuffix(".to(tl.float32)")
            return whole if whole != text else f"{text}.to({half})"
        return text

    def _half(self) -> str:
        """Name the half precision that everything multiplied is stored in; tensor cores take it directly."""
        read = [e for side in (self.step.left, self.step.right) for e in walk(side) if isinstance(e, Load)]
        dtypes = {self.program.buffer(e.buffer).dtype for e in read if e.kind == "float32"}
        return f"tl.{dtypes.pop()}" if len(dtypes) == 1 and dtypes <= {"float16", "bfloat16"} else ""

    def _epilogue(self, masks: Mapping[int, str]) -> list[str]:
        scope = self._scope(masks)
        scope.at |= {"#0": ("row", frozenset({0})), "#1": ("column", frozenset({1}))}
        scope.dims[self.step.accumulator] = frozenset({0, 1})
        lines = []
        for s in self.step.epilogue:
            if isinstance(s, Let):
                scope.dims[s.name] = scope.dims_of(s.value)
                lines.append(f"{s.name} = {bare(scope.text(s.value))}")
            else:
                at, value, mask = scope.stored(s)
                lines.append(f"tl.store({at}, {value}, mask={mask})")
        return lines
