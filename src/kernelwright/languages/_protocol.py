"""The language interface: build sources, report facts about the object, load it in a worker."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from ..records import Build, BuildStatus, Candidate, TensorSpec

Kernel = Callable[..., Any]
"""A loaded candidate: called with the task's arguments and then its state, returns the outputs."""


@dataclass(frozen=True)
class Availability:
    """Whether a tool is available."""

    ok: bool
    what: str
    """The tool and its version, or what is missing."""
    remedy: str = ""
    """A command that installs or repairs it."""

    def missing(self) -> Build:
        """Return the result of building without the tool."""
        return Build(status=BuildStatus.UNAVAILABLE, diagnostics=f"{self.what}; {self.remedy}")


@runtime_checkable
class Language(Protocol):
    """Build → static evidence → load. One file per language; `kernelwright.languages` entry point.

    `build` runs in the judge's process and may only start compilers, each with a deadline and its own
    process group. `load` runs in the worker, after the sandbox has closed.
    """

    name: str

    def available(self) -> Availability:
        """Report whether candidates in this language can be built and run on this machine, and how to enable that."""
        ...

    def toolchain(self) -> str:
        """Name compiler, version and flags; part of the cache key of builds and evaluations."""
        ...

    def build(self, candidate: Candidate, *, deadline_s: float = 120.0) -> Build:
        """Build the candidate, or take it from the build cache; failure is a `Build`, not an exception."""
        ...

    def load(self, candidate: Candidate, artefact: Path, outputs: tuple[TensorSpec, ...]) -> Kernel:
        """Load the built candidate in this process and return the callable.

        `outputs` are the results' specs on the first workload; `destination` kernels are given their
        specs call by call (docs/architecture.md): what `load` returns has `bind(outputs) -> Kernel`. For
        style `module` the entry's class is returned; the worker makes the instance.
        """
        ...

    def timeable(self, device: str) -> bool:
        """Whether times on the device (`cpu`, `cuda`) are meaningful.

        False if the language is only emulated there, such as Triton's interpreter on a CPU: what runs
        can be verified but is never timed.
        """
        ...
