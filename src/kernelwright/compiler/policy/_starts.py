"""Graph → States to start from: what the beam would not reach, or only by steps that first cost time."""

from collections.abc import Sequence

from ..actions import Action, Shares, State, taken
from ..graph import Contract, Graph, product
from ._faults import Faults
from ._products import FULL_ROWS

NETWORK = 64
"""Operations from which a graph counts as a whole network: lowering is slow, plain products are not an option."""
_PANELS = ("backward", "online", "phases", "convolve", "dual", "pack", "ahead")
"""Actions that give every product the form in which it runs like the library's or faster."""
_LAST = ("backward", "online", "phases", "channels-last", "convolve", "dual", "pack", "ahead")
"""The same, with images stored with their channels side by side."""
_TILES = ("winograd", "winograd-2", "winograd-3", "winograd-phases", "winograd-4")
"""Actions that make convolutions of fewer multiplications."""
AT_ONCE = ("library", "store")
"""Actions applied to a whole network first: products by the library, residual sums in memory."""


def operations_of(graph: Graph) -> int:
    """Count the operations of torch in a graph."""
    return sum(op.op.startswith("aten.") for op in graph.operations)


def folded(start: State, actions: Sequence[Action], faults: Faults) -> list[State]:
    """Return the start with every chain folded: the estimate sees no gain before the product has a form."""
    state = start
    for action in actions:
        with faults.of(action.name):
            while action.name == "fold" and (site := next(iter(action.sites(state)), None)):
                state = taken(state, action, site)
    return [state] if state.steps else []


def in_panels(state: State, actions: Sequence[Action], faults: Faults) -> State:
    """Return the state with attention online, dense convolutions direct and all weights in panels; in a whole network
    the rest as ever. Forms that do not lower together are left out.
    """
    for left_out in (
        (),
        ("backward",),
        ("backward", "online"),
        ("phases", "convolve"),
        ("backward", "online", "phases", "convolve"),
    ):
        found = _all_of(state, [name for name in _PANELS if name not in left_out], actions, faults)
        with faults.of("pack"):
            if not found.steps or found.program is not None:
                return found
    return state


def are_walks(graph: Graph) -> bool:
    """Tell whether every product of weights that last has so few rows that it is a walk through its weights."""
    found = [n for n in graph.nodes if isinstance(n, Contract) and n.right in graph.lasting]
    return bool(found) and all(_rows(n) < FULL_ROWS for n in found)


def _rows(made: Contract) -> int:
    """Return the rows of a product: what its result has of the left factor alone."""
    left, right, out = made.labels
    return int(
        product([n for n, c in zip(made.left.shape, left, strict=True) if c in out and c not in right])
    )


def packed_in_calls(state: State, actions: Sequence[Action], faults: Faults) -> list[State]:
    """Return the state of a network without weights that last, as in training, with every product of its own."""
    return [] if state.graph.lasting else [_all_of(state, ("panels",), actions, faults)]


def channels_last(state: State, actions: Sequence[Action], faults: Faults) -> list[State]:
    """Return the state with scales folded and every image of several convolutions with its channels side by side."""
    several = [a for a in actions if a.name == "channels-last" and "all" in a.sites(state)]
    start = (folded(state, actions, faults) or [state])[-1]
    return [_all_of(start, _LAST, actions, faults)] if several else []


def _all_of(state: State, names: Sequence[str], actions: Sequence[Action], faults: Faults) -> State:
    """Return the state after these actions wherever they are legal."""
    rest = AT_ONCE if operations_of(state.graph) >= NETWORK else ()
    for name in (*names, *rest):
        for action in (a for a in actions if a.name == name):
            with faults.of(name):
                sites = list(action.sites(state))
                wanted = ("dense", "all") if name == "convolve" else ("all",)
                several = [site for site in wanted if site in sites][:1]
                one = [] if name in rest else sites if name == "phases" else sites[:1]
                for site in several or one:
                    state = taken(state, action, site)
    return state


def in_tiles(state: State, actions: Sequence[Action], faults: Faults) -> list[State]:
    """Return states with convolutions by fewer multiplications: the estimate knows too little of their caches."""
    found = []
    small = operations_of(state.graph) < NETWORK
    for action in (a for a in actions if a.name in _TILES and small):
        with faults.of(action.name):
            new = state
            while site := next(iter(action.sites(new)), None):
                new = taken(new, action, site)
            found += [new] if new.steps != state.steps else []
    return found


def in_parts(start: State, actions: Sequence[Action], faults: Faults) -> list[State]:
    """Return starts with all reductions in parts where a GPU is to be kept busy: as they are, and commuted."""
    shares = next((a for a in actions if isinstance(a, Shares) and a.programs), None)
    if shares is None or operations_of(start.graph) >= NETWORK:
        return []
    found = [_cut(start, shares, actions, faults)]
    for commute in (a for a in actions if a.name == "commute"):
        with faults.of(commute.name):
            found += [
                _cut(taken(start, commute, s), shares, actions, faults)
                for s in list(commute.sites(start))[:1]
            ]
    return found


def _cut(state: State, shares: Shares, actions: Sequence[Action], faults: Faults) -> State:
    """Return the state with all reductions in parts, variances in two passes where only their sums can be."""
    with faults.of(shares.name):
        for twice in (a for a in actions if a.name == "two-passes"):
            for site in list(twice.sites(state)):
                new = taken(state, twice, site) if site in twice.sites(state) else state
                state = new if len([*shares.sites(new)]) > len([*shares.sites(state)]) else state
        while site := next(iter(shares.sites(state)), ""):
            state = taken(state, shares, site)
    return state


def stored(state: State, actions: Sequence[Action], faults: Faults) -> list[State]:
    """Return the state with what its plain products read in memory, and these in a form of their own.

    Factors that are computed, or chosen from several tensors, at every reading make either step alone worse.
    """
    found = []
    for store in (a for a in actions if a.name == "store" and operations_of(state.graph) < NETWORK):
        with faults.of(store.name):
            first = taken(state, store, "all") if "all" in store.sites(state) else state
            for form in (a for a in actions if a.name in ("panels", "dots") and first is not state):
                sites = list(form.sites(first))
                wanted = "all" if "all" in sites else next(iter(sites), None)
                found += [taken(first, form, wanted)] if wanted else []
    return found


def staged(start: State, actions: Sequence[Action], faults: Faults) -> list[State]:
    """Return starts whose depthwise convolutions read copies, the other products in the library or in panels.

    What comes in between is estimated to be worse than all in the library.
    """
    found = []
    for stage in (a for a in actions if a.name == "stage"):
        for first in (
            a for a in actions if a.name in ("library", "convolve", "panels") and "dense" in a.sites(start)
        ):
            with faults.of(stage.name):
                state = taken(start, first, "dense")
                found += [taken(state, stage, site) for site in list(stage.sites(state))[:1]]
    return found
