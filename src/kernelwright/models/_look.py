"""Region → PlannedRegion: its time inside the model, its bound, and what changing it may save."""

from collections.abc import Iterable

from ..bound import Rates, bound
from ..devices import Device, Peaks
from ..records import Bound
from ..tasks import Problem
from ..tasks.capture import trace
from ._capture import Capture
from ._plan_records import Gain, PlannedRegion
from ._regions import PRODUCTS, Region, operator_name
from ._task import region_sketch
from ._timing import Timed

LEAST_SHARE = 0.005
"""Regions below this share of the time are left out."""
_LOOK_NODES = 8
"""To look at a region takes as long as so many nodes, and its nodes."""
_CLOSED = {"product": (0.0, 0.03, 0.2), "other": (0.2, 0.55, 0.85)}
"""Share of the gap between time and bound that a search closes: low, expected, high. For `other` operators (norms,
softmax, elementwise) it is what `benchmarks.library` and `benchmarks.schedule` found in single ops; products run in a
vendor's library, which is seldom beaten."""
_MOST_PRODUCTS = 2
"""With more products than this in a region, half as much is expected: there is more to get right at once."""
_SET_UP_S, _CALLS = 40.0, 4_000
"""Seconds that a search takes before and besides its timed calls, and how many calls of the region it makes."""


class Look:
    """Looks at the regions of one graph."""

    def __init__(self, capture: Capture, times: Timed, device: Device, peaks: Peaks, rates: Rates) -> None:
        self._capture, self._times = capture, times
        self._device, self._peaks, self._rates = device, peaks, rates

    def worth(self, regions: Iterable[Region]) -> list[Region]:
        """Return the regions that take a share of the time, the most promising first."""
        least = LEAST_SHARE * self._times.whole_us
        kept = [r for r in regions if self._time_us(r) >= least and self._is_part(r)]
        return sorted(
            kept, key=lambda r: -self._hope_us(r) / (_LOOK_NODES + r.units[0].stop - r.units[0].start)
        )

    def at(self, region: Region) -> PlannedRegion:
        """Return what may be expected of a region."""
        problem = Problem(region_sketch(self._capture, region, self._times))
        workload = problem.task.workloads[0]
        graph = trace(problem, workload)
        found = bound(problem, workload, self._device, self._peaks, self._rates, graph=graph)
        uses, time_us = len(region.units), self._time_us(region)
        return PlannedRegion(
            region=region.key, piece=self._capture.name, kind=region.kind, label=region.label, uses=uses,
            time_us=time_us,
            share=min(time_us / self._times.whole_us, 1.0), bound_us=uses * found.attainable_us, limit=found.limit,
            gain=self._gain(region, found), cost_s=_SET_UP_S + _CALLS * time_us / uses / 1e6, chosen=False,
        )  # fmt: skip

    def _time_us(self, region: Region) -> float:
        return sum(self._times.region_us(self._capture, u.start, u.stop) for u in region.units)

    def _products_us(self, region: Region) -> float:
        return sum(
            self._times.nodes_us[n.name]
            for u in region.units
            for n in self._capture.nodes[u.start : u.stop]
            if operator_name(n) in PRODUCTS
        )

    def _hope_us(self, region: Region) -> float:
        """Return what could be gained without looking at the bound; long regions take long to look at."""
        products = self._products_us(region)
        return _CLOSED["other"][1] * (self._time_us(region) - products) + _CLOSED["product"][1] * products

    def _is_part(self, region: Region) -> bool:
        """Tell whether one use is clearly less than the whole graph, unless that is small."""
        unit = region.units[0]
        return len(self._capture.nodes) < 20 or unit.stop - unit.start <= 0.7 * len(self._capture.nodes)

    def _gain(self, region: Region, found: Bound) -> Gain:
        uses = len(region.units)
        products = self._products_us(region)
        rest = self._time_us(region) - products
        least = {"product": 0.0, "other": 0.0}
        for term in found.terms:
            kind = "product" if term.name.startswith("tensor-") else "other"
            least[kind] = max(least[kind], uses * term.time_us)
        gaps = {"product": max(products - least["product"], 0.0), "other": max(rest - least["other"], 0.0)}
        inside = self._capture.nodes[region.units[0].start : region.units[0].stop]
        ease = 0.5 if sum(operator_name(n) in PRODUCTS for n in inside) > _MOST_PRODUCTS else 1.0
        low, expected, high = (
            ease * sum(_CLOSED[kind][i] * gap for kind, gap in gaps.items()) for i in range(3)
        )
        return Gain(low=low, expected=expected, high=high)
