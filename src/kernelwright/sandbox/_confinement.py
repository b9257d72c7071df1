"""What the judge and a zygote say to each other of a worker to come."""

import json
from dataclasses import asdict, dataclass
from typing import Literal

MESSAGE_BYTES = 1 << 16
"""The longest control message."""

Nesting = Literal["direct", "launcher", "none"]
"""How a worker gets a PID namespace: the zygote makes one and returns; a process in between does; not at all."""

Isolation = Literal["bubblewrap", "landlock", "none"]
"""What closes files to a worker."""


@dataclass(frozen=True)
class Confinement:
    """How one worker is to be closed in; decided by the judge."""

    isolation: Isolation
    """Which kind of file isolation."""
    staged: str
    """Folder with `build` (the artefact) and `tmp`, as the zygote sees it."""
    trusted: bool
    """Whether it is a baseline of our own."""
    gpu: bool
    """Whether a GPU driver must work."""
    memory_bytes: int
    """Address space beyond what the zygote has."""
    temporary_bytes: int
    """Size of the private temporary folder."""
    processes: int
    """Processes and threads."""
    uid: int | None
    """User to become; none: stay."""
    writable: tuple[str, ...] = ()
    """Folders that stay writable (a baseline's compile cache)."""

    def to_json(self) -> str:
        """Serialise for the control socket."""
        return json.dumps(asdict(self))
