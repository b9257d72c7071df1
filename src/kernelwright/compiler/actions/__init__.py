"""Macro actions: named, documented steps from one state of a schedule to another; one file a family.

| action | family | what it does |
|---|---|---|
| `single-pass` | reduction | the online softmax: largest and sum of powers in one pass |
| `two-passes` | reduction | mean, then squares of distances, instead of Welford's one pass |
| `shares` | reduction | a long reduction with few results in shares, then the shares |
| `segments` | segments | what is combined by index, sorted by it first |
| `typed` | typed | rows times the matrix of their type, sorted by type: a dense product each |
| `store`, `fuse` | storage | keep a value in memory, or compute it where it is used |
| `narrow` | storage | an intermediate in the half precision of the results |
| `single` | accumulate | a reduction's sum in float32, where the contract allows it |
| `double` | accumulate | a product's sum in float64, in plain loops |
| `turn` | turn | an intermediate with its axes in the order in which it is read |
| `library` | product | the library multiplies, own kernels around it |
| `activated` | product | the library convolves and applies the activation |
| `panels` | product | register tiles over packed panels: the own micro-kernel |
| `direct` | product | register tiles, one factor read where it lies |
| `dots` | product | lanes along the summed axis, for few rows |
| `winograd` | product | small convolutions two by two results at a time, 16 multiplications for 36 |
| `phases` | phases | a transposed convolution by phases of its stride, instead of zeros between elements |
| `split` | product | a long sum in shares, added at the end |
| `fold` | folding | scales, biases and running statistics go into the weights of the product before them |
| `pack` | weights | the weights of a product as its tiles read them, once |
| `ahead` | weights | what weights alone decide, once |
| `drop` | dead | what changes nothing, and what of a product nobody reads |
| `reassociate` | reassociate | three factors in the order of fewer multiplications |
| `hoist` | hoist | compute before a gather or broadcast repeats |
| `commute` | commute | sum first, then scale or multiply |
| `diagonal` | algebra | scale rows instead of multiplying by a diagonal matrix |
| `strip` | loops | rows of a product multiplied where they are reduced, a strip at a time |
| `stream` | loops | an output past the caches |
| `stage` | loops | what padded windows read copied into a worker's cache first |
| `keep` | loops | a row of values kept in cache over several passes |
| `tile`, `cut`, `reorder` | loops | square tiles; blocks; two loops exchanged |
| `parallelise`, `vectorise`, `unroll` | loops | which loop is over threads, over lanes; vectors in flight |
| `feed` | loops | rows computed a panel at a time, right before the library multiplies them |
| `specialise` | loops | a kernel compiled for one size too, with a test of it in the launch |
| `whole` | loops | a kernel compiled for whole vectors too, with a test of the size in the launch |

A state is never changed in place, and every step is recorded, so a schedule can be replayed on another shape
(`replayed`), read back from a candidate (`steps_of`), brought to another language (`transplanted`), explained, and
each step taken back (`undone`). Sizes (of tiles and blocks, vectors in flight) are
parameters of the template, for the tuner.
"""

from collections.abc import Collection

from ._state import Action, IllegalAction, State, Step, replayed, steps_of, taken, transplanted, undone
from .accumulate import Double, Single
from .activated import Activated
from .algebra import Diagonal
from .commute import Commute
from .dead import Drop
from .folding import Fold
from .hoist import Hoist
from .loops import LOOPING, MOVES, PLACING, OnLoops
from .phases import Phases
from .product import SEVERAL, Direct, Dots, Library, Panels, Split, Winograd
from .reassociate import Reassociate
from .reduction import Shares, SinglePass, TwoPasses
from .segments import Segments
from .storage import Fuse, Narrow, Store
from .turn import Turn
from .typed import Typed
from .weights import Ahead, Pack

ACTIONS: tuple[Action, ...] = (
    TwoPasses(),
    SinglePass(),
    Drop(),
    Reassociate(),
    Hoist(),
    Commute(),
    Diagonal(),
    Shares(),
    Segments(),
    Typed(),
    Fold(),
    *PLACING,
    Library(),
    Activated(),
    Panels(),
    Direct(),
    Dots(),
    Winograd(),
    Phases(),
    Split(),
    Pack(),
    Ahead(),
    Turn(),
    Single(),
    Narrow(),
    Store(),
    *LOOPING,
    Double(),
    Fuse(),
)
"""Every action, in the order in which legal ones are tried."""


def offered(forms: Collection[str]) -> tuple[Action, ...]:
    """Return the actions for a language that prints these forms (`FORMS` of its folder), in the order of trying."""
    return tuple(a for a in ACTIONS if _needs(a) <= set(forms))


def _needs(action: Action) -> set[str]:
    match action:
        case Panels() | Direct() | Dots() | Winograd():
            return {action.tiling.form}
        case Phases():
            return {"panels", "ahead"}
        case Pack():
            return {"direct", "ahead"}
        case Single() | Double():
            return {"double"}
        case Ahead() | Fold():
            return {"ahead"}
        case Segments() | Typed():
            return {"segments"}
        case Activated():
            return {"onednn"}
        case Library():
            return {"native"}
        case OnLoops():
            return {"moves"}
        case _:
            return set()


__all__ = [
    "ACTIONS",
    "MOVES",
    "SEVERAL",
    "Action",
    "Activated",
    "Ahead",
    "Commute",
    "Diagonal",
    "Direct",
    "Dots",
    "Double",
    "Drop",
    "Fold",
    "Fuse",
    "Hoist",
    "IllegalAction",
    "Library",
    "Narrow",
    "OnLoops",
    "Pack",
    "Panels",
    "Phases",
    "Reassociate",
    "Segments",
    "Shares",
    "Single",
    "SinglePass",
    "Split",
    "State",
    "Step",
    "Store",
    "Turn",
    "TwoPasses",
    "Typed",
    "Winograd",
    "offered",
    "replayed",
    "steps_of",
    "taken",
    "transplanted",
    "undone",
]  # fmt: skip
