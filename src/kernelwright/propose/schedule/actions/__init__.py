"""Macro actions: named, documented steps from one state of a schedule to another; one file a family.

| action | family | what it does |
|---|---|---|
| `single-pass` | reduction | the online softmax: largest and sum of powers in one pass |
| `two-passes` | reduction | mean, then squares of distances, instead of Welford's one pass |
| `store`, `fuse` | storage | keep a value in memory, or compute it where it is used |
| `library` | product | the library multiplies, own kernels around it |
| `panels` | product | register tiles over packed panels: the own micro-kernel |
| `direct` | product | register tiles, one factor read where it lies |
| `dots` | product | lanes along the summed axis, for few rows |
| `split` | product | a long sum in shares, added at the end |
| `commute` | algebra | sum first, then scale |

A state is never changed in place, and every step is recorded, so a schedule can be replayed on another shape
(`replayed`), explained, and each step taken back (`undone`). Loops themselves (lanes inside or around
reductions, vectors in flight) are parameters of the template, for the tuner.
"""

from collections.abc import Collection

from ._state import Action, IllegalAction, State, Step, replayed, taken, undone
from .algebra import Commute
from .product import Direct, Dots, Library, Panels, Split
from .reduction import SinglePass, TwoPasses
from .storage import Fuse, Store

ACTIONS: tuple[Action, ...] = (
    TwoPasses(),
    SinglePass(),
    Commute(),
    Library(),
    Panels(),
    Direct(),
    Dots(),
    Split(),
    Store(),
    Fuse(),
)
"""Every action, in the order in which legal ones are tried."""


def offered(forms: Collection[str]) -> tuple[Action, ...]:
    """Return the actions for a language that prints contractions in these forms, in the order of trying."""
    return tuple(a for a in ACTIONS if not isinstance(a, Panels | Direct | Dots) or a.tiling.form in forms)


__all__ = [
    "ACTIONS",
    "Action",
    "Commute",
    "Direct",
    "Dots",
    "Fuse",
    "IllegalAction",
    "Library",
    "Panels",
    "SinglePass",
    "Split",
    "State",
    "Step",
    "Store",
    "TwoPasses",
    "offered",
    "replayed",
    "taken",
    "undone",
]  # fmt: skip
