"""Conformance tests for strategies: a test class to subclass."""

from collections.abc import Sequence

from ..propose import Move, Reply
from ..search.archives import Scored
from ..search.replay.serial import serial_search
from ..search.strategies import Means, Strategy
from ._landscape import PlantedLandscape

Call = tuple[str, Move | None, Reply | Scored | None]
"""One call of a strategy: `ask` with its answer, `heard`, or `tell`."""


class _Noted:
    """A strategy that records every call."""

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy
        self.calls: list[Call] = []

    def ask(self) -> Move | None:
        move = self._strategy.ask()
        self.calls.append(("ask", move, None))
        return move

    def heard(self, move: Move, reply: Reply) -> None:
        self.calls.append(("heard", move, reply))
        self._strategy.heard(move, reply)

    def tell(self, found: Scored) -> None:
        self.calls.append(("tell", None, found))
        self._strategy.tell(found)


class StrategyConformance:
    """The contract of a `Strategy` as tests; pytest runs them for every subclass that defines `make`.

        class TestMine(StrategyConformance):
            def make(self, means):
                return MyStrategy(means)

    Covers: numbers, operators and parents of moves, determinism, resumption after every call, asks that lead to
    nothing, several moves in progress, failures, text only, templates that are reported again, starting with and
    without candidates.
    Does not cover: its quality; a planted landscape and `kernelwright simulate` measure that.
    """

    def make(self, means: Means) -> Strategy:
        """Make the strategy under test."""
        raise NotImplementedError("a subclass of StrategyConformance says how to make its strategy")

    def test_is_a_strategy(self) -> None:
        """It has the methods of the Protocol."""
        assert isinstance(self.make(Means()), Strategy)

    def test_moves_are_numbered_and_possible(self) -> None:
        """Numbers count from 0; parents were reported and operators are known."""
        calls = self._calls(width=3)
        moves = [move for call, move, _ in calls if call == "ask" and move is not None]
        assert [m.number for m in moves] == list(range(len(moves))) and moves
        told: set[str] = set()
        for call, move, found in calls:
            if isinstance(found, Scored):
                told.add(found.key)
            if call == "ask" and move is not None:
                assert move.operator in Means().operators
                assert {e.candidate.key for e in (*move.parents, *move.inspirations)} <= told
                assert move.parents or move.operator not in {"improve", "repair", "merge"}

    def test_is_deterministic(self) -> None:
        """The same seed leads to the same calls."""
        assert self._calls(width=1) == self._calls(width=1)

    def test_resumes_after_every_call(self) -> None:
        """A new strategy given the same calls continues with the same moves, wherever it was interrupted."""
        calls = self._calls(width=2)
        for end in range(0, len(calls), 3):
            again = self.make(Means(seed=7))
            answers = self._replay(again, [c for c in calls[:end] if c[0] != "ask" or c[1] is not None])
            assert answers == [c[1] for c in calls[:end] if c[0] == "ask" and c[1] is not None]

    def test_an_ask_for_nothing_changes_nothing(self) -> None:
        """Repeated asks while it waits have the same effect as one."""
        calls = self._calls(width=64)
        moves = [c[1] for c in calls if c[0] == "ask" and c[1] is not None]
        patient = self.make(Means(seed=7))
        waits = [c for c in calls for _ in range(3 if c[0] == "ask" and c[1] is None else 1)]
        assert [m for m in self._replay(patient, waits) if m is not None] == moves

    def test_failures_are_data(self) -> None:
        """If nothing works it continues or ends, and never raises."""
        hopeless = PlantedLandscape(faults=1.0)
        assert hopeless.serial_search(self.make(Means()), evaluations=20, width=2).best == 0.0
        silent = serial_search(self.make(Means()), _no_answer, hopeless.evaluate, evaluations=5)
        assert not silent.found

    def test_starts_from_what_is_there(self) -> None:
        """The search's initial candidates are used or skipped, but never cause an error."""
        landscape = PlantedLandscape(2)
        starts = [landscape.candidate({"style": "plain", "a": a, "b": 1, "c": 1, "d": 1}) for a in range(4)]
        done = serial_search(
            self.make(Means()), landscape.edit, landscape.evaluate, evaluations=12, starts=starts
        )
        assert len(done.found) == 12

    def test_takes_words_and_late_news(self) -> None:
        """Replies may contain text only, and a template may be reported long after its move."""
        landscape = PlantedLandscape(1)
        strategy = self.make(Means())
        move = strategy.ask()
        assert move is not None
        strategy.heard(
            move, Reply(notes={"critique": 3, "hypotheses": "none", "features": None, "rating": "high"})
        )
        done = landscape.serial_search(strategy, evaluations=8)
        for found in done.found:
            strategy.tell(found)
        strategy.ask()

    def _calls(self, width: int) -> list[Call]:
        noted = _Noted(self.make(Means(seed=7)))
        PlantedLandscape(5).serial_search(noted, evaluations=24, width=width)
        return noted.calls

    @staticmethod
    def _replay(strategy: Strategy, calls: Sequence[Call]) -> list[Move | None]:
        answers = []
        for call, move, what in calls:
            if call == "ask":
                answers.append(strategy.ask())
            elif isinstance(what, Reply):
                assert move is not None
                strategy.heard(move, what)
            elif isinstance(what, Scored):
                strategy.tell(what)
        return answers


def _no_answer(move: Move) -> Reply:
    return Reply(failure=f"no answer to move {move.number}")
