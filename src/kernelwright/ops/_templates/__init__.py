"""Five templates under many kernels, as C++ headers; a family's `kernel.cpp` is a client of one.

| folder | what it computes | clients |
|---|---|---|
| `flash` | softmax of scores, times values, by tiles under ranges of keys; gradients; decode | attention |
| `gathered_gemm` | rows of a plan times a weight, gathered and scattered; pairs, bytes | experts, products |
| `lowbit` | weights of 1 to 8 bits, unpacked, multiplied and scaled in registers | low-bit linear layers |
| `segments` | keys to an order and offsets | experts, gradients of embeddings |
| `stream_reduce` | tiles of `X·Cᵀ`, folded as they are made and never stored | k-means, logits, losses, neighbours |

Four have a form in Triton too, `NAME.triton.py`: for GPUs, which compile it without being here. The same four have a
number that is tuned by shape: `NUMBERS`, which `tuned.h` hands to them and `ops/_core/tuning.py` chooses. Packed
products of bfloat16 and int8 have one where the processor has a tile unit: `dots.h` multiplies by vectors or by tiles.
"""

from dataclasses import dataclass
from pathlib import Path

from ...records import Candidate, SourceFile

__all__ = ["AMX", "NUMBERS", "TABLES", "Number", "triton_form", "triton_forms"]

_HOME = Path(__file__).parent
TABLES = _HOME / "tuned"
"""Folder of what was learned: a table for each kind of processor, `avx2-512k.json`."""


@dataclass(frozen=True)
class Number:
    """A number of a template that a call may choose; every value gives the same results, bit by bit.

    But sums of bfloat16 by the tile unit are in another order than by vectors.
    """

    what: str
    """What it says, to be read behind its value."""
    values: tuple[int, ...]
    """Those that are tried."""
    threads: bool = False
    """Whether it matters to several threads alone."""
    needs: tuple[str, ...] = ()
    """What a processor has where there is a choice, as `Device.vector_units` names it."""
    dtypes: tuple[str, ...] = ()
    """Of a call's first tensor where there is a choice; none: all."""
    tiles: str = ""
    """What AMX's tiles do under it where a processor has them; empty: nothing."""


AMX = ("amx", "amx_bf16", "amx_int8")
"""What a processor has whose tiles kernels use, as `Device.vector_units` names it."""
NUMBERS = {
    "gathered_gemm": Number(
        "bytes of rows that meet panel after panel", (1 << 16, 1 << 17, 1 << 18, 1 << 19)
    ),
    "dots": Number(
        "units that multiply, vectors (0) or AMX's tiles (1)", (0, 1), needs=AMX, dtypes=("bfloat16", "int8"),
        tiles="four rows or more",
    ),
    "lowbit": Number(
        "tiles of 32 columns that are expanded at once", (4, 8, 16, 32),
        tiles="activations of 8 bits in four rows or more",
    ),
    "segments": Number("shares of the keys", (1, 2, 4, 8), threads=True),
    "stream_reduce": Number(
        "bytes of rows that meet panel after panel", (1 << 15, 1 << 16, 1 << 17, 1 << 18, 1 << 19)
    ),
}  # fmt: skip
"""By template, or by header."""


def triton_forms() -> tuple[str, ...]:
    """Name the templates that have a form in Triton.

    Example:
        >>> triton_forms()
        ('gathered_gemm', 'lowbit', 'segments', 'stream_reduce')
    """
    return tuple(sorted(path.parent.name for path in _HOME.glob("*/*.triton.py")))


def triton_form(template: str) -> Candidate:
    """Return the form in Triton of a template, as the judge and the language take it; its docstring has the contract.

    Example:
        >>> triton_form("segments").entry
        'segments.py:run'
    """
    text = (_HOME / template / f"{template}.triton.py").read_text()
    source = SourceFile(path=f"{template}.py", text=text)
    return Candidate(sources=(source,), language="triton", entry=f"{source.path}:run", proposer="ops")
