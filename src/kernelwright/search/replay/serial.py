"""Strategy, editor, judge → what the search finds: a whole search in one serial loop.

Does step by step, and exactly repeatably, what a run does with threads, builds and a store: for simulations, for
tests of strategies, and as the place to start reading.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ...propose import Move, Reply
from ...records import Candidate, Evaluation
from ..archives import Scored
from ..strategies import Strategy

_MOST_FRUITLESS = 50
"""Consecutive replies without anything new after which a search ends."""


@dataclass(frozen=True)
class SerialSearch:
    """The moves and results of one search."""

    moves: tuple[Move, ...]
    """Every move in order."""
    found: tuple[Scored, ...]
    """Every candidate that was evaluated, in order."""
    duplicates: int
    """Proposals that had been evaluated before; they cost no evaluation."""
    usd: float
    """What the editor charged."""

    @property
    def curve(self) -> tuple[float, ...]:
        """Best score after each evaluation; 0 until something works."""
        best, curve = 0.0, []
        for one in self.found:
            best = max(best, one.score or 0.0)
            curve.append(best)
        return tuple(curve)

    @property
    def best(self) -> float:
        """Best score; 0 if nothing works."""
        return max((one.score or 0.0 for one in self.found), default=0.0)


def serial_search(
    strategy: Strategy,
    edit: Callable[[Move], Reply],
    evaluate: Callable[[Candidate], Evaluation],
    *,
    evaluations: int,
    width: int = 1,
    starts: Iterable[Candidate] = (),
) -> SerialSearch:
    """Search until the evaluations are used up, the strategy ends, or the editor brings nothing new.

    `width` moves are under way at once, so the strategy's information lags behind. Only a template's first
    configuration is evaluated.
    """
    moves: list[Move] = []
    found: dict[str, Scored] = {}
    duplicates, fruitless, usd = 0, 0, 0.0
    for candidate in starts:
        found[candidate.key] = Scored.of(evaluate(candidate))
        strategy.tell(found[candidate.key])
    waiting: deque[Move] = deque()
    while len(found) < evaluations and fruitless < _MOST_FRUITLESS:
        while len(waiting) < width and (move := strategy.ask()) is not None:
            waiting.append(move)
            moves.append(move)
        if not waiting:
            break
        move = waiting.popleft()
        reply = edit(move)
        usd += reply.usd
        new = {}
        for proposal in reply.proposals:
            one = proposal if isinstance(proposal, Candidate) else proposal.render(proposal.default())
            duplicates += one.key in found or one.key in new
            if one.key not in found:
                new[one.key] = proposal, one
        strategy.heard(move, reply.model_copy(update={"proposals": tuple(p for p, _ in new.values())}))
        fruitless = 0 if new else fruitless + 1
        for _, one in list(new.values())[: evaluations - len(found)]:
            found[one.key] = Scored.of(evaluate(one), move)
            strategy.tell(found[one.key])
    return SerialSearch(tuple(moves), tuple(found.values()), duplicates, usd)
