"""What is sent to a node, and where it is done there."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ..devices import Device
from ..errors import KernelwrightError
from ..records import Record


@dataclass(frozen=True)
class Job:
    """One unit of work, done in an evaluator."""

    key: str
    """Its name: a key is answered once."""
    function: str
    """`module:function` with the signature `(text, workplace) -> text`."""
    text: str = ""
    """What the function is given."""
    device: str = ""
    """Fingerprint of the device that it must run on; empty for any."""
    files: tuple[str, ...] = ()
    """Folders that it needs there, as `Cluster.send` named them."""


class Place(Record):
    """An evaluator and what it runs on."""

    name: str
    """Unique in the cluster."""
    node: str
    """Ray's name of the node."""
    host: str
    """The machine's host name."""
    device: Device
    """What it times."""
    cores: tuple[int, ...]
    """The processor's cores that it is pinned to."""
    alone: bool
    """Whether no other evaluator has any of them."""
    noise: float
    """Spread of a fixed computation's time on these cores: the interquartile range over the median."""
    behind: bool = False
    """Whether other programs of the machine come first: it has a niceness that Ray gave it and it may not lower."""
    versions: dict[str, str]
    """Versions of what must be the same everywhere."""


@dataclass
class Workplace:
    """What a job's function may use, in the evaluator's process."""

    place: Place
    """Where it is."""
    cache: Path
    """Folder that the evaluators of this machine share."""
    files: Mapping[str, Path] = field(default_factory=dict)
    """The job's folders by name."""
    kept: dict[str, Any] = field(default_factory=dict)
    """Whatever functions keep from one job to the next."""


def versions() -> dict[str, str]:
    """Return the versions that must be the same in all processes of a cluster."""
    return {"kernelwright": version("kernelwright"), "torch": version("torch").partition("+")[0]}


class JobFailed(KernelwrightError):
    """A job has no answer: its function raised, or its evaluator died of it again and again."""
