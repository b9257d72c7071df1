"""Timing: raw paired blocks, kept so that every figure can be computed again."""

from ._record import Record


class Leg(Record):
    """One contestant of a paired measurement and the proof of what ran."""

    name: str
    """`candidate`, `eager`, `compile`, `incumbent` ..."""
    content: str
    """Content hash of what was loaded in this leg's worker."""
    symbol: str
    """The entry that was called."""
    worker: int
    """Process id of the worker."""
    load_us: float = 0.0
    """Microseconds to load it into a fresh process that has imported torch; its build is not in it."""
    prepare_us: float = 0.0
    """Median microseconds of its `prepare`, outside of every timed call; 0 where it declares none."""
    first_call_us: float = 0.0
    """Microseconds of the first call, loading and `prepare` not included."""

    @property
    def start_us(self) -> float:
        """Microseconds until the first answer: loading, `prepare` and the first call."""
        return self.load_us + self.prepare_us + self.first_call_us


class Block(Record):
    """One visit to every leg on the same fresh inputs."""

    workload: str
    """Name of the workload."""
    order: tuple[str, ...]
    """Names of the legs in the order they ran."""
    calls: int
    """Calls behind each time; the time is the whole block's, divided by them."""
    times_us: dict[str, float]
    """Microseconds a call, by leg, by the judge's clock."""
    fetch_us: dict[str, float] = {}
    """Microseconds to hand over the outputs after the clock stopped, by leg; none where they were read from the
    stopped process, because nothing can be put off there."""
    fetch_cpu_us: dict[str, float] = {}
    """CPU microseconds of the worker's process for the same, by leg."""
    cpu_us: dict[str, float] = {}
    """CPU microseconds a call of the worker's process, by leg."""
    load: float = 0.0
    """Runnable processes beyond our own at the block's start (1-minute load average)."""
    phase: str = "measure"
    """`screen`, `measure` or `confirm`."""
    repeated: bool = False
    """Whether it was repeated because its samples were disturbed; kept, marked, not used."""


class Timing(Record):
    """All blocks of one measurement."""

    legs: tuple[Leg, ...]
    """The contestants."""
    blocks: tuple[Block, ...]
    """Raw, in the order measured."""
    cache: str
    """`warm` or `cold`."""
    device: str
    """Fingerprint of the device."""
    clock: str = "judge monotonic"
    """Whose clock."""
