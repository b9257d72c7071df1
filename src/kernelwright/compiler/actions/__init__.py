"""Schedule actions: named, documented steps from one schedule state to another; one file per family.

| action | family | what it does |
|---|---|---|
| `single-pass` | reduction | the online softmax: largest and sum of powers in one pass |
| `two-passes` | reduction | mean, then squares of distances, instead of Welford's one pass |
| `shares` | reduction | split a long reduction with few results into partial ones, then combine them |
| `segments` | segments | sort scatter updates by index, then combine by segment |
| `typed` | typed | grouped GEMM: rows sorted by type, one dense product per type |
| `store`, `fuse` | storage | keep a value in memory, or compute it where it is used |
| `narrow` | storage | store an intermediate in the half precision of the results |
| `single` | accumulate | accumulate a reduction in float32, where the contract allows it |
| `double` | accumulate | accumulate a product in float64, in plain loops |
| `turn` | turn | store an intermediate with its axes in the order in which it is read |
| `library` | product | the library multiplies, generated kernels do the rest |
| `activated` | product | the library convolves and applies the activation |
| `panels` | product | register tiles over packed panels: the generated micro-kernel |
| `direct` | product | register tiles, one factor read in place, unpacked |
| `dots` | product | lanes along the summed axis, for few rows |
| `winograd` | product | small convolutions in 2 by 2 tiles of results, 16 multiplications instead of 36 |
| `winograd-2`, `winograd-4` | winograd | lanes along channels; 4 by 4 results, 36 multiplications for 144 |
| `winograd-3` | winograd | the same along rows: 3 results, 5 multiplications for 9 |
| `winograd-phases` | winograd | the phases of a transposed convolution by tiles of 3 by 3 results |
| `channels-last` | channels_last | direct convolutions whose values keep their channels side by side in memory |
| `convolve` | convolve | direct convolution over a copy of the image, weights in panels |
| `phases` | phases | a transposed convolution by phases of its stride, instead of zeros between elements |
| `backward` | gradients | an attention and its gradients in one pass over its rows: no weights in memory |
| `online` | online | attention in one pass over the keys: no scores in memory |
| `split` | product | split-K: a long sum in parts, added at the end |
| `fold` | folding | fold scales, biases and running statistics into the weights of the preceding product |
| `dual` | dual | multiply two products of one input at once, as in a gated MLP |
| `pack` | weights | pack the weights of a product once, in the order its tiles read |
| `ahead` | weights | compute what depends on weights only once |
| `drop` | dead | remove no-ops, and the parts of a product that are not read |
| `reassociate` | reassociate | multiply three factors in the cheaper order |
| `hoist` | hoist | compute before a gather or broadcast repeats |
| `commute` | commute | sum first, then scale or multiply |
| `diagonal` | algebra | scale rows instead of multiplying by a diagonal matrix |
| `strip` | loops | compute rows of a product where they are reduced, a strip at a time |
| `stream` | loops | write an output with non-temporal stores |
| `stage` | loops | copy what padded windows read into a thread's cache first |
| `keep` | loops | keep a row of values in cache over several passes |
| `overwrite` | loops | keep a long row of values in the result, until the last pass writes over it |
| `rescale` | loops | exponentials of a long row by blocks, each relative to its own largest value |
| `tile`, `cut`, `reorder` | loops | square tiles; blocks; two loops exchanged |
| `parallelise`, `vectorise`, `unroll` | loops | run a loop over threads or over lanes; vectors in flight |
| `feed` | loops | compute rows a panel at a time, right before the library multiplies them |
| `specialise` | loops | compile a kernel for one size as well, chosen by a test at launch |
| `whole` | loops | compile a kernel for whole vectors as well, chosen by a test of the size at launch |

A state is never changed in place, and every step is recorded, so a schedule can be replayed on another shape
(`replayed`), read back from a candidate (`steps_of`), brought to another language (`transplanted`), explained, and
each step undone (`undone`). Sizes (of tiles and blocks, vectors in flight) are
parameters of the template, for the tuner.
"""

import math
from collections.abc import Collection
from dataclasses import replace
from functools import partial

from ._state import Action, IllegalAction, State, Step, replayed, steps_of, taken, transplanted, undone
from .accumulate import Double, Single
from .activated import Activated
from .algebra import Diagonal
from .channels_last import ChannelsLast
from .commute import Commute
from .convolve import Convolve
from .dead import Drop
from .dual import Dual
from .folding import Fold
from .gradients import Backward
from .hoist import Hoist
from .loops import LOOPING, MOVES, PLACING, OnLoops
from .online import Online
from .phases import Phases
from .product import SEVERAL, Direct, Dots, Library, Panels, Split, Winograd
from .reassociate import Reassociate
from .reduction import Shares, SinglePass, TwoPasses
from .segments import Segments
from .storage import Fuse, Narrow, Store
from .turn import Turn
from .typed import Typed
from .weights import Ahead, Pack
from .winograd import WinogradPanels, WinogradPhases

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
    WinogradPanels(2),
    WinogradPanels(3),
    WinogradPhases(),
    WinogradPanels(4),
    ChannelsLast(),
    Convolve(),
    Backward(),
    Online(),
    Phases(),
    Split(),
    Dual(),
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
"""All actions, in the order in which legal ones are tried."""


_ERROR_FACTORS = {
    "winograd": 4.0, "winograd-2": 4.0, "winograd-3": 4.0, "winograd-phases": 4.0, "winograd-4": 16.0,
}  # fmt: skip
"""Actions that round more than sums in another order do, and the least `error_factor` of a contract that lets them:
`native` lets small tiles of results, only `fast` large ones."""


def offered(forms: Collection[str], error_factor: float = math.inf) -> tuple[Action, ...]:
    """Return the actions for a language, in the order of trying.

    Args:
        forms: What the language prints (`FORMS` of its folder).
        error_factor: The contract's; actions whose rounding it does not allow are left out.
    """
    return tuple(
        a
        for a in map(partial(_as_in, forms), ACTIONS)
        if _needs(a) <= set(forms) and _ERROR_FACTORS.get(a.name, 1.0) <= error_factor
    )


def _as_in(forms: Collection[str], action: Action) -> Action:
    """Return the action as a language with these forms takes it."""
    match action:
        case Library():
            return replace(action, bias_apart="bias" in forms)
        case Shares():
            return replace(action, programs="programs" in forms)
        case _:
            return action


def _needs(action: Action) -> set[str]:
    match action:
        case Panels() | Direct() | Dots() | Winograd() | Online() | Backward() | Convolve():
            return {action.tiling.form}
        case ChannelsLast() | WinogradPanels() | WinogradPhases():
            return {action.tiling.form, "ahead"}
        case Phases():
            return {"convolve", "ahead"}
        case Pack() | Dual():
            return {"packed", "ahead"}
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
    "ChannelsLast",
    "Commute",
    "Convolve",
    "Diagonal",
    "Direct",
    "Dots",
    "Double",
    "Drop",
    "Dual",
    "Fold",
    "Fuse",
    "Hoist",
    "IllegalAction",
    "Library",
    "Narrow",
    "OnLoops",
    "Online",
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
    "WinogradPanels",
    "WinogradPhases",
    "offered",
    "replayed",
    "steps_of",
    "taken",
    "transplanted",
    "undone",
]  # fmt: skip
