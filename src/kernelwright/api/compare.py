"""Compares recipes on the same tasks, seeds and budget, with nothing shared between them."""

from collections.abc import Mapping, Sequence
from itertools import product
from math import exp, log, sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import scipy

from .. import flow
from ..config import Settings
from ..records import Budget, DecisionStatus, Interval, Record, RunStatus, content_key
from ..search import OnEvent, Result, check_choices
from ..search.recipe import Recipe
from ..store import Calls, Store
from ..tasks import load_task


class Entry(Record):
    """One recipe on one task with one seed."""

    recipe: str
    """The recipe's name."""
    target: str
    """The target as the user gave it."""
    seed: int
    """Seed of the search."""
    result: Result
    """Its result."""
    usd: float
    """Cost of its models."""
    store: str
    """Folder of its store, for `show` and `report`."""

    @property
    def speedup(self) -> Interval:
        """The speedup that counts: 1 if nothing was accepted, because the native op stays."""
        result = self.result
        improved = result.decision is DecisionStatus.IMPROVED
        return result.speedup if improved and result.speedup else Interval(median=1.0, low=1.0, high=1.0)


class Standing(Record):
    """Results of one recipe over all its entries."""

    recipe: str
    """The recipe's name."""
    speedup: Interval
    """Geometric mean over the entries, those without an accepted kernel counted as 1, with 95 % limits from their
    spread; for a single entry, the limits of its own measurement."""
    improved: int
    """Entries with an accepted kernel."""
    entries: int
    """Number of entries."""
    evaluations: int
    """Evaluations of all entries."""
    failures: int
    """Candidates of all entries that did not build, verify or run."""
    usd: float
    """Cost of the models of all entries."""


class Comparison(Record):
    """The results of all entries."""

    id: str
    """Derived from what is compared, so the same command continues where it stopped."""
    folder: str
    """Where the entries' stores are."""
    budget: Budget
    """Budget of each entry."""
    entries: tuple[Entry, ...]
    """Every entry, in the order run."""

    def standings(self) -> tuple[Standing, ...]:
        """Return the recipes, the one with the highest speedup first."""
        by_recipe: dict[str, list[Entry]] = {}
        for entry in self.entries:
            by_recipe.setdefault(entry.recipe, []).append(entry)
        standings = (_standing(name, entries) for name, entries in by_recipe.items())
        return tuple(sorted(standings, key=lambda s: -s.speedup.median))


def check(
    targets: Sequence[str],
    recipes: Sequence[Recipe],
    *,
    usd: float | None,
    arguments: Mapping[str, Any],
    more: flow.Options,
) -> None:
    """Check that every entry can start, before the first one does.

    Raises:
        TaskError: a target is not a task.
        NotFoundError: a recipe names an unknown strategy, proposer or editor.
        InputError: a model's name, price or cap is missing.
        MissingToolError: a model's SDK or key is missing.
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
    """Run every recipe on every task, each entry with the whole budget and a store of its own.

    So no entry reuses results that another paid for, and none learns from another; if an entry's model brings nothing,
    no other proposer replaces it. The order of the recipes rotates from task to task, so that machine drift affects
    all equally. An interrupted comparison continues: finished entries are taken from their stores, the one under way
    is resumed.

    Args:
        targets: Tasks, as `optimize` takes them.
        recipes: What to compare.
        budget: What each entry may spend.
        seeds: Number of seeds, from 0; each is an entry.
        arguments: Other arguments of `optimize`, the same for all entries: `device`, `languages`, `max_elements` ...
        more: Options for all entries: `models`, `prices` ...
        store: Where the comparison is stored; the user's store by default.
        on_event: Receives every event of all entries.
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
    entries = []
    for turn, (target, seed) in enumerate(product(targets, range(seeds))):
        first = turn % len(recipes)
        for recipe in (*recipes[first:], *recipes[:first]):
            place = folder / content_key(target, str(seed), recipe.name)
            by_recipe = recipe.arguments()
            result = _entry(place, on_event) or flow.optimize(
                target, budget=budget, seed=seed, store=place, on_event=on_event,
                **{**common, **by_recipe, "more": {**by_recipe["more"], **extra, "instead": False}},
            )  # fmt: skip
            entries.append(_kept(recipe, target, seed, result, place))
    return Comparison(id=name, folder=str(folder), budget=budget, entries=tuple(entries))


def _entry(place: Path, on_event: OnEvent | None) -> Result | None:
    """Return the result of an entry started earlier, resuming it if it is not finished."""
    if not place.exists():
        return None
    with Store(place) as store:
        begun = [run for run in store.runs() if run.status is not RunStatus.FAILED]
    return flow.resume(begun[0].id, store=place, on_event=on_event) if begun else None


def _kept(recipe: Recipe, target: str, seed: int, result: Result, place: Path) -> Entry:
    with Calls(place) as calls:
        usd = calls.spent_usd(result.run)
    return Entry(recipe=recipe.name, target=target, seed=seed, result=result, usd=usd, store=str(place))


def _mean(entries: Sequence[Entry]) -> Interval:
    """Return the geometric mean of the entries' speedups with Student's t limits of the mean logarithm."""
    if len(entries) == 1:
        return entries[0].speedup
    logs = [log(entry.speedup.median) for entry in entries]
    mean, reach = fmean(logs), float(scipy.stats.t.ppf(0.975, len(logs) - 1)) * stdev(logs) / sqrt(len(logs))
    return Interval(median=exp(mean), low=exp(mean - reach), high=exp(mean + reach))


def _standing(recipe: str, entries: Sequence[Entry]) -> Standing:
    return Standing(
        recipe=recipe,
        speedup=_mean(entries),
        improved=sum(entry.result.decision is DecisionStatus.IMPROVED for entry in entries),
        entries=len(entries),
        evaluations=sum(entry.result.evaluations for entry in entries),
        failures=sum(sum(entry.result.failures.values()) for entry in entries),
        usd=sum(entry.usd for entry in entries),
    )
