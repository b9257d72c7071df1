"""A contraction as C++: its factors and what follows it as functions of vectors, the loops in `contraction.h`."""

from ...graph import Size, product, same
from ...tile import (
    LANES,
    Call,
    Contraction,
    Load,
    Program,
    Tiling,
    as_loops,
    expressions,
    lies_along,
    merged,
    walk,
)  # fmt: skip
from .. import Unprintable
from ._attention import attention
from ._channels_last import channels_last
from ._convolution import convolution
from ._factors import PAIRS, factor, finish, is_of_pairs
from ._panels import in_place, panels_of
from ._scalar import STORED, bare, size_text
from ._statements import Body

_BACK = {"lt", "sub"}
"""What weights are told from their transforms by: choices between differences."""

_WIDE = (768, 768, 256)
"""Rows, columns and inner elements from which on both factors of a product are laid out once, before it: rows would be
packed six times and more, each panel of columns once for every block of them. Below, memory for both costs more."""
_FEW, _CHEAP = 6, {"add", "sub", "mul", "maximum", "minimum", "relu"}
"""What leaves a tile's registers at once: at most so many operations of one instruction each; the code of a tile holds
them up to 24 times."""


def print_contraction(step: Contraction, program: Program, lanes: bool) -> list[str]:
    """Print the body of the kernel's function.

    Raises:
        Unprintable: the form asks for lanes, and a factor or what follows has none.
    """
    if step.tiling.form == "loops" or not lanes:
        return Body(program, contraction=print_contraction, vector=lanes).print(as_loops(step).body)
    shapes = {b.name: b.shape for b in program.buffers}
    if step.weights:
        return attention(merged(step, shapes), program, Body(program, contraction=print_contraction))
    if step.image:
        printed = channels_last if step.tiling.form == "channels-last" else convolution
        return printed(merged(step, shapes), program, Body(program, contraction=print_contraction))
    tiled = _Tiled(merged(step, shapes), program)
    return tiled.packed() or tiled.lines()


def register_tiles(step: Contraction, program: Program) -> list[str]:
    """Name the instances of `kw::RegisterTiles` that a product of packed weights, or an attention, calls."""
    form, weights = step.tiling.form, step.weights
    if form == "online" and weights:
        pairs = is_of_pairs(program, weights.query, weights.key, step.right)
        return shared_tiles(PAIRS if pairs else "float")
    if is_wide(step, program):
        t = step.tiling
        named = _named(f"kw::Packed<{t.rows}, {t.vectors}, 1>", "float", "float")
        return named if t.vectors == 2 else named[:1]
    if form != "packed" or weights or step.image:
        return []
    return _Tiled(merged(step, {b.name: b.shape for b in program.buffers}), program).register_tiles()


def shared_tiles(multiplied: str) -> list[str]:
    """Name the tiles of attention, which are those of most products."""
    return _named("kw::Packed<0, 2, 1>", multiplied, multiplied)


def _named(tiles: str, right: str, left: str) -> list[str]:
    """Name tiles, and those of twice the columns that one or two rows may take."""
    return [f"kw::RegisterTiles<{each}, {right}, {left}>" for each in (tiles, f"kw::Wider<{tiles}>")]


def _is_short(step: Contraction) -> bool:
    """Tell whether what follows a sum may be printed once for every register of a tile."""
    parts = [e for s in step.epilogue for x in expressions(s) for e in walk(x)]
    return sum(isinstance(e, Call) for e in parts) <= _FEW and all(
        not isinstance(e, Call) or e.op in _CHEAP for e in parts
    )


def is_wide(step: Contraction, program: Program) -> bool:
    """Tell whether both factors of a product in panels are laid out once, before it (`computed.h`)."""
    t = step.tiling
    if t.form != "panels" or t.split > 1 or step.weights or step.image:
        return False
    sizes = [product([a.size for a in axes]) for axes in (step.rows, step.columns, step.inner)]
    large = all(
        not isinstance(size, Size) and size >= least for size, least in zip(sizes, _WIDE, strict=True)
    )
    return large and not is_of_pairs(program, step.left, step.right)


def is_tiled(step: Contraction) -> bool:
    """Tell whether a contraction stands on `contraction.h`."""
    return step.tiling.form != "loops"


class _Tiled:
    """Prints the three functions that `kw::contract` takes, and the call."""

    def __init__(self, step: Contraction, program: Program) -> None:
        self.step, self.program, self.tiling = step, program, step.tiling
        self.along = self._along()
        self.panels = panels_of(step, program) if step.tiling.form == "packed" else None
        self.is_wide = is_wide(step, program)
        self.in_place = in_place(step, program) if self.panels or self.is_wide else None

    def _along(self) -> str:
        """Return what lanes of the right factor run along: the axis over which it lies side by side."""
        columns, inner = self.step.columns[-1:], self.step.inner
        by_inner = len(inner) == 1 and lies_along(self.step.right, inner[0].name)
        by_column = bool(columns) and lies_along(self.step.right, columns[0].name)
        if self.tiling.form == "dots":
            return "inner"
        if self.tiling.form == "panels" and by_inner and not by_column:
            return "inner"
        return "column"

    def packed(self) -> list[str]:
        """Print a product of weights that lie in panels; nothing where they do not.

        Raises:
            Unprintable: several products are multiplied at once, and their weights do not lie in shared panels.
        """
        c, t = self.step, self.tiling
        if self.panels is None:
            if c.others:
                raise Unprintable("several products at once whose weights lie in no shared panels")
            return []
        return [
            "  // Weights in panels, each multiplied by rows that stay in the second cache; sums in registers.",
            f"  using Tiles = {self._packed(t.block)};",
            *self._left(), *finish(c, Body(self.program, contraction=print_contraction)),
            self._sizes(self.panels.run),
            f"  kw::multiply<Tiles>(sizes, left, {self.panels.buffer}, finish);",
        ]  # fmt: skip

    def register_tiles(self) -> list[str]:
        """Name the tiles of packed weights."""
        if self.panels is None:
            return []
        weights = STORED[self.program.buffer(self.panels.buffer).dtype]
        left = f"kw::InPlace<{STORED[self.in_place.dtype]}>" if self.in_place else "void"
        named = _named(
            self._packed(), weights, weights if weights == "float" else f"kw::Factor<{left}, {weights}>"
        )
        widened = self.panels.members == 2 or self.tiling.vectors == 2
        return named if widened else named[:1]

    def _packed(self, *block: int) -> str:
        """Return the type of tiles of packed weights, given the rows of a block."""
        assert self.panels
        run, t = self.panels.run, self.tiling
        # A narrow panel whose width only the call knows has one vector: that fits any.
        narrow = "1" if isinstance(run, Size) else f"kw::vectors_of({run}, {t.vectors})"
        numbers = (t.rows, narrow if run <= LANES else t.vectors, self.panels.members, *block)
        return f"kw::Packed<{', '.join(map(str, numbers))}>"

    def _sizes(self, run: int) -> str:
        c = self.step
        sizes = [product([a.size for a in axes]) for axes in (c.batch, c.rows, c.columns, c.inner)]
        listed = ", ".join(bare(size_text(size)) for size in (*sizes, run))
        return f"  const kw::Shape sizes{{{listed}}};  // batch, rows, columns, inner; columns side by side"

    def lines(self) -> list[str]:
        c, t = self.step, self.tiling
        form = {"panels": "kPanels", "dots": "kDots"}.get(t.form, "kDirect")
        along = {"column": "kColumns", "inner": "kInner"}[self.along]
        at_once = "true" if _is_short(c) else "false"
        pairs = t.form == "panels" and is_of_pairs(self.program, c.left, c.right)
        split = f", {t.split}" if t.split > 1 or pairs else ""
        block = t.block or Tiling().block  # of weights in panels that what follows reads in another order
        multiplied = f", {PAIRS}" if pairs else ""
        numbers = f"{t.rows}, {t.vectors}, {t.depth}, {block}, {at_once}{split}{multiplied}"
        return [
            *(f"  // {line}" for line in self._traffic()),
            f"  using Tiles = kw::Tiling<kw::Form::{form}, kw::Along::{along}, {numbers}>;",
            *self._left(),
            *factor(
                self.program, "right", {"item": c.batch, "inner": c.inner, "column": c.columns}, self.along,
                c.right, is_asked=t.form == "panels",
            ),
            *finish(c, Body(self.program, contraction=print_contraction)),
            self._sizes(c.columns[-1].size if c.columns else 1),
            *self._call(),
        ]  # fmt: skip

    def _call(self) -> list[str]:
        c = self.step
        if self.tiling.form != "winograd":
            name = "multiply_computed" if self.is_wide else "contract"
            return [f"  kw::{name}<Tiles>(sizes, left, right, finish);"]
        if len(c.columns) != 3 or len(c.inner) != 3 or [a.size for a in c.inner[1:]] != [3, 3]:
            raise Unprintable(
                "tiles of a convolution whose axes are not images, rows, columns and windows of 3 by 3"
            )
        windows = ", ".join(bare(size_text(a.size)) for a in (*c.columns, c.inner[0]))
        return [
            f"  const kw::Windows windows{{{windows}}};  // images, height, width; channels",
            "  kw::convolve<Tiles>(sizes, windows, left, right, finish);",
        ]

    def _traffic(self) -> list[str]:
        t = self.tiling
        if t.form == "winograd":
            return [f"Tiles of {t.vectors} vectors, all channels; their sums for {t.block} rows at a time."]
        if self.is_wide:
            return [
                f"Columns are laid out in panels of {t.vectors} vectors, rows as tiles take them, each once; where"
                " registers hold more than six rows, a panel at a time."
            ]
        first = (
            f"Rows of left are packed, a block at a time, once for every {8 * t.vectors} vectors of columns;"
        )
        reading = {
            "panels": f"right once for every {t.block} rows, in panels of {t.depth} by {t.vectors} vectors.",
            "dots": "right is read where it lies, four columns at a time, once for every four rows.",
        }.get(t.form, "right is read where it lies, once for every tile of rows.")
        shares = [f"The inner elements are summed in {t.split} shares, and those at the end."]
        return [first, reading, *(shares if t.split > 1 else [])]

    def _left(self) -> list[str]:
        c = self.step
        if self.tiling.is_spread:
            return [f"  const float* const left = {self._spread()};  // transformed ahead"]
        if self.in_place:
            return [
                f"  const kw::InPlace left{{{self.in_place.place}}};  // from one item, and one row, to the next"
            ]
        roles = {"item": c.batch, "row": c.rows, "inner": c.inner}
        if self._lies_along_rows():
            by_rows = factor(self.program, "left_of_rows", roles, "row", c.left)
            return [*by_rows, "  const kw::OfRows left{left_of_rows};  // lanes run along rows"]
        return factor(self.program, "left", roles, "inner", c.left)

    def _lies_along_rows(self) -> bool:
        """Tell whether the left factor lies side by side along its rows and not along what is summed: it is turned."""
        c = self.step
        if self.tiling.form not in {"panels", "direct", "dots"} or len(c.rows) != 1:
            return False
        along_inner = any(lies_along(c.left, axis.name) for axis in c.inner[-1:])
        return lies_along(c.left, c.rows[0].name) and not along_inner

    def _spread(self) -> str:
        """Name the buffer of transformed weights: the left factor is what they come from, and nothing else."""
        parts = list(walk(self.step.left))
        read = {e.buffer for e in parts if isinstance(e, Load)}
        if len(read) != 1 or {e.op for e in parts if isinstance(e, Call)} - _BACK:
            raise Unprintable("transformed weights that something else was done to")
        (name,) = read
        wanted = 16 * product([a.size for a in (*self.step.batch, *self.step.rows, self.step.inner[0])])
        if not same(product(self.program.buffer(name).shape), wanted):
            raise Unprintable("weights that were transformed back")
        return name
