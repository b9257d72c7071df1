"""The tile form: how a graph is computed, as loops over tiles; the input of every printer.

A `Program` holds buffers (arguments, temporaries, outputs, all row-major) and steps that run in sequence.
A step is one of

- `Kernel` (traversal and reduction): a tree of statements. `Loop` runs an axis; `Let` names a value; `Store`
  writes one; `Begin` and `Update` fold into an accumulator whose monoid is one of `MONOIDS`, and `Result`
  reads a part of its state after the loop. A row of a softmax:

      Loop rows (parallel)
        Begin top: max;    Loop columns (vector): Update top, x[rows, columns]
        Begin total: sum;  Loop columns (vector): Update total, exp(x[rows, columns] - top)
        Loop columns (vector): Store out[rows, columns] = exp(x[rows, columns] - top) / total

- `Contraction` (matrix product): expressions for the left and right elements, an epilogue, and register and
  cache tiles as attributes. `as_loops` turns it into a `Kernel` for printers without a form of their own.
- `NativeCall`: a region that torch computes.

A vector loop may contain other loops: then every value in it is a vector, accumulators included, and inner
loops are plain. Or it may be innermost and fold into an accumulator begun outside: then the accumulator is
kept in lanes and folded at the end (`Monoid.merge`).

Sizes are integers, or `Size` where they differ between calls: print `text_of(size)`, over the names in
`Program.symbols` (argument position and dimension that give each). Elements of half precision compute in
float32. `run_program` runs a program in Python, to test lowerings without a compiler.

Covers: tails (every size may be anything from 0), broadcasting, windows, pads (`Guard`), computed indices.
Does not cover: buffers that are not row-major; a kernel reads contiguous arguments.
"""

from ._expression import (
    MONOIDS,
    ZERO,
    Arith,
    Call,
    Expression,
    Extent,
    Guard,
    Kind,
    Literal,
    Load,
    Monoid,
    Position,
    Result,
    Variable,
    arith,
    lies_along,
    number,
    offset,
    part_kind,
    parts_of,
    positions,
    stride,
    substitute,
    walk,
)  # fmt: skip
from ._feed import led_by
from ._interpret import run_program
from ._known import LANES, factors_of, is_known
from ._legal import SIZES, STREAM_BYTES, What, paths
from ._merge import known_size, merged, side_by_side
from ._moves import Immovable, Move, moved, places
from ._parts import Axis, Image, Member, Weights
from ._pattern import pattern
from ._plain import as_loops
from ._program import (
    Begin,
    Buffer,
    Contraction,
    Gradients,
    Kernel,
    Let,
    Loop,
    NativeCall,
    Program,
    Row,
    Statement,
    Step,
    Store,
    Update,
    expressions,
    factors,
    mapped,
    products,
    read_by,
    renamed,
    rights,
    statements,
    written,
)  # fmt: skip
from ._sections import Section, sections_of, touched
from ._tiling import OF_IMAGES, WINOGRAD_PANELS, Form, Tiling

__all__ = [
    "LANES", "MONOIDS", "OF_IMAGES", "SIZES", "STREAM_BYTES", "WINOGRAD_PANELS", "ZERO", "Arith", "Axis", "Begin",
    "Buffer", "Call", "Contraction", "Expression", "Extent", "Form", "Gradients", "Guard", "Image", "Immovable",
    "Kernel", "Kind", "Let", "Literal", "Load", "Loop", "Member", "Monoid", "Move", "NativeCall", "Position",
    "Program", "Result", "Row", "Section", "Statement", "Step", "Store", "Tiling", "Update", "Variable", "Weights",
    "What", "arith", "as_loops", "expressions", "factors", "factors_of", "is_known", "known_size", "led_by",
    "lies_along", "mapped", "merged", "moved", "number", "offset", "part_kind", "parts_of", "paths", "pattern",
    "places", "positions", "products", "read_by", "renamed", "rights", "run_program", "sections_of", "side_by_side",
    "statements", "stride", "substitute", "touched", "walk", "written",
]  # fmt: skip
