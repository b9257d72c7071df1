"""Languages that are Python packages whose own Python makes the kernels: what they share.

Covers: whether the package is here, the syntax of a candidate's files, loading on a GPU.
Does not cover: facts of a target. Such a kernel exists only when the candidate's Python has run, and a build runs none.
"""

import importlib
import importlib.metadata
import os
import sys
from pathlib import Path
from typing import Any, ClassVar

import torch
from packaging.requirements import Requirement

from ..config import Settings
from ..errors import MissingToolError
from ..records import Build, BuildStatus, Candidate, TensorSpec
from ._cache import cached_build
from ._protocol import Availability, Kernel
from .torch import check_python, load_symbol, returning


def imported(name: str) -> Any:
    """Import a package; what it leaves in the environment and as exception hook is undone, or the kernel is blamed."""
    before, hook = dict(os.environ), sys.excepthook
    module = importlib.import_module(name)
    for changed in {variable for variable, _ in before.items() ^ os.environ.items()}:
        if changed in before:
            os.environ[changed] = before[changed]
        else:
            del os.environ[changed]
    sys.excepthook = hook
    return module


def unmet_requirement(distribution: str) -> str:
    """Say which package another one requires that is not here, or not in a version that it takes; empty if none.

    Example:
        >>> unmet_requirement("pydantic")
        ''
    """
    for text in importlib.metadata.requires(distribution) or ():
        required = Requirement(text)
        if required.marker is not None and not required.marker.evaluate({"extra": ""}):
            continue
        try:
            found = importlib.metadata.version(required.name)
        except importlib.metadata.PackageNotFoundError:
            return f"{required.name}, which is not here"
        if not required.specifier.contains(found, prereleases=True):
            return f"{required.name} {required.specifier}, and {found} is here"
    return ""


class PackageLanguage:
    """A language of a Python package."""

    name: ClassVar[str]
    title: ClassVar[str]
    """How the language is called in sentences."""
    distribution: ClassVar[str]
    """The package, as the registry knows it."""
    targets = ("sm_90",)
    """What kernels are executed as, where there is no GPU."""
    compiles_when_called = True
    """Kernels are compiled when they are called."""

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings or Settings.from_environment()

    def version(self) -> str:
        """Return the package's version; empty where it is not installed."""
        try:
            return importlib.metadata.version(self.distribution)
        except importlib.metadata.PackageNotFoundError:
            return ""

    def available(self) -> Availability:
        """Report the package's version and whether its kernels run on a GPU."""
        if not self.version():
            return Availability(False, f"no {self.distribution}", f"pip install 'kernelwright[{self.name}]'")
        if unmet := unmet_requirement(self.distribution):
            said = f"{self.distribution} {self.version()} takes {unmet}"
            return Availability(
                False, said, f"pip install 'kernelwright[{self.name}]' in an environment of its own"
            )
        where = f" on {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ": no GPU, not timed"
        return Availability(True, f"{self.distribution} {self.version()}{where}")

    def toolchain(self) -> str:
        """Name the package's and torch's versions."""
        return f"{self.distribution} {self.version()}, torch {torch.__version__}"

    def build(self, candidate: Candidate, *, deadline_s: float = 120.0) -> Build:
        """Parse the files; kernels are made when they are called."""
        status = self.available()
        if not status.ok:
            return status.missing()
        return cached_build(
            self._settings.cache,
            candidate,
            self.toolchain(),
            lambda folder: self.compile(candidate, folder, deadline_s),
        )

    def compile(self, candidate: Candidate, folder: Path, deadline_s: float) -> Build:  # noqa: ARG002
        """Check the files that lie in the folder."""
        checked = check_python(candidate, flags=())
        if checked.status is not BuildStatus.OK:
            return checked
        said = f"not cross-compiled: {self.title} kernels are made by the candidate's own Python, when it is called"
        return checked.model_copy(update={"findings": (said,)})

    def load(self, candidate: Candidate, artefact: Path, outputs: tuple[TensorSpec, ...]) -> Kernel:
        """Return the entry, on a GPU."""
        if not torch.cuda.is_available():
            raise MissingToolError(
                f"a {self.title} kernel needs an NVIDIA GPU, or a C++ compiler to be executed by"
            )
        return returning(load_symbol(candidate, artefact), candidate, outputs)

    def timeable(self, device: str) -> bool:
        """Whether times are meaningful: on a GPU."""
        return device.startswith("cuda")
