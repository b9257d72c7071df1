"""Strategies are found by name; each keeps the contract."""

import pytest

from kernelwright.errors import InputError, NotFoundError
from kernelwright.search.strategies import (
    DEFAULT_STRATEGY,
    Means,
    NumberedStrategy,
    make_strategy,
    strategy_names,
)
from kernelwright.testing import StrategyConformance

NAMES = (
    "bandit", "beam", "best_of", "evolve", "features", "graph", "greedy", "map_elites", "queue", "random", "rounds",
    "uct", "world_model",
)  # fmt: skip


def test_built_in_strategies_are_registered():
    assert set(NAMES) <= set(strategy_names())
    assert DEFAULT_STRATEGY in NAMES


def test_wrong_names_settings_and_means_are_refused():
    with pytest.raises(NotFoundError, match=r"'nosuch'.*evolve"):
        make_strategy("nosuch", Means())
    with pytest.raises(InputError, match=r"'greedy'.*'depth'"):
        make_strategy("greedy", Means(), {"depth": 3})
    with pytest.raises(InputError, match="draft"):
        make_strategy("greedy", Means(operators=("merge",)))


def test_an_unknown_operator_is_replaced_by_a_known_one():
    for operators in (("improve",), ("draft",)):
        strategy = make_strategy("greedy", Means(operators=operators))
        assert strategy.ask().operator == operators[0]


class Named(StrategyConformance):
    name = ""

    def make(self, means):
        return make_strategy(self.name, means)


for _name in NAMES:
    _suite = f"Test{_name.title().replace('_', '')}"
    globals()[_suite] = type(_suite, (Named,), {"name": _name})


class Forgetful(NumberedStrategy):
    """Breaks the contract: numbers do not count."""

    def _next(self):
        return self.move("draft")

    def _learn(self, found):
        self.asked = 0


class Wild(Forgetful):
    """Breaks the contract: what it does depends on nothing it was told."""

    made = 0

    def _next(self):
        Wild.made += 1
        return self.move("draft", goal=str(Wild.made))

    def _learn(self, found):
        pass


class Restless(Forgetful):
    """Breaks the contract: an ask for nothing counts."""

    asks = 0

    def _next(self):
        self.asks += 1
        return self.move("draft", goal=str(self.asks)) if self.in_flight < 2 else None

    def _learn(self, found):
        pass


@pytest.mark.parametrize(
    ("broken", "test"),
    [
        (Forgetful, "test_moves_are_numbered_and_possible"),
        (Wild, "test_is_deterministic"),
        (Wild, "test_resumes_after_every_call"),
        (Restless, "test_an_ask_for_nothing_changes_nothing"),
    ],
)
def test_the_contract_catches_a_broken_strategy(broken, test):
    suite = type("Suite", (StrategyConformance,), {"make": lambda self, means: broken(means)})()
    with pytest.raises(AssertionError):
        getattr(suite, test)()
