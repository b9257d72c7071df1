"""Bound: the least time a device needs for a workload (roofline)."""

from ._record import Record


class BoundTerm(Record):
    """One resource and how long it is busy at its peak rate."""

    name: str
    """`dram`, `l3`, `l2`, `float32`, `tensor-bfloat16`, `launch` ..."""
    amount: float
    """Bytes, operations or launches."""
    unit: str
    """`bytes`, `flop`, `launches`."""
    peak: float
    """The device's peak rate, in units a second."""
    source: str
    """Where the peak comes from: a document, or the measurement's command."""

    @property
    def time_us(self) -> float:
        """Microseconds at the peak rate."""
        return self.amount / self.peak * 1e6


class Bound(Record):
    """The least time for one workload; the largest term binds, resources overlapping perfectly.

    Covers: unavoidable bytes (inputs read once, outputs written once), operations by unit.
    Does not cover: latency, conflicts, tails; the true least time is never below the bound.
    """

    workload: str
    """Name of the workload."""
    device: str
    """Fingerprint of the device."""
    terms: tuple[BoundTerm, ...]
    """Every resource counted."""
    slack: float = 0.1
    """Tolerance below the bound before a time counts as faster than physics, as a share of it."""

    @property
    def time_us(self) -> float:
        """Microseconds of the binding term."""
        return max((t.time_us for t in self.terms), default=0.0)

    @property
    def binding(self) -> str:
        """Name of the term that binds."""
        return max(self.terms, key=lambda t: t.time_us).name if self.terms else "none"
