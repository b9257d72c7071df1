"""Published peaks of devices: one TOML file per model, every number with its source.

A file gives a number only if the vendor's document does; missing numbers are unknown.
"""

import functools
import tomllib
from importlib.resources import files

from pydantic import Field

from ...records import Record
from .._device import Device
from .._peak import Peak


class Number(Record):
    """One published number."""

    value: float = Field(gt=0)
    """In the base unit: bytes, bytes a second, operations a second, or a count."""
    source: str = Field(min_length=10)
    """Title of the document and its table."""


class Spec(Record):
    """The published specification of a model."""

    name: str
    """The model."""
    matches: tuple[str, ...] = Field(min_length=1)
    """Words that the driver's device name must contain, lower case."""
    excludes: tuple[str, ...] = ()
    """Words that it must not contain."""
    capability: str = ""
    """NVIDIA's compute capability: `9.0`."""
    memory_bytes: Number | None = None
    """Memory of the device."""
    bandwidth: Number
    """Bytes a second to and from DRAM, both ways together."""
    l2_bytes: Number | None = None
    """Size of the last shared cache."""
    cores: Number | None = None
    """SMs or CUs."""
    vector: dict[str, Number] = {}
    """Operations a second outside matrix units, by dtype."""
    tensor: dict[str, Number] = {}
    """Operations a second of dense matrix products, by dtype."""

    def peaks(self) -> dict[str, Peak]:
        """Return the numbers as peaks, under the same names as measured ones."""
        rates = {dtype: (n, "flop") for dtype, n in self.vector.items()}
        rates |= {f"tensor-{dtype}": (n, "flop") for dtype, n in self.tensor.items()}
        rates |= {
            f"dram.{pattern}": (self.bandwidth, "bytes") for pattern in ("read", "write", "copy", "add")
        }
        return {
            name: Peak.model_validate({"value": n.value, "unit": unit, "source": n.source})
            for name, (n, unit) in rates.items()
        }


@functools.cache
def specs() -> dict[str, Spec]:
    """Load every specification, by file name; raises `pydantic.ValidationError` if one is malformed."""
    found = sorted((f for f in files(__name__).iterdir() if f.name.endswith(".toml")), key=lambda f: f.name)
    return {f.name.removesuffix(".toml"): Spec.model_validate(tomllib.loads(f.read_text())) for f in found}


def spec_of(device: Device) -> Spec | None:
    """Return the specification of a device's model, or None if there is no file for it."""
    name = device.name.lower()
    fitting = (
        s for s in specs().values()
        if all(w in name for w in s.matches) and not any(w in name for w in s.excludes)
    )  # fmt: skip
    return max(fitting, key=lambda s: len(s.matches), default=None)
