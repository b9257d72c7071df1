"""The strategy interface: choose which edit to request next, and learn from its outcome."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ...propose import Move, Reply
from ..archives import Scored

_INSTEAD = {"draft": "improve", "improve": "draft"}
"""Substitutes for an operator that no editor supports; `improve` for all others."""


@dataclass(frozen=True)
class Means:
    """What a strategy may request: operators and models.

    Example:
        >>> Means(operators=("draft", "improve")).operator("merge")
        'improve'
    """

    seed: int = 0
    """Random seed."""
    operators: tuple[str, ...] = ("draft", "improve", "repair", "merge")
    """Operators that the editors support; at least `draft` or `improve`."""
    models: tuple[str, ...] = ()
    """Models to choose from; empty if the editor has its own."""

    def operator(self, wanted: str) -> str:
        """Return the operator, or its substitute if no editor supports it."""
        if wanted in self.operators:
            return wanted
        instead = _INSTEAD.get(wanted, "improve")
        return instead if instead in self.operators else _INSTEAD[instead]


@runtime_checkable
class Strategy(Protocol):
    """Ask/tell over candidates. One file per strategy; `kernelwright.strategies` entry point.

    A strategy is made with `(means, **settings)` and is deterministic given both and the calls it receives: the
    same calls in the same order lead to the same moves, which is how a run is resumed. Moves are numbered
    from 0. Several may be under way at once; for each, `heard` comes once and before any `tell` of it.
    Scores are speedups, higher is better; where nothing is timed they are an order.
    `kernelwright.testing.StrategyConformance` tests this contract.
    """

    def ask(self) -> Move | None:
        """Return the next move, or None, changing nothing, if there is none until more is reported.

        None while nothing is under way ends the search.
        """
        ...

    def heard(self, move: Move, reply: Reply) -> None:
        """Record an editor's reply: its notes, and how many candidates will follow.

        Without proposals, no `tell` follows for the move: it was for notes only, it failed, or all its candidates
        were duplicates.
        """
        ...

    def tell(self, found: Scored) -> None:
        """Record a candidate: the result of a move or, without a move, one the search began with.

        A template is reported several times, once for each configuration tried.
        """
        ...
