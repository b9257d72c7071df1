"""ModelledTime: what a model makes of an execution's counters; an order for what nothing here can time."""

import math
from collections.abc import Sequence

from pydantic import Field

from ._record import Record


class ModelledTime(Record):
    """A modelled time of one launch, or of all launches of a call. Never a measurement.

    Example:
        >>> made = ModelledTime(
        ...     device="NVIDIA H100 SXM", low_us=1.5, high_us=6.0, term="dram", terms_us={}, occupancy=1.0,
        ...     limited_by="threads", operations_per_byte=0.25, ridge=20.0)
        >>> print(made.interval, round(made.rank_us))
        modelled for NVIDIA H100 SXM, not timed: 1.5 to 6 us 3
    """

    device: str
    """The device that is modelled."""
    low_us: float = Field(gt=0, allow_inf_nan=False)
    """As if everything were hidden behind the longest term."""
    high_us: float = Field(gt=0, allow_inf_nan=False)
    """As if nothing were."""
    term: str
    """What most of it is: `dram`, `l2`, `l1`, `shared`, `issue`, `float32`, `float64`, `integer`, `special`, `tensor`,
    `latency`, `launch` (of blocks) or `start`."""
    terms_us: dict[str, tuple[float, float]]
    """The least and the greatest time of each."""
    occupancy: float
    """Warps that are resident at once, as a share of those that a multiprocessor holds."""
    limited_by: str
    """What keeps more from being resident: `registers`, `shared memory`, `threads`, `blocks` or `the grid`."""
    operations_per_byte: float
    """Of floating-point and tensor operations for each byte that DRAM must move: the place on the roofline."""
    ridge: float
    """Where the device's roofline bends: fewer operations for a byte than these are bound by DRAM."""
    launches: int = 1
    """How many launches it is the sum of; occupancy and place on the roofline are those of the longest."""
    workload: str = ""
    """Name of the workload that was executed; empty for a single launch."""

    @property
    def rank_us(self) -> float:
        """What to sort by: the geometric middle of the interval."""
        return math.sqrt(self.low_us * self.high_us)

    @property
    def interval(self) -> str:
        """Device and interval, in words that cannot be taken for a measurement."""
        return f"modelled for {self.device}, not timed: {self.low_us:.3g} to {self.high_us:.3g} us"

    def __str__(self) -> str:
        several = f" in {self.launches} launches" if self.launches > 1 else ""
        return (
            f"{self.interval}{several}, most by {self.term}; "
            f"occupancy {self.occupancy:.0%}, limited by {self.limited_by}; "
            f"{self.operations_per_byte:.3g} operations a byte of DRAM (the roofline bends at {self.ridge:.3g})"
        )

    @classmethod
    def together(cls, launches: Sequence["ModelledTime"], workload: str) -> "ModelledTime":
        """Add up the launches of one call on a workload, one after the other; there is at least one."""
        names = dict.fromkeys(name for launch in launches for name in launch.terms_us)
        terms = {
            name: (
                sum(launch.terms_us.get(name, (0.0, 0.0))[0] for launch in launches),
                sum(launch.terms_us.get(name, (0.0, 0.0))[1] for launch in launches),
            )
            for name in names
        }
        longest = max(launches, key=lambda launch: launch.rank_us)
        return longest.model_copy(
            update={
                "low_us": sum(launch.low_us for launch in launches),
                "high_us": sum(launch.high_us for launch in launches),
                "term": max(terms, key=lambda name: terms[name][0] * terms[name][1], default=longest.term),
                "terms_us": terms, "launches": sum(launch.launches for launch in launches), "workload": workload,
            }
        )  # fmt: skip
