"""State and Action: one named step of a schedule, recorded so that it can be replayed and undone."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol, TypeAlias

from ..graph import Graph
from ..lower import Arranged, Decisions, NotLowered, Unlowered, lower
from ..tile import Program

Step: TypeAlias = tuple[str, str]
"""Name of an action, and the site it was applied to."""
_STEP = re.compile(r"([a-z-]+)\(([^()]+)\)")


@dataclass(frozen=True)
class State:
    """A graph and the decisions on it, with the steps that led to it. Never changed in place."""

    origin: Graph
    """The graph as it was read."""
    graph: Graph
    """The graph as it is now."""
    decisions: Decisions = field(default_factory=Decisions)
    steps: tuple[Step, ...] = ()
    arranged: Arranged = field(default_factory=Arranged, compare=False, repr=False)
    """Shared by all states that follow from one."""

    @cached_property
    def program(self) -> Program | None:
        """What the state lowers to; None if it does not."""
        try:
            return lower(self.graph, self.decisions, self.arranged)
        except (NotLowered, Unlowered):
            return None

    @cached_property
    def following(self) -> dict[Step, "State"]:
        """The states reached from here, by step: each is lowered once."""
        return {}

    @property
    def text(self) -> str:
        """The steps as one line, as candidates record them: `single-pass(softmax_sum5); library(conv)`."""
        return "; ".join(f"{name}({site})" for name, site in self.steps)


class Action(Protocol):
    """A schedule action. One file per family; an action is legal at the sites that it yields, and nowhere else."""

    @property
    def name(self) -> str:
        """Its name in a step."""
        ...

    def sites(self, state: State) -> Iterator[str]:
        """Yield where the action may be applied: the names of nodes or operations."""
        ...

    def apply(self, state: State, site: str) -> State:
        """Return the state after the action, its step recorded."""
        ...


class IllegalAction(Exception):
    """The action is not legal at this site."""


def taken(state: State, action: Action, site: str) -> State:
    """Apply an action if it is legal.

    Raises:
        IllegalAction: it is not.
    """
    step = (action.name, site)
    if step not in state.following:
        legal = sorted(action.sites(state))
        if site not in legal:
            raise IllegalAction(f"{action.name} is not legal at {site!r}; expected one of {legal}")
        state.following[step] = replace(action.apply(state, site), steps=(*state.steps, step))
    return state.following[step]


def replayed(graph: Graph, steps: Sequence[Step], actions: Sequence[Action]) -> State:
    """Apply recorded steps to a graph: the same one, or another shape of it.

    Raises:
        IllegalAction: a step is not legal there, or no action has its name.
    """
    known = {action.name: action for action in actions}
    state = State(graph, graph)
    for name, site in steps:
        if name not in known:
            raise IllegalAction(f"no action {name!r}; known are {', '.join(sorted(known))}")
        state = taken(state, known[name], site)
    return state


def steps_of(text: str) -> tuple[Step, ...]:
    """Read the steps that `State.text` wrote, as candidates record them in `parameters["actions"]`.

    Example:
        >>> steps_of("two-passes(var_mean); keep(mul_kernel.exp)")
        (('two-passes', 'var_mean'), ('keep', 'mul_kernel.exp'))

    Raises:
        ValueError: the text is no such line.
    """
    found = [_STEP.fullmatch(part) for part in text.split("; ")] if text else []
    steps = tuple((step[1], step[2]) for step in found if step)
    if len(steps) != len(found):
        raise ValueError(f"{text!r} is no line of steps; expected 'action(site); action(site)'")
    return steps


def transplanted(graph: Graph, steps: Sequence[Step], actions: Sequence[Action]) -> State:
    """Apply those recorded steps that are legal, in order: on another shape, or in a language with other forms.

    Skipped steps are missing from the `steps` of the result. `replayed` takes all of them or raises.
    """
    known = {action.name: action for action in actions}
    state = State(graph, graph)
    for name, site in steps:
        if name in known and site in set(known[name].sites(state)):
            state = taken(state, known[name], site)
    return state


def undone(state: State, step: Step, actions: Sequence[Action]) -> State:
    """Undo one step: replay all others.

    Raises:
        IllegalAction: a later step needs it.
    """
    return replayed(state.origin, [s for s in state.steps if s != step], actions)
