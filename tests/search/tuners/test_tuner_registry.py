"""Tuners are found by name; each keeps the contract."""

import pytest

from kernelwright.errors import NotFoundError
from kernelwright.records import Space
from kernelwright.search.tuners import DEFAULT_TUNER, make_tuner, tuner_names
from kernelwright.testing import TunerConformance

NAMES = ("annealing", "differential", "exhaustive", "genetic", "gp", "local", "random", "tpe")


def test_built_in_tuners_are_registered():
    assert set(NAMES) <= set(tuner_names())
    assert DEFAULT_TUNER in NAMES


def test_unknown_tuner_is_named():
    with pytest.raises(NotFoundError, match=r"'nosuch'.*local"):
        make_tuner("nosuch", Space(), 0)


class Named(TunerConformance):
    name = ""

    def make(self, space, seed):
        return make_tuner(self.name, space, seed)


for _name in NAMES:
    globals()[f"Test{_name.title()}"] = type(f"Test{_name.title()}", (Named,), {"name": _name})


class Repeating:
    """Breaks the contract: never notes what it asked for."""

    def __init__(self, space, seed):
        self.space = space

    def ask(self):
        return next(self.space.configurations(), None)

    def tell(self, configuration, time_us):
        pass

    def warm_start(self, observations):
        pass


class Leaving(Repeating):
    """Breaks the contract: walks the product, constraints or not."""

    def __init__(self, space, seed):
        self.serial_search = Space(parameters=space.parameters).configurations()

    def ask(self):
        return next(self.serial_search, None)


@pytest.mark.parametrize("broken", [Repeating, Leaving])
def test_the_contract_catches_a_broken_tuner(broken):
    suite = type("Suite", (TunerConformance,), {"make": lambda self, space, seed: broken(space, seed)})()
    with pytest.raises(AssertionError):
        suite.test_asks_for_every_allowed_configuration_once()


def test_seeds_differ():
    space = TunerConformance.space
    for name in set(NAMES) - {"exhaustive"}:
        first, second = make_tuner(name, space, 1), make_tuner(name, space, 2)
        assert [first.ask() for _ in range(5)] != [second.ask() for _ in range(5)], name
