"""Derive the hidden and confirm workloads from the declared ones.

Covers: other sizes (`_sizes`), other layouts, other value regimes; each tried on the reference before it is kept
(`_feasibility`).
Does not cover: other dtypes, more or fewer arguments.
"""

import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from typing import Any

from ...errors import TaskError
from ...records import Split, Task, TensorSpec, Workload
from .._gradient import with_gradients
from .._observed import observe
from .._problem import Problem
from .._reused import Reused
from ..inputs._draw import dtype_of
from ..inputs.regimes import SPECIAL, kind_of, lone_of, takes_regime
from ._feasibility import MOST_TRIED, Feasibility
from ._shrink import workload_elements
from ._sizes import Axes, Plan, Sizes

__all__ = ["Axes", "Plan", "derive"]

_MOST_SMALL = 1 << 26
"""If the smallest workload has more elements, nothing is run while loading."""
_TELLING = 64
"""Values from which on the regime of special values has one of each."""
_SHAPED = ("mixed", "negatives", "large-scale")
"""Regimes that hidden workloads of other sizes cycle through, and that pinned ones are drawn in once more."""
_FEW = 4
"""Pinned workloads on which a regime of special values is tried before it is left out."""
_CONFIRMED = ("mixed", "negatives", "normal", "sparse", "large-scale")


def derive(task: Task, plan: Plan) -> Task:
    """Return the task with hidden and confirm workloads, and a contract completed by a run.

    The task has its search workloads only.

    Raises:
        TaskError: the reference does not run at its own sizes.
    """
    base = max(task.workloads, key=workload_elements)
    small = Sizes(plan, base, lambda _: True).smallest()
    try:
        return _derived(task, plan, small, 0)
    except TaskError:
        if workload_elements(small) > _MOST_SMALL:
            raise
        sizes = Sizes(plan, base, Feasibility(Reused(Problem(task))).takes)
        running, free = sizes.smallest_running()
        if running == small:
            raise
    return _derived(task, replace(plan, free=free), running, sizes.dropped)


def _derived(task: Task, plan: Plan, small: Workload, dropped: int) -> Task:
    """Derive from the smallest workload; `dropped` smaller ones were refused before."""
    if task.contract.backward:
        task, plan, small = _with_gradients(task, plan, small)
    base = max(task.workloads, key=workload_elements)
    if workload_elements(small) > _MOST_SMALL:
        return _unrun(task, plan, base, small)
    problem = Problem(task)
    problem = problem.under(observe(problem, small))
    task, derivation = problem.task, _Derivation(plan, base, small, Feasibility(Reused(problem)))
    workloads = (*task.workloads, *derivation.hidden(), *derivation.confirm())
    notes = (*task.notes, *_dropped(dropped + derivation.dropped))
    return task.model_copy(update={"workloads": _unique(workloads), "notes": notes})


def _dropped(count: int) -> tuple[str, ...]:
    """Note how many derived workloads the reference refused."""
    if not count:
        return ()
    return (f"dropped: {count} derived workload{'s' * (count > 1)} that the reference does not take",)


def _with_gradients(task: Task, plan: Plan, small: Workload) -> tuple[Task, Plan, Workload]:
    """Turn every workload, present and future, into forward and backward."""
    wanted = Problem(task).differentiable(small)
    workloads = tuple(with_gradients(w, wanted) for w in task.workloads)
    both, pin = replace(plan, make=lambda axes: with_gradients(plan.make(axes), wanted)), plan.pin
    if pin is not None:
        both = replace(both, pin=lambda sizes: with_gradients(pin(sizes), wanted))
    return task.model_copy(update={"workloads": workloads}), both, with_gradients(small, wanted)


def _unrun(task: Task, plan: Plan, base: Workload, small: Workload) -> Task:
    """Derive sizes only, by shape and only cheap ones: a single run would take too long while loading."""
    note = (
        f"not run while loading: the smallest workload found has {workload_elements(small):,} elements; "
        "no other value regimes and layouts are hidden"
    )
    sizes = Sizes(plan, base, Feasibility(Reused(Problem(task))).runs)
    hidden, other = (sorted(sizes.shapes(small, offset), key=workload_elements) for offset in (0, 1))
    workloads = (
        *task.workloads,
        *(_pinned(plan, base, Split.HIDDEN) or [_named(w, Split.HIDDEN) for w in hidden[:2]]),
        *(_pinned(plan, base, Split.CONFIRM) or [_named(w, Split.CONFIRM) for w in (base, *other[:1])]),
    )
    return task.model_copy(update={"notes": (*task.notes, note), "workloads": _unique(workloads)})


def _pinned(plan: Plan, base: Workload, split: Split) -> list[Workload] | None:
    """Return what the task itself declares for the split; None if it is to be derived."""
    sizes = plan.hidden if split is Split.HIDDEN else plan.confirm
    if sizes is None or plan.pin is None:
        return None
    found = []
    for given in sizes:
        made = plan.pin({**base.axes, **given})
        words = [f"{k}={v}" for k, v in given.items() if isinstance(v, str)]
        named = _named(made, split)
        found.append(named.model_copy(update={"name": ",".join([named.name, *words])}))
    return found


class _Derivation:
    def __init__(self, plan: Plan, base: Workload, small: Workload, feasibility: Feasibility) -> None:
        self._plan, self._base, self._small, self._feasibility = plan, base, small, feasibility
        self._sizes = Sizes(plan, base, feasibility.runs)
        self._regimes = feasibility.regimes(small, plan.regimes)

    @property
    def dropped(self) -> int:
        """How many workloads the reference refused."""
        return self._sizes.dropped

    def hidden(self) -> list[Workload]:
        """Return other sizes, and one of them in every regime and layout; or pinned sizes, some in other regimes."""
        if (pinned := _pinned(self._plan, self._base, Split.HIDDEN)) is not None:
            shaped = [r for r in self._regimes if r in _SHAPED]
            return pinned + self._again(pinned, shaped or self._regimes[:1]) + self._specials(pinned)
        shapes = self._sizes.shapes(self._small, 0)
        cycle = ("declared", *[r for r in self._regimes if r in _SHAPED])
        found = [_named(w, Split.HIDDEN, cycle[i % len(cycle)]) for i, w in enumerate(shapes)]
        carrier = self._carrier(shapes)
        found += [_named(carrier, Split.HIDDEN, r) for r in self._regimes]
        return found + [_named(w, Split.HIDDEN) for w in self._layouts(carrier)]

    def _carrier(self, shapes: list[Workload]) -> Workload:
        """Return the size that is tried in every regime and layout: small, but not too small to show them."""
        tried = [w for w in (*shapes[1:], *shapes[:1]) if workload_elements(w) <= MOST_TRIED]
        telling = [w for w in tried if _most_values(w) >= _TELLING]
        return next(iter(telling), max((*tried, self._small), key=_most_values))

    def confirm(self) -> list[Workload]:
        """Return the declared size again and other sizes, in regimes that are timed; or pinned ones, two of them so."""
        timed = [r for r in _CONFIRMED if r in self._regimes]
        if (pinned := _pinned(self._plan, self._base, Split.CONFIRM)) is not None:
            return pinned + self._again(pinned, [r for r in timed if r in (timed[0], timed[-1])])
        order = timed or ["declared"]
        again = [_named(self._base, Split.CONFIRM, order[0])]
        shapes = self._sizes.shapes(self._small, 1)[:5]
        return again + [_named(w, Split.CONFIRM, order[(i + 1) % len(order)]) for i, w in enumerate(shapes)]

    def _specials(self, pinned: list[Workload]) -> list[Workload]:
        """Return pinned workloads with special values, and with one in an argument at a time (`lone_of`)."""
        special = [r for r in self._plan.regimes if kind_of(r) == SPECIAL]
        found = self._again(pinned, special * 2, _FEW)
        free = [s for s in self._base.arguments if isinstance(s, TensorSpec)]
        lone = [one for r in special for one in lone_of(r, free, is_drawn=bool(found))]
        return found + self._again(pinned, lone, _FEW)

    def _again(self, pinned: list[Workload], regimes: list[str], most: int | None = None) -> list[Workload]:
        """Return for each regime a pinned workload in it, spread over those that are large enough to show it.

        Args:
            pinned: The workloads.
            regimes: The regimes; one that is there twice is looked for from two workloads on.
            most: How many workloads are tried for each; all if none.
        """
        tried = [w for w in pinned if workload_elements(w) <= MOST_TRIED and _most_values(w)]
        shown = [w for w in tried if _most_values(w) >= _TELLING] or tried
        found: list[Workload] = []
        for i, regime in enumerate(regimes):
            first = len(shown) * i // len(regimes)
            places = (_named(w, w.split, regime, w.name) for w in (*shown[first:], *shown[:first]))
            found += islice(filter(self._feasibility.behaves, islice(places, most)), 1)
        return found

    def _layouts(self, carrier: Workload) -> list[Workload]:
        """Return the carrier with every float argument of two axes or more in another layout."""
        found: list[Workload] = []
        for layout in ("transposed", "strided"):
            arguments = tuple(_in_layout(s, layout) for s in carrier.arguments)
            if arguments != carrier.arguments:
                other = carrier.model_copy(update={"arguments": arguments})
                if self._feasibility.runs(other):
                    found.append(other)
        return found


def _most_values(workload: Workload) -> int:
    """Count the elements of the largest argument that a regime can change."""
    free = (s for s in workload.arguments if isinstance(s, TensorSpec) and takes_regime(s))
    return max((math.prod(s.shape) for s in free), default=0)


def _named(workload: Workload, split: Split, regime: str = "declared", name: str = "") -> Workload:
    layouts = {s.layout for s in workload.arguments if isinstance(s, TensorSpec)} - {"contiguous"}
    parts = [f"{k}={v}" for k, v in workload.axes.items()] or ["as-declared"]
    parts = [name] if name else parts + [f"layout={layout}" for layout in sorted(layouts)]
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
