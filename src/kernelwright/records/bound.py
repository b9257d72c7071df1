"""Bound: the least time a device needs for a workload (roofline)."""

from typing import Literal

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
    kind: Literal["floor", "ports", "after"] = "floor"
    """`floor`: no kernel can do without. The others count in what is attainable alone. `ports`: time on the vector
    units, in which all work takes turns. `after`: what nothing else overlaps, such as page faults."""

    @property
    def time_us(self) -> float:
        """Microseconds at the peak rate."""
        return self.amount / self.peak * 1e6


class Bound(Record):
    """The least time for one workload, twice: the floor, and what the best code known could attain.

    The floor is the largest of the `floor` terms, resources overlapping perfectly; a time well below it is an alarm.
    What is attainable counts functions and products by what they take here, and what overlaps with nothing: it says
    how much is left to gain, and never decides.

    Covers: unavoidable bytes (inputs read once, outputs written once), operations by unit, functions, page faults.
    Does not cover: latency, conflicts, tails.

    Example:
        >>> read = BoundTerm(name="dram", amount=4e6, unit="bytes", peak=1e10, source="planted")
        >>> erf = BoundTerm(name="erf", amount=1e6, unit="elements", peak=1e9, source="planted", kind="ports")
        >>> bound = Bound(workload="w", device="d", terms=(read, erf))
        >>> bound.time_us, bound.binding, bound.attainable_us, bound.limit
        (400.0, 'dram', 1000.0, 'erf')
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
        """Microseconds of the floor: of the binding term."""
        return max((t.time_us for t in self._of("floor")), default=0.0)

    @property
    def binding(self) -> str:
        """Name of the term of the floor that binds."""
        return max(self._of("floor"), key=lambda t: t.time_us).name if self._of("floor") else "none"

    @property
    def attainable_us(self) -> float:
        """Microseconds that the best code could attain: memory and the vector units at once, and what comes after."""
        ports = sum(t.time_us for t in self._of("ports"))
        return max(self.time_us, ports) + sum(t.time_us for t in self._of("after"))

    @property
    def limit(self) -> str:
        """Name of what limits the attainable: the binding term, or the function or unit with the most work."""
        ports, after = self._of("ports"), self._of("after")
        if sum(t.time_us for t in ports) <= self.time_us:
            ports = ()
        most = max((*ports, *after), key=lambda t: t.time_us, default=None)
        return most.name if most is not None and (ports or most.time_us > self.time_us) else self.binding

    def _of(self, kind: str) -> tuple[BoundTerm, ...]:
        return tuple(t for t in self.terms if t.kind == kind)
