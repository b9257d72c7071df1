"""What a language must do: build sources, say what the object shows, load it in a worker."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from ..records import Build, BuildStatus, Candidate, TensorSpec

Kernel = Callable[..., Any]
"""A loaded candidate: called with the task's arguments and then its state, returns the outputs."""


@dataclass(frozen=True)
class Availability:
    """Whether a tool is here."""

    ok: bool
    what: str
    """The tool and its version, or what is missing."""
    remedy: str = ""
    """What to do about it: a command."""

    def missing(self) -> Build:
        """Return what building comes to where the tool is not here."""
        return Build(status=BuildStatus.UNAVAILABLE, diagnostics=f"{self.what}; {self.remedy}")


@runtime_checkable
class Language(Protocol):
    """Build → static evidence → load. One file a language; `kernelwright.languages` entry point.

    `build` runs in the judge's process and may only start compilers, each with a deadline and its own
    process group. `load` runs in the worker, after the sandbox has closed.
    """

    name: str

    def available(self) -> Availability:
        """Say whether candidates in this language can be built and run here, and how to get there."""
        ...

    def toolchain(self) -> str:
        """Name compiler, version and flags; part of the cache key of builds and evaluations."""
        ...

    def build(self, candidate: Candidate, *, deadline_s: float = 120.0) -> Build:
        """Build the candidate, or take it from the build cache; failure is a `Build`, not an exception."""
        ...

    def load(self, candidate: Candidate, artefact: Path, outputs: tuple[TensorSpec, ...]) -> Kernel:
        """Load the built candidate in this process and return what to call.

        `outputs` are the results' specs on the first workload; `destination` kernels are given their
        specs call by call (docs/architecture.md): what `load` returns has `bind(outputs) -> Kernel`. For
        style `module` the entry's class is returned; the worker makes the instance.
        """
        ...

    def timeable(self, device: str) -> bool:
        """Tell whether times on the device (`cpu`, `cuda`) mean anything.

        False where the language only emulates it there, such as Triton's interpreter on a CPU: what runs
        can be verified and is then never timed.
        """
        ...
