"""Device: a processor that kernels run on, with its caches."""

from typing import Literal

from ..records import Record, Scalar, content_key


class Cache(Record):
    """One level of cache."""

    level: Literal["l1", "l2", "l3", "l4"]
    """Data or unified; instruction caches are left out."""
    size_bytes: int
    """Bytes of one instance."""
    instances: int = 1
    """Instances that the usable cores reach together."""
    shared_by: int = 1
    """Usable cores behind one instance."""

    @property
    def total_bytes(self) -> int:
        """Bytes of all reachable instances together."""
        return self.size_bytes * self.instances


class Device(Record):
    """A processor that kernels run on: its properties, not its speed (see `peaks`)."""

    kind: Literal["cpu", "cuda", "hip"]
    """Family: `cuda` is NVIDIA, `hip` is AMD."""
    name: str
    """The vendor's model name."""
    cores: int
    """Cores that this process may use: CPUs within affinity and container limits; SMs or CUs of a GPU."""
    memory_bytes: int
    """Main memory of the device, within a container's limit."""
    torch_device: str
    """The argument of `torch.device`: `cpu`, `cuda:0`."""
    caches: tuple[Cache, ...] = ()
    """From the nearest to the farthest; empty if the system does not report them."""
    vector_units: tuple[str, ...] = ()
    """Instruction sets that kernels may use: `avx2`, `fma`, `avx512`, `avx512_bf16`, `amx`, `neon` ..."""
    facts: dict[str, Scalar] = {}
    """Other facts, by name: `logical_cpus`, `capability`, `shared_bytes_per_sm` ... Of these only `driver` and
    `runtime` are part of the fingerprint."""

    @property
    def fingerprint(self) -> str:
        """The name of this kind of machine, for which measured peaks and evaluations are valid."""
        caches = (f"{c.level}:{c.size_bytes}x{c.instances}" for c in self.caches)
        driver = [str(self.facts[k]) for k in ("driver", "runtime") if k in self.facts]
        memory = [str(self.memory_bytes)] if self.kind != "cpu" else []
        parts = (self.name, str(self.cores), *caches, *sorted(self.vector_units), *memory, *driver)
        return f"{self.kind}-{content_key(*parts)}"

    @property
    def target(self) -> str:
        """What compilers call it: `sm_90`, `gfx942`; `cpu`.

        Example:
            >>> Device(kind="cuda", name="g", cores=1, memory_bytes=1, torch_device="cuda:0",
            ...        facts={"capability": "9.0"}).target
            'sm_90'
        """
        if self.kind == "cuda":
            return f"sm_{str(self.facts.get('capability', '')).replace('.', '')}"
        if self.kind == "hip":
            return str(self.facts.get("architecture", "")).split(":")[0]
        return "cpu"

    def cache(self, level: str) -> Cache | None:
        """Return one level of cache, or None if the device has none or does not report it."""
        return next((c for c in self.caches if c.level == level), None)

    @property
    def last_level_bytes(self) -> int:
        """Bytes of the last level of cache; 0 if the system does not report it."""
        return self.caches[-1].total_bytes if self.caches else 0
