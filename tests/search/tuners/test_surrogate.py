"""The surrogate's algebra: appended rows, and the gradient that its fit follows."""

import numpy as np
from scipy.optimize import approx_fprime

from kernelwright.search.tuners._surrogate import Surrogate, _Pairs

PLACES = np.stack(np.meshgrid(np.linspace(0, 1, 6), np.linspace(0, 1, 4), (0, 1)), axis=-1).reshape(-1, 3)
ROWS = np.random.default_rng(0).permutation(len(PLACES))[:20]
TARGETS = np.sin(4 * PLACES[ROWS, 0]) - PLACES[ROWS, 1] * PLACES[ROWS, 2]


def fitted() -> Surrogate:
    surrogate = Surrogate(PLACES)
    surrogate.fit(ROWS[:12], TARGETS[:12])
    return surrogate


def test_rows_appended_one_by_one_are_solved_as_all_at_once() -> None:
    once, stepwise = fitted(), fitted()
    for told in range(12, 21):
        stepwise.fit(ROWS[:told], TARGETS[:told], tune=False)
        mean, deviation = stepwise.predict()
    once.fit(ROWS, TARGETS, tune=False)
    assert np.allclose(once.predict(), (mean, deviation), atol=1e-4)
    assert np.allclose(mean[ROWS], TARGETS, atol=0.1) and deviation[ROWS].max() < deviation.max() / 2


def test_other_rows_or_targets_are_not_taken_for_those_solved() -> None:
    reused, fresh = fitted(), fitted()
    reused.predict()
    for surrogate in (reused, fresh):
        surrogate.fit(ROWS[6:], -TARGETS[6:], tune=False)
    assert np.allclose(reused.predict(), fresh.predict(), atol=1e-4)


def test_the_gradient_is_that_of_the_loss() -> None:
    surrogate = fitted()
    pairs = _Pairs.of(surrogate._levels, ROWS[:12])
    place = surrogate._prior + 0.3
    found = surrogate._loss(place, pairs)[1]
    assert np.allclose(found, approx_fprime(place, lambda p: surrogate._loss(p, pairs)[0], 1e-6), atol=1e-3)


def test_a_few_rows_are_predicted_as_among_all_and_those_solved_go_on_later() -> None:
    few, all_rows = fitted(), fitted()
    some = np.array([3, 40, 7])
    for told in range(12, 21):
        for surrogate in (few, all_rows):
            surrogate.fit(ROWS[:told], TARGETS[:told], tune=False)
        mean, deviation = all_rows.predict()
        assert np.allclose(few.predict(some), (mean[some], deviation[some]), atol=1e-4)
    assert few._known == 0 < all_rows._known, "few rows are solved by themselves"
    many = np.arange(len(PLACES))[::-1]
    assert np.allclose(few.predict(many), (mean[many], deviation[many]), atol=1e-4)
