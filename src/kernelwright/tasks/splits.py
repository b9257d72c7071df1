"""Derive the hidden and confirm workloads from the declared ones.

Covers: odd, prime, one, smaller and larger sizes, other layouts, other value regimes; each tried on the
reference before it is kept.
Does not cover: other dtypes, more or fewer arguments, sizes far above the declared ones (their cost).
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..errors import TaskError
from ..records import Split, Task, TensorSpec, Workload
from ._draw import dtype_of
from ._facts import observe
from ._gradient import with_gradients
from ._problem import Outcome, Problem
from ._shrink import Shrinker, workload_elements
from .regimes import REGIMES, adds_nothing, takes_regime

Axes = dict[str, int]
_SMALL = 1 << 14
"""Elements of the workloads on which regimes and odd shapes are tried."""
_MOST_TRIED = 1 << 20
"""Elements up to which a derived workload is run for real before it is kept."""
_MOST_DERIVED = 1 << 17
"""Elements of every derived workload but one hidden and one confirm workload, which are of the declared size."""
_MOST_SMALL = 1 << 26
"""Elements of the smallest workload above which nothing is run while loading."""
_MOST_GROWTH = 1.1
_MOST_AXES = 4


@dataclass(frozen=True)
class Plan:
    """What a form says about its sizes."""

    make: Callable[[Axes], Workload]
    """Instantiate a workload; raises `TaskError` where the sizes do not go together."""
    free: tuple[tuple[str, ...], ...]
    """Axes that may change; those in one tuple are equal and move together."""
    regimes: tuple[str, ...] = tuple(REGIMES)
    """Value regimes that may be laid over."""
    hidden: tuple[Axes, ...] | None = None
    """Pinned hidden sizes; none: derive them."""
    confirm: tuple[Axes, ...] | None = None
    """Pinned confirm sizes; none: derive them."""


def derive(task: Task, plan: Plan) -> Task:
    """Return the task with hidden and confirm workloads and with what a run shows in its contract.

    The task comes with its search workloads only.

    Raises:
        TaskError: the reference does not run on the smallest workload.
    """
    return _Derivation(task, plan).run()


class _Derivation:
    def __init__(self, task: Task, plan: Plan) -> None:
        self._task, self._plan = task, plan
        self._problem = Problem(task)
        self._base = max(task.workloads, key=workload_elements)
        self._limit = int(workload_elements(self._base) * _MOST_GROWTH)
        self._drawn: tuple[Axes, dict[str, torch.Tensor]] | None = None

    def run(self) -> Task:
        if self._task.contract.backward:
            self._ask_for_gradients()
        small = self._small()
        if workload_elements(small) > _MOST_SMALL:
            return self._unrun(small)
        contract = observe(self._problem, small)
        self._problem = Problem(self._task.model_copy(update={"contract": contract}))
        regimes = self._regimes(small)
        hidden = self._hidden(small, regimes)
        confirm = self._confirm(small, regimes)
        workloads = _unique((*self._task.workloads, *hidden, *confirm))
        return self._task.model_copy(update={"contract": contract, "workloads": workloads})

    def _unrun(self, small: Workload) -> Task:
        """Derive sizes alone, by shape and only cheap ones: a single run would take too long while loading."""
        note = (
            f"not run while loading: the smallest workload found has {workload_elements(small):,} elements; "
            "no other value regimes and layouts are hidden"
        )
        hidden, other = (sorted(self._shapes(small, offset), key=workload_elements) for offset in (0, 1))
        workloads = (
            *self._task.workloads,
            *(self._pinned(Split.HIDDEN) or [_named(w, Split.HIDDEN) for w in hidden[:2]]),
            *(self._pinned(Split.CONFIRM) or [_named(w, Split.CONFIRM) for w in (self._base, *other[:1])]),
        )
        notes = (*self._task.notes, note)
        return self._task.model_copy(update={"notes": notes, "workloads": _unique(workloads)})

    def _ask_for_gradients(self) -> None:
        """Make forward and backward of every workload that there is or will be."""
        wanted, make = self._problem.differentiable(self._small()), self._plan.make
        self._plan = replace(self._plan, make=lambda axes: with_gradients(make(axes), wanted))
        workloads = tuple(with_gradients(w, wanted) for w in self._task.workloads)
        self._task = self._task.model_copy(update={"workloads": workloads})
        self._problem = Problem(self._task)
        self._base = max(workloads, key=workload_elements)
        self._limit = int(workload_elements(self._base) * _MOST_GROWTH)

    # sizes

    def _small(self) -> Workload:
        """Reduce the base workload on its free axes as far as it goes."""
        free = [name for group in self._plan.free for name in group]
        fixed = {k: v for k, v in self._base.axes.items() if k not in free}

        def measure(values: Axes) -> int:
            if any(len({values[n] for n in group}) > 1 for group in self._plan.free):
                raise TaskError("axes of one group differ")
            return workload_elements(self._plan.make(fixed | values))

        values = {k: self._base.axes[k] for k in free}
        shrinker, limit = Shrinker(measure), workload_elements(self._base)
        while limit > _SMALL:
            try:
                values = shrinker.shrink(values, limit // 2)
            except TaskError:
                break
            limit //= 2
        return self._plan.make(self._base.axes | values)

    def _first(
        self, choices: Iterable[Mapping[str, int]], base: Axes, most: int | None = None
    ) -> Workload | None:
        """Return the first choice that is new, within the size limit and accepted by the reference."""
        limit = self._limit if most is None else min(self._limit, most)
        for choice in choices:
            axes = base | dict(choice)
            if axes == base:
                continue
            try:
                found = self._plan.make(axes)
            except TaskError:
                continue
            if workload_elements(found) <= limit and self._runs(found):
                return found
        return None

    def _shapes(self, smallest: Workload, offset: int) -> list[Workload]:
        """Derive one shape of each kind; the offset picks other numbers for hidden and confirm.

        Only the first of those for hidden is of the declared size: a large workload costs much and takes the
        same path as a smaller one.
        """
        base, small, groups = self._base.axes, smallest.axes, self._plan.free[:_MOST_AXES]
        most = max(_MOST_DERIVED, 4 * workload_elements(smallest))
        by_size = sorted(groups, key=lambda g: -base[g[0]])
        primes = {n: _prime_below(base[g[0]], offset) for g in groups for n in g}
        odd_small = {n: _odd_near(small[g[0]], offset) for g in groups for n in g}
        prime_small = {n: _prime_below(2 * small[g[0]] + 3, offset) for g in groups for n in g}
        found = [
            self._first([primes, *_each(by_size, lambda g: _prime_below(base[g[0]], offset)),
                         *_each(by_size, lambda g: base[g[0]] - 1 - offset),
                         *_each(by_size, lambda g: base[g[0]] * (3 + offset) // (4 + offset))],
                        base, None if offset == 0 else most),
            self._first([odd_small, *_each(by_size, lambda g: _odd_near(small[g[0]], offset))], small, most),
            self._first([prime_small, *_each(by_size, lambda g: small[g[0]] * 3)], small, most),
        ]  # fmt: skip
        for group in groups:
            found.append(self._first([{n: 1 + offset for n in group}], small, most))
            large = base[group[0]] + base[group[0]] // (2 + offset) + 1
            others = {n: 3 for g in groups if g != group for n in g}
            sizes = [dict.fromkeys(group, large), dict.fromkeys(group, large - 1)]
            found.append(self._first([*sizes, *(others | s for s in sizes)], small, most))
        return [w for w in found if w is not None]

    # splits

    def _pinned(self, split: Split) -> list[Workload] | None:
        """Return what the task itself declares for the split; none where it is to be derived."""
        sizes = self._plan.hidden if split is Split.HIDDEN else self._plan.confirm
        if sizes is None:
            return None
        return [_named(self._plan.make(self._base.axes | axes), split) for axes in sizes]

    def _hidden(self, small: Workload, regimes: Sequence[str]) -> list[Workload]:
        if (pinned := self._pinned(Split.HIDDEN)) is not None:
            return pinned
        shapes = self._shapes(small, 0)
        cycle = ("declared", *[r for r in regimes if r in {"mixed", "negatives", "large-scale"}])
        found = [_named(w, Split.HIDDEN, cycle[i % len(cycle)]) for i, w in enumerate(shapes)]
        carrier = (
            min(shapes, key=workload_elements, default=small)
            if not shapes
            else shapes[min(1, len(shapes) - 1)]
        )
        if workload_elements(carrier) > _MOST_TRIED:
            carrier = small
        found += [_named(carrier, Split.HIDDEN, r) for r in regimes]
        return found + [_named(w, Split.HIDDEN) for w in self._layouts(carrier)]

    def _confirm(self, small: Workload, regimes: Sequence[str]) -> list[Workload]:
        if (pinned := self._pinned(Split.CONFIRM)) is not None:
            return pinned
        order = [r for r in ("mixed", "negatives", "normal", "sparse", "large-scale") if r in regimes] or [
            "declared"
        ]
        again = [_named(self._base, Split.CONFIRM, order[0])]
        shapes = self._shapes(small, 1)[:5]
        return again + [_named(w, Split.CONFIRM, order[(i + 1) % len(order)]) for i, w in enumerate(shapes)]

    def _layouts(self, carrier: Workload) -> list[Workload]:
        """Return the carrier with every float argument of two axes or more in another layout."""
        found: list[Workload] = []
        for layout in ("transposed", "strided"):
            arguments = tuple(_in_layout(s, layout) for s in carrier.arguments)
            if arguments != carrier.arguments:
                other = carrier.model_copy(update={"arguments": arguments})
                if self._runs(other):
                    found.append(other)
        return found

    # trials

    def _regimes(self, small: Workload) -> list[str]:
        """Keep the regimes under which the reference behaves: no error, finite, defined alike in float64."""
        free = [s for s in small.arguments if isinstance(s, TensorSpec) and takes_regime(s)]
        if not free:
            return []
        allowed = [r for r in self._plan.regimes if not adds_nothing(r, [s.distribution for s in free])]
        declared = self._outcome(small)
        strict = declared is not None and _all_finite(declared.outputs)
        return [r for r in allowed if self._takes(small.model_copy(update={"regime": r}), strict)]

    def _takes(self, workload: Workload, strict: bool) -> bool:
        outcome = self._outcome(workload)
        if outcome is None:
            return False
        if workload.regime != "special":
            return not strict or _all_finite(outcome.outputs)
        oracle = self._outcome(workload, oracle=True)
        if oracle is None or not any(bool(torch.isfinite(t).any()) for t in outcome.outputs):
            return False
        return all(map(_defined_alike, outcome.outputs, oracle.outputs))

    def _runs(self, workload: Workload) -> bool:
        return workload_elements(workload) > _MOST_TRIED or self._outcome(workload) is not None

    def _outcome(self, workload: Workload, *, oracle: bool = False) -> Outcome | None:
        run = self._problem.run_oracle if oracle else self._problem.run_reference
        try:
            return run(workload, self._problem.inputs(workload, 0), self._state(workload))
        except Exception:  # noqa: BLE001  what the user's reference raises only drops this workload
            return None

    def _state(self, workload: Workload) -> dict[str, torch.Tensor]:
        """Draw a state, once for all regimes and layouts of the same sizes: millions of numbers in large models."""
        if self._drawn is None or self._drawn[0] != workload.axes:
            self._drawn = (workload.axes, self._problem.state(workload, 0))
        return self._drawn[1]


def _each(groups: Sequence[tuple[str, ...]], value: Callable[[tuple[str, ...]], int]) -> list[dict[str, int]]:
    return [{n: max(1, value(g)) for n in g} for g in groups]


def _named(workload: Workload, split: Split, regime: str = "declared") -> Workload:
    layouts = {s.layout for s in workload.arguments if isinstance(s, TensorSpec)} - {"contiguous"}
    parts = [f"{k}={v}" for k, v in workload.axes.items()] or ["as-declared"]
    parts += [f"layout={layout}" for layout in sorted(layouts)]
    parts += [f"regime={regime}"] if regime != "declared" else []
    return workload.model_copy(update={"split": split, "regime": regime, "name": ",".join(parts)})


def _unique(workloads: Iterable[Workload]) -> tuple[Workload, ...]:
    """Drop workloads that repeat another of their split and tell apart those that share a name only."""
    found: dict[str, Workload] = {}
    for workload in workloads:
        name = workload.name
        if any(w == workload for w in found.values()):
            continue
        while name in found:
            name = f"{workload.split}:{name}"
        found[name] = workload.model_copy(update={"name": name})
    return tuple(found.values())


def _in_layout(spec: Any, layout: str) -> Any:
    if not isinstance(spec, TensorSpec) or len(spec.shape) < 2 or spec.distribution.kind == "given":
        return spec
    if not dtype_of(spec.dtype).is_floating_point or spec.layout != "contiguous":
        return spec
    return spec.model_copy(update={"layout": layout})


def _all_finite(outputs: Iterable[torch.Tensor]) -> bool:
    return all(bool(torch.isfinite(t).all()) for t in outputs)


def _defined_alike(native: torch.Tensor, oracle: torch.Tensor) -> bool:
    return torch.equal(torch.isnan(native), torch.isnan(oracle)) and torch.equal(
        torch.isinf(native), torch.isinf(oracle)
    )


def _odd_near(value: int, offset: int) -> int:
    return max(1, value + 1 - value % 2 + 2 * offset)


def _prime_below(value: int, offset: int) -> int:
    """Return the prime next below the value, or the one before that; 2 at the least.

    Example:
        >>> _prime_below(1024, 0), _prime_below(1024, 1)
        (1021, 1019)
    """
    found: list[int] = []
    candidate = value - 1
    while candidate >= 2 and len(found) <= offset:
        if all(candidate % d for d in range(2, math.isqrt(candidate) + 1)):
            found.append(candidate)
        candidate -= 1
    return found[-1] if found else 2
