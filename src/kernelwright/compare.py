"""Recipes head to head: the same tasks, seeds and budget for each, and nothing shared between them."""

from collections.abc import Mapping, Sequence
from itertools import product
from math import exp, log, sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import scipy

from . import flow
from .config import Settings
from .records import Budget, DecisionStatus, Interval, Record, RunStatus, content_key
from .search import OnEvent, Result, check_choices
from .search.recipe import Recipe
from .store import Calls, Store
from .tasks import load_task


class Leg(Record):
    """One recipe on one task with one seed."""

    recipe: str
    """The recipe's name."""
    target: str
    """The task as it was named."""
    seed: int
    """Seed of the search."""
    result: Result
    """What came of it."""
    usd: float
    """What its models cost."""
    store: str
    """Folder of its store, for `show` and `report`."""

    @property
    def speedup(self) -> Interval:
        """The speedup that counts: 1 where nothing was accepted, for then the native op stays."""
        result = self.result
        improved = result.decision is DecisionStatus.IMPROVED
        return result.speedup if improved and result.speedup else Interval(median=1.0, low=1.0, high=1.0)


class Standing(Record):
    """How one recipe did over all its legs."""

    recipe: str
    """The recipe's name."""
    speedup: Interval
    """Geometric mean over the legs, those without an accepted kernel counted as 1, with its 95 % limits by how the legs
    differ; with one leg the limits of its own measurement."""
    improved: int
    """Legs with an accepted kernel."""
    legs: int
    """How many legs there were."""
    evaluations: int
    """Evaluations of all legs."""
    failures: int
    """Candidates of all legs that did not build, verify or run."""
    usd: float
    """What the models of all legs cost."""


class Comparison(Record):
    """What came of all legs."""

    id: str
    """Named by what was compared; the same command goes on where it stopped."""
    folder: str
    """Where the legs' stores are."""
    budget: Budget
    """What each leg might spend."""
    legs: tuple[Leg, ...]
    """Every leg, in the order run."""

    def standings(self) -> tuple[Standing, ...]:
        """Return the recipes, the one with the highest speedup first."""
        by_recipe: dict[str, list[Leg]] = {}
        for leg in self.legs:
            by_recipe.setdefault(leg.recipe, []).append(leg)
        standings = (_standing(name, legs) for name, legs in by_recipe.items())
        return tuple(sorted(standings, key=lambda s: -s.speedup.median))


def check(
    targets: Sequence[str],
    recipes: Sequence[Recipe],
    *,
    usd: float | None,
    arguments: Mapping[str, Any],
    more: flow.Options,
) -> None:
    """See that every leg can begin, before the first one does.

    Raises:
        TaskError: a target is no task.
        NotFoundError: a recipe names a strategy, proposer or editor that is not here.
        InputError: a model's name, price or cap is missing.
        MissingToolError: a model's SDK or key is not here.
    """
    composed = [recipe.arguments() for recipe in recipes]
    for target in targets:
        task = load_task(target, max_elements=arguments["max_elements"])
        for one in composed:
            check_choices(
                task, arguments["baselines"], one["proposers"], arguments["tuner"], one["strategy"], one["editors"],
                more={**one["more"], **more}, usd=usd,
            )  # fmt: skip


def compare(
    targets: Sequence[str],
    recipes: Sequence[Recipe],
    *,
    budget: Budget,
    seeds: int = 1,
    arguments: Mapping[str, Any] | None = None,
    more: flow.Options | None = None,
    store: Path | None = None,
    on_event: OnEvent | None = None,
) -> Comparison:
    """Run every recipe on every task, each leg with the whole budget and a store of its own.

    So no leg finds in a store what another paid for, and none learns from another; where a leg's model is of no use
    nobody stands in for it. Which recipe comes first
    rotates from task to task, so that a drift of the machine falls on all. A comparison that was interrupted goes
    on: finished legs are taken from their stores, the one under way is resumed.

    Args:
        targets: Tasks, as `optimize` takes them.
        recipes: What to compare.
        budget: What each leg may spend.
        seeds: Seeds from 0; each is a leg.
        arguments: What else `optimize` takes, for all legs alike: `device`, `languages`, `max_elements` ...
        more: Options for all legs alike: `models`, `prices` ...
        store: Where the comparison is kept; the user's store by default.
        on_event: Told of everything that happens in any leg.
    """
    common, extra = dict(arguments or {}), dict(more or {})
    asked = [
        *targets,
        *(r.to_json() for r in recipes),
        budget.to_json(),
        str(seeds),
        repr(sorted(extra.items())),
    ]
    name = content_key(*asked, repr(sorted(common.items())))
    folder = (store or Settings.from_environment().store) / "comparisons" / name
    legs = []
    for turn, (target, seed) in enumerate(product(targets, range(seeds))):
        first = turn % len(recipes)
        for recipe in (*recipes[first:], *recipes[:first]):
            place = folder / content_key(target, str(seed), recipe.name)
            by_recipe = recipe.arguments()
            result = _leg(place, on_event) or flow.optimize(
                target, budget=budget, seed=seed, store=place, on_event=on_event,
                **{**common, **by_recipe, "more": {**by_recipe["more"], **extra, "instead": False}},
            )  # fmt: skip
            legs.append(_kept(recipe, target, seed, result, place))
    return Comparison(id=name, folder=str(folder), budget=budget, legs=tuple(legs))


def _leg(place: Path, on_event: OnEvent | None) -> Result | None:
    """Return the result of a leg that was begun before, going on with it where it is not finished."""
    if not place.exists():
        return None
    with Store(place) as store:
        begun = [run for run in store.runs() if run.status is not RunStatus.FAILED]
    return flow.resume(begun[0].id, store=place, on_event=on_event) if begun else None


def _kept(recipe: Recipe, target: str, seed: int, result: Result, place: Path) -> Leg:
    with Calls(place) as calls:
        usd = calls.spent_usd(result.run)
    return Leg(recipe=recipe.name, target=target, seed=seed, result=result, usd=usd, store=str(place))


def _mean(legs: Sequence[Leg]) -> Interval:
    """Return the geometric mean of the legs' speedups with Student's limits of the mean logarithm."""
    if len(legs) == 1:
        return legs[0].speedup
    logs = [log(leg.speedup.median) for leg in legs]
    mean, reach = fmean(logs), float(scipy.stats.t.ppf(0.975, len(logs) - 1)) * stdev(logs) / sqrt(len(logs))
    return Interval(median=exp(mean), low=exp(mean - reach), high=exp(mean + reach))


def _standing(recipe: str, legs: Sequence[Leg]) -> Standing:
    return Standing(
        recipe=recipe,
        speedup=_mean(legs),
        improved=sum(leg.result.decision is DecisionStatus.IMPROVED for leg in legs),
        legs=len(legs),
        evaluations=sum(leg.result.evaluations for leg in legs),
        failures=sum(sum(leg.result.failures.values()) for leg in legs),
        usd=sum(leg.usd for leg in legs),
    )
