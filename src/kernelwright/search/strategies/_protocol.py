"""What a strategy must do: say which edit is worth asking for next, and learn from what came of it."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ...propose import Move, Reply
from ..archives import Scored

_INSTEAD = {"draft": "improve", "improve": "draft"}
"""What stands in for an operator that no editor knows; `improve` for all others."""


@dataclass(frozen=True)
class Means:
    """What a strategy may ask for.

    Example:
        >>> Means(operators=("draft", "improve")).operator("merge")
        'improve'
    """

    seed: int = 0
    """Seed of everything random in it."""
    operators: tuple[str, ...] = ("draft", "improve", "repair", "merge")
    """What the editors know; `draft` or `improve` at least."""
    models: tuple[str, ...] = ()
    """Models to choose from; none where the editor has its own."""

    def operator(self, wanted: str) -> str:
        """Return an operator, or what stands in for it where no editor knows it."""
        if wanted in self.operators:
            return wanted
        instead = _INSTEAD.get(wanted, "improve")
        return instead if instead in self.operators else _INSTEAD[instead]


@runtime_checkable
class Strategy(Protocol):
    """Ask/tell over candidates. One file a strategy; `kernelwright.strategies` entry point.

    A strategy is made with `(means, **settings)` and is deterministic given both and what it is told: the
    same calls in the same order lead to the same moves, which is how a run is resumed. Moves are numbered
    from 0. Several may be under way at once; for each, `heard` comes once and before any `tell` of it.
    Scores are speedups, higher is better. `kernelwright.testing.StrategyConformance` holds a strategy to this.
    """

    def ask(self) -> Move | None:
        """Return the next move, or none and change nothing where there is none before more is told.

        None while nothing is under way ends the search.
        """
        ...

    def heard(self, move: Move, reply: Reply) -> None:
        """Take note of what an editor said: its words, and how many candidates are to come.

        Without proposals nothing will be told of the move: it was for words only, or it failed, or all that it
        brought was there before.
        """
        ...

    def tell(self, found: Scored) -> None:
        """Take note of a candidate: one that a move brought, or, with no move, one the search began with.

        A template is told of several times, once for each configuration that was tried.
        """
        ...
