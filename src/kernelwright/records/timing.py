"""Timing: raw paired blocks, stored so that every figure can be recomputed."""

from ._record import Record


class Variant(Record):
    """One variant of a paired measurement, and evidence of what ran."""

    name: str
    """`candidate`, `eager`, `compile`, `incumbent` ..."""
    content: str
    """Content hash of what was loaded in this variant's worker."""
    symbol: str
    """The entry that was called."""
    worker: int
    """Process id of the worker."""
    load_us: float = 0.0
    """Microseconds to load it into a fresh process that has imported torch; its build is not in it."""
    prepare_us: float = 0.0
    """Median microseconds of its `prepare`, outside the timed calls; 0 if it declares none."""
    first_call_us: float = 0.0
    """Microseconds of the first call, without loading and `prepare`."""

    @property
    def start_us(self) -> float:
        """Microseconds until the first answer: loading, `prepare` and the first call."""
        return self.load_us + self.prepare_us + self.first_call_us


class Conditions(Record):
    """The machine's state, as far as the operating system reports it."""

    load: float = 0.0
    """Runnable processes (1-minute load average)."""
    clock_mhz: float = 0.0
    """Mean clock of the cores, or of a GPU's multiprocessors; 0 if not reported."""
    throttled: bool = False
    """Whether it was throttled for heat or power."""
    stolen: float = 0.0
    """Share of the cores' time that the host gave to other machines (steal time)."""


class Block(Record):
    """One visit to every variant on the same fresh inputs."""

    workload: str
    """Name of the workload."""
    order: tuple[str, ...]
    """Names of the variants in the order they ran."""
    calls: int
    """Calls per timing; each time is that of the whole block divided by them."""
    times_us: dict[str, float]
    """Microseconds a call, by variant, by the judge's clock."""
    fetch_us: dict[str, float] = {}
    """Microseconds to fetch the outputs after the clock stopped, by variant; empty if they were read from the
    stopped process, where no work can be deferred."""
    fetch_cpu_us: dict[str, float] = {}
    """CPU microseconds of the worker's process for that, by variant."""
    cpu_us: dict[str, float] = {}
    """CPU microseconds a call of the worker's process, by variant."""
    handshake_us: float = 0.0
    """Microseconds of a request without calls to a baseline, taken off the times of all variants; 0 on a CPU."""
    device_us: dict[str, float] = {}
    """Microseconds a call by a GPU's own clock, over all its streams, by variant; empty on a CPU."""
    taken_us: dict[str, float] = {}
    """Microseconds for which something else had the GPU from before the inputs were written until the clock started,
    by variant; empty on a CPU, where its worker is stopped, and where inputs could not be kept back."""
    left_us: dict[str, float] = {}
    """Microseconds from the reply until the GPU was free, with those that something else had it then, by variant."""
    load: float = 0.0
    """As `Conditions.load`, in blocks recorded before `conditions` existed."""
    conditions: Conditions = Conditions()
    """Over the time since the previous block."""
    phase: str = "measure"
    """`prescreen`, `screen`, `measure` or `confirm`; `refuter`: the confirm workload that refused an earlier candidate;
    `sizes`: at a size that the task does not have; `warm`: extra figures, never part of a decision."""
    repeated: bool = False
    """Whether it was repeated because its samples were disturbed; such a block is kept but not used."""


class Timing(Record):
    """All blocks of one measurement."""

    variants: tuple[Variant, ...]
    """The variants."""
    blocks: tuple[Block, ...]
    """Raw, in the order measured."""
    cache: str
    """`warm` or `cold`."""
    device: str
    """Fingerprint of the device."""
    clock: str = "judge monotonic"
    """The clock that was used."""
    shared_us: float = 0.0
    """Microseconds for which something had the GPU when the candidate's workers were gone, where the judge looked:
    others use it."""
    others: int = 0
    """Other processes that had the GPU open then, as far as its driver tells."""
    weights: bool = True
    """Whether the task owns weights, which some baselines build in."""
    classes: dict[str, str] = {}
    """How a confirm workload differs from the search workloads: `size`, `layout`, `value regime`."""

    @property
    def conditions(self) -> str:
        """The machine's state over all blocks, in words; empty if there are no blocks.

        Example:
            >>> seen = Conditions(load=0.5, clock_mhz=3700, stolen=0.01)
            >>> block = Block(workload="w", order=(), calls=1, times_us={}, conditions=seen)
            >>> Timing(variants=(), blocks=(block,), cache="cold", device="d").conditions
            'load 0.5 to 0.5, clock 3.70 to 3.70 GHz, never throttled, at most 1.0 % of a block taken by other machines'
        """
        seen = [b.conditions for b in self.blocks]
        if not seen:
            return ""
        loads, clocks = [c.load for c in seen], [c.clock_mhz / 1e3 for c in seen if c.clock_mhz]
        throttled = sum(c.throttled for c in seen)
        parts = [f"load {min(loads):.1f} to {max(loads):.1f}"]
        parts.append(f"clock {min(clocks):.2f} to {max(clocks):.2f} GHz" if clocks else "clock not told")
        parts.append(f"throttled in {throttled} of {len(seen)} blocks" if throttled else "never throttled")
        parts.append(f"at most {max(c.stolen for c in seen):.1%} of a block taken by other machines")
        return ", ".join(parts).replace("%", " %")
