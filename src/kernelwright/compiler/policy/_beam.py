"""Graph → States: beam search over the legal actions, ranked by a policy."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..actions import ACTIONS, MOVES, SEVERAL, Action, State, Step, taken
from ..graph import Contract, Graph
from ..lower import Decisions, lower
from ..tile import NativeCall, Program, products
from ._cost import Cost, Estimate, estimate
from ._faults import LOGGED, Faults
from ._starts import (
    AT_ONCE,
    NETWORK,
    are_walks,
    channels_last,
    folded,
    in_panels,
    in_parts,
    in_tiles,
    operations_of,
    packed_in_calls,
    staged,
    stored,
)

_UNSEEN = ("fuse", "double", "reorder", "cut", "vectorise", "unroll")
"""Actions without gain by the estimate: undoing others, or about lanes; for other policies and editors."""
_FOR_TIME = frozenset({*(move.name for move in MOVES), "turn", "single"})
"""Actions that must save time to be kept."""
_LEAST_GAIN = 0.005
"""Share of the estimated time that it must save if it wastes as many bytes as before; of the bytes from memory, where
the time is that of operations."""
_VERSIONS = ("specialise", "whole")
"""Actions that compile a kernel twice and change no loop: tried on a few leaves, after all other schedules."""
Legal = tuple[Action, str]
"""An action and a site where it is legal."""
_FAR = 1 / 2
"""Share of the library's estimated time below which a generated product is tried first: ReLU scores in cache are
estimated at 0.44 of it, and measured at 0.44 of it in the same run."""
_START = "the fused start"
_READY = ("packed", "online")
"""Forms of products that run like the library's."""


class Policy(Protocol):
    """Scores legal actions in a state: the extension point for learned policies."""

    def score(self, actions: Sequence[Legal], state: State) -> Sequence[float]:
        """Return one score per action, higher is better; the same for the same state."""
        ...


class CostPolicy:
    """Scores an action by the estimated cost of the resulting program; one that fails gets the lowest score."""

    def __init__(self, faults: Faults = LOGGED, guess: Estimate = estimate) -> None:
        self._faults, self._guess = faults, guess

    def score(self, actions: Sequence[Legal], state: State) -> Sequence[float]:
        """Return minus the estimated time; minus infinity if it does not lower or saves nothing."""
        now = None
        with self._faults.of(_START):
            now = _cost(state, self._guess)
        return [self._score(action, self._reached(state, action, site), now) for action, site in actions]

    def _reached(self, state: State, action: Action, site: str) -> Cost | None:
        with self._faults.of(action.name):
            return _cost(taken(state, action, site), self._guess)
        return None

    @staticmethod
    def _score(action: Action, new: Cost | None, now: Cost | None) -> float:
        if new is None:
            return float("-inf")
        if now is None or action.name not in _FOR_TIME or new.time_us <= now.time_us * (1 - _LEAST_GAIN):
            return -new.time_us
        fewer = new.memory_bytes <= now.memory_bytes * (1 - _LEAST_GAIN) and new.time_us <= now.time_us
        return -new.time_us if fewer or new.lost_bytes < now.lost_bytes else float("-inf")


@dataclass(frozen=True)
class Leaf:
    """A state worth measuring, with its estimated cost."""

    state: State
    cost: Cost


def legal(state: State, actions: Sequence[Action] = ACTIONS, faults: Faults = LOGGED) -> list[Legal]:
    """Enumerate every legal action in a state."""
    found = list[Legal]()
    for action in actions:
        with faults.of(action.name):
            found += [(action, site) for site in action.sites(state)]
    return found


def leaves(
    graph: Graph, actions: Sequence[Action] = ACTIONS, faults: Faults = LOGGED, guess: Estimate = estimate
) -> Iterator[Leaf]:
    """Yield the leaves of a beam, best estimate first, after those of `_ahead`, which need no search.

    The schedule with every product in the library and the rest fused comes before the best estimate, unless that is
    far better: generated products are estimated by orders of magnitude, but packed ones run like the library's.
    """
    start, shown = beginning(graph, actions, faults), list[tuple[Step, ...]]()
    for state in _ahead(graph, start, actions, faults):
        with faults.of(_START):
            if state.steps not in shown and state.program:
                shown.append(state.steps)
                yield Leaf(state, guess(state.program))
    found = beam(graph, actions=actions, start=start, faults=faults, guess=guess)
    network = operations_of(graph) >= NETWORK and shown
    found = found if network else _library_first(found, start, actions, faults, guess)
    yield from (leaf for leaf in _varied(found) if leaf.state.steps not in shown)


def _ahead(graph: Graph, start: State, actions: Sequence[Action], faults: Faults) -> Iterator[State]:
    """Yield what is worth measuring whatever a search finds, where a search takes a while: the first kernel can be
    built and measured before the others are derived.

    Of a whole network that is its start. All weights in panels are seldom beaten; before them come, where there are
    several convolutions, images that are stored with their channels side by side. Where no weights last, as in
    training, products pack in each call. Of less than a network, with several products, it is all weights in panels,
    each product alone where rows are few: two at once, in one walk through the weights of both, took 2 to 10 % longer
    at one row.
    """
    plain, walks = State(graph, graph), are_walks(graph)
    if operations_of(graph) >= NETWORK:
        yield start
        if not start.program:
            return
        yield from (s for s in channels_last(plain, actions, faults) if s.steps)
    if operations_of(graph) >= NETWORK or sum(isinstance(n, Contract) for n in graph.nodes) > 1:
        apart = [action for action in actions if action.name != "dual" or not walks]
        yield from (s for s in (in_panels(plain, apart, faults),) if s.steps)
    if operations_of(graph) >= NETWORK:
        yield from (s for s in packed_in_calls(plain, actions, faults) if s.steps)


def beginning(graph: Graph, actions: Sequence[Action] = ACTIONS, faults: Faults = LOGGED) -> State:
    """Return where the beam starts: everything fused; for a whole network after the actions in `AT_ONCE`."""
    states = [State(graph, graph)]
    for name in AT_ONCE if operations_of(graph) >= NETWORK else ():
        for action in (a for a in actions if a.name == name):
            with faults.of(name):
                if "all" in action.sites(states[-1]):
                    states.append(taken(states[-1], action, "all"))
    for state in reversed(states[1:]):
        with faults.of(state.steps[-1][0]):
            if state.program is not None:
                return state
    return states[0]


def beam(
    graph: Graph, policy: Policy | None = None, *, width: int = 2, depth: int = 3, most: int = 8,
    actions: Sequence[Action] = ACTIONS, start: State | None = None, faults: Faults = LOGGED,
    guess: Estimate = estimate,
) -> list[Leaf]:  # fmt: skip
    """Search for schedules worth measuring: the fused start, and what the best actions lead to.

    A whole network starts with every product in the library and its residual sums in memory; few actions are
    tried on it, and on no single loop.
    Args:
        graph: What to schedule.
        policy: Orders the actions; by estimated cost by default.
        width: States kept at each depth.
        depth: Most actions in a schedule.
        most: Most legal actions considered per state; whole networks have hundreds.
        actions: Allowed actions, in the order of trying.
        start: The start, if already known (`beginning`).
        faults: Receives exceptions of actions; logged by default. They only cost the action's step.
        guess: Estimates costs.

    Returns:
        Leaves, best estimate first, no two with the same steps; empty if nothing lowers.
    """
    judge = policy or CostPolicy(faults, guess)
    start = start or beginning(graph, actions, faults)
    if operations_of(graph) >= NETWORK:
        width, depth, most = min(width, 2), min(depth, 1), min(most, 3)
        actions = [action for action in actions if action not in MOVES]
    found: dict[str, Leaf] = {}
    scaled, copied = folded(start, actions, faults), staged(start, actions, faults)
    packed = [in_panels(state, actions, faults) for state in (State(graph, graph), *scaled)]
    small = in_tiles((scaled or [start])[-1], actions, faults)
    if operations_of(graph) < NETWORK:
        small += channels_last(State(graph, graph), actions, faults)
    apart = [
        *copied,
        *(state for state in (*packed, *small, *in_parts(start, actions, faults)) if state.steps),
        *stored(packed[-1], actions, faults),
    ]
    states = [start, *scaled, *apart]
    for state in (start, *apart):
        with faults.of(_START):
            _add(found, state, guess)
    for _ in range(depth):
        ranked: list[tuple[float, str, State]] = []
        for state in states:
            seen = [(a, s) for a, s in legal(state, actions, faults) if a.name not in _UNSEEN]
            choices = _mixed(seen)[:most]
            for (action, site), score in zip(choices, judge.score(choices, state), strict=True):
                with faults.of(action.name):
                    if score > float("-inf"):
                        new = taken(state, action, site)
                        ranked.append((-score, ";".join(sorted(map(str, new.steps))), new))
        ranked.sort(key=lambda r: r[:2])
        unique = {key: state for _, key, state in reversed(ranked)}
        states = [s for _, key, s in ranked if unique.get(key) is s][:width]
        for state in states:
            with faults.of(state.steps[-1][0]):
                _add(found, state, guess)
        if not states:
            break
    return sorted(found.values(), key=lambda leaf: (leaf.cost.time_us, len(leaf.state.steps)))


def alone(graph: Graph) -> Cost | None:
    """Estimate one kernel per operation; None for a whole network, where lowering is slow."""
    if operations_of(graph) >= NETWORK:
        return None
    return estimate(lower(graph, Decisions(apart=True, loops=True)))


def explained(leaf: Leaf, alone: Cost | None) -> str:
    """Describe in one line what a schedule does beyond one kernel per operation."""
    now, program = leaf.cost, leaf.state.program
    if alone is None:
        return f"{leaf.state.text}; {operations_of(leaf.state.origin)} operations in {now.kernels} kernels"
    ahead = len(program.ahead) if program else 0
    steps = f"{leaf.state.text}; " if leaf.state.steps else ""
    return (
        f"{steps}{alone.kernels} operations in {now.kernels} kernel{'s' if now.kernels != 1 else ''}: "
        f"passes {alone.passes} → {now.passes}, "
        f"bytes {alone.memory_bytes / 1e6:.3g} → {now.memory_bytes / 1e6:.3g} MB"
        + (f"; {ahead} more, whenever the weights change" if ahead else "")
    )


def _library_first(
    found: list[Leaf], start: State, actions: Sequence[Action], faults: Faults, guess: Estimate
) -> list[Leaf]:
    """Put the best leaf without generated products before others, unless they are estimated to be far better."""
    program = found[0].state.program if found else None
    own = any(p.tiling.form not in _READY for p in products(program.steps)) if program else False
    if not own:
        return found
    plain = [leaf for leaf in found if _is_plain(leaf)]
    for action in (a for a in actions if a.name == "library" and not plain):
        with faults.of(action.name):
            state = next((taken(start, action, s) for s in action.sites(start) if s == "all"), start)
            if state.program is not None:
                plain = [leaf for leaf in [Leaf(state, guess(state.program))] if _is_plain(leaf)]
    if not plain or found[0].cost.time_us < _FAR * plain[0].cost.time_us:
        return found
    return [plain[0], *(leaf for leaf in found if leaf is not plain[0])]


def _varied(found: Sequence[Leaf]) -> list[Leaf]:
    """Put leaves that differ from an earlier one only in versions of a kernel after all others.

    The best whose products have other forms comes second: how fast a form is, is estimated by orders of magnitude.
    """
    first: dict[frozenset[Step], Leaf] = {}
    for leaf in found:
        first.setdefault(frozenset(step for step in leaf.state.steps if step[0] not in _VERSIONS), leaf)
    varied = list(first.values())
    other = [leaf for leaf in varied if _forms(leaf) != _forms(varied[0])][:1]
    order = {id(leaf): leaf for leaf in (*varied[:1], *other, *varied, *found)}
    return list(order.values())


def _forms(leaf: Leaf) -> tuple[frozenset[str], dict[str, str]]:
    """Return which operations the library does, and the form of each product that is generated."""
    decisions = leaf.state.decisions
    return frozenset(decisions.native), {name: t.form for name, t in decisions.tilings.items()}


def _is_plain(leaf: Leaf) -> bool:
    """Whether a leaf leaves its products to the library and also has kernels."""
    program = leaf.state.program
    if program is None or not program.natives or any(products(program.steps)):
        return False
    return len(program.natives) < len(program.steps)


def _mixed(actions: Sequence[Legal]) -> list[Legal]:
    """Interleave choices: every action's first site comes before any action's second; likewise the `SEVERAL`."""
    seen: dict[str, int] = {}
    rank = {}
    for action, site in actions:
        rank[action.name, site] = -1 if site in SEVERAL else seen.setdefault(action.name, 0)
        seen[action.name] = seen.get(action.name, 0) + 1
    return sorted(actions, key=lambda a: rank[a[0].name, a[1]])


def _add(found: dict[str, Leaf], state: State, guess: Estimate) -> None:
    """Add a state, unless another runs the same: an action on what nothing computes changes nothing."""
    program, meaning = state.program, _meaning(state)
    if program is None or meaning in found:
        return
    runs = [leaf.state.program for leaf in found.values()]
    if not any(other is not None and _runs(other) == _runs(program) for other in runs):
        found[meaning] = Leaf(state, guess(program))


def _runs(program: Program) -> list[object]:
    """Return what tells programs apart: of a call to torch, what it reads and writes and how it is fed."""
    return [
        (s.op, s.reads, s.writes, s.fed, s.panel_bytes) if isinstance(s, NativeCall) else s
        for s in program.steps
    ]


def _meaning(state: State) -> str:
    """Return a signature of a state, independent of the steps that led to it."""
    d = state.decisions
    tilings = sorted((name, str(tiling)) for name, tiling in d.tilings.items())
    stored = f"{sorted(d.store)} {sorted(d.before)} {sorted(d.ahead)}"
    sums = sorted(d.accumulate.items())
    return f"{sorted(d.native)} {stored} {tilings} {sums} {d.moves}\n{state.graph}"


def _cost(state: State, guess: Estimate) -> Cost | None:
    return None if state.program is None else guess(state.program)
