"""Region → PlannedRegion: its time inside the model, its bound, and what changing it may save.

Nothing is saved on what torch computes within a kernel too: operators without a rule, recurrent layers, complex
numbers.
"""

from collections.abc import Iterable, Sequence

from ..bound import Rates, bound
from ..devices import Device, Peak, Peaks
from ..tasks import Problem
from ..tasks.capture import trace
from ._native import kept_us
from ._plan_records import Gain, PlannedRegion
from ._reach import reached_us
from ._regions import Region
from ._task import region_sketch
from ._timing import Timed
from .pieces import Capture

LEAST_SHARE = 0.005
"""Regions below this share of the time are left out."""
_LOOK_NODES = 8
"""To look at a region takes as long as so many nodes, and its nodes."""
CLOSED = (0.43, 0.66, 0.88)
"""Share of the gap between a region's time and its bound that a search closes, with products or without: tenth, mean
and ninetieth of 24 regions of six models (`python -m benchmarks.zoo.budget`)."""
_SET_UP_S, _CALLS = 40.0, 4_000
"""Seconds that a search takes before and besides its timed calls, and how many calls of the region it makes."""


def gain_of(time_us: float, bound_us: float, closed: Sequence[float] = CLOSED) -> Gain:
    """Return what a region may save of its time.

    Example:
        >>> gain_of(110.0, 10.0)
        Gain(low=43.0, expected=66.0, high=88.0)
    """
    low, expected, high = (share * max(time_us - bound_us, 0.0) for share in closed)
    return Gain(low=low, expected=expected, high=high)


class Look:
    """Looks at the regions of one graph."""

    def __init__(
        self,
        capture: Capture,
        times: Timed,
        device: Device,
        peaks: Peaks,
        rates: Rates,
        products: Peak | None,
    ) -> None:
        """Look at what is in a graph.

        Args:
            capture: The graph.
            times: Its times.
            device: What it runs on, its peaks and its rates.
            peaks: See there.
            rates: See there.
            products: How fast products run in programs there, where it is known.
        """
        self._capture, self._times = capture, times
        self._device, self._peaks, self._rates, self._products = device, peaks, rates, products

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
        bound_us, reach_us = uses * found.attainable_us, uses * reached_us(found, self._products)
        gain = gain_of(time_us, reach_us + self._kept_us(region))
        return PlannedRegion(
            region=region.key, piece=self._capture.name, kind=region.kind, label=region.label, uses=uses,
            time_us=time_us,
            share=min(time_us / self._times.whole_us, 1.0), bound_us=bound_us, reach_us=reach_us, limit=found.limit,
            gain=gain, cost_s=_SET_UP_S + _CALLS * time_us / uses / 1e6, chosen=False,
        )  # fmt: skip

    def also(self, row: PlannedRegion, region: Region) -> PlannedRegion:
        """Return what may be expected of a region of another piece and of the equal one here, together."""
        added, time_us = len(region.units), self._time_us(region)
        bounds_us = row.bound_us, row.reach_us or row.bound_us
        bound_us, reach_us = (one * (row.uses + added) / row.uses for one in bounds_us)
        more = gain_of(time_us, reach_us - bounds_us[1] + self._kept_us(region))
        low, expected, high = (getattr(row.gain, n) + getattr(more, n) for n in ("low", "expected", "high"))
        time_us += row.time_us
        return row.model_copy(update={
            "uses": row.uses + added, "time_us": time_us, "share": min(time_us / self._times.whole_us, 1.0),
            "bound_us": bound_us, "reach_us": reach_us, "gain": Gain(low=low, expected=expected, high=high),
        })  # fmt: skip

    def _time_us(self, region: Region) -> float:
        return sum(self._times.region_us(self._capture, u.start, u.stop) for u in region.units)

    def _kept_us(self, region: Region) -> float:
        """Return the microseconds of what torch computes within a kernel for it too."""
        nodes = self._capture.nodes
        return sum(kept_us(nodes[u.start : u.stop], self._times) for u in region.units)

    def _hope_us(self, region: Region) -> float:
        """Return what could be gained at a bound of torch's part alone; long regions take long to look at."""
        return CLOSED[1] * (self._time_us(region) - self._kept_us(region))

    def _is_part(self, region: Region) -> bool:
        """Tell whether one use is clearly less than the whole graph, unless that is small."""
        unit = region.units[0]
        return len(self._capture.nodes) < 20 or unit.stop - unit.start <= 0.7 * len(self._capture.nodes)
