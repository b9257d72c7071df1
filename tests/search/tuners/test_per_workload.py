"""Tuners that take turns over the search workloads."""

from kernelwright.records import Parameter, Space
from kernelwright.search.tuners import make_tuner
from kernelwright.search.tuners._per_workload import TOGETHER, Focused

TILES = Space(parameters=(Parameter(name="tile", values=tuple(range(1, 65))),))


def searched(cost_of, count=20):
    """Return the best tile found for each focus."""
    focused = Focused(lambda: make_tuner("local", TILES, 3))
    found = {}
    for _ in range(count):
        configuration = focused.ask()
        costs = cost_of(configuration["tile"])
        focused.tell(configuration, costs)
        for focus, cost in costs.items():
            found.setdefault(focus, []).append((cost, configuration["tile"]))
    return {focus: min(tried)[1] for focus, tried in found.items()}


def apart(tile):
    """Small sizes want small tiles and large sizes large ones; together nothing is to be gained."""
    small, large = 50.0 + abs(tile - 6), 50.0 + abs(tile - 58)
    return {TOGETHER: 200.0, "small": small, "large": large}


def test_each_workload_is_tuned_for_where_they_differ():
    best = searched(apart)
    assert (best["small"], best["large"]) == (6, 58)


def test_nothing_is_asked_for_twice_and_the_space_ends():
    focused, asked = Focused(lambda: make_tuner("local", TILES, 3)), []
    while (configuration := focused.ask()) is not None:
        asked.append(configuration["tile"])
        focused.tell(configuration, apart(configuration["tile"]))
    assert sorted(asked) == list(range(1, 65))


def test_one_workload_is_one_tuner():
    alone, plain = Focused(lambda: make_tuner("local", TILES, 3)), make_tuner("local", TILES, 3)
    for _ in range(12):
        configuration = alone.ask()
        assert configuration == plain.ask()
        cost = float(abs(configuration["tile"] - 20))
        alone.tell(configuration, {TOGETHER: cost, "only": cost})
        plain.tell(configuration, cost)
