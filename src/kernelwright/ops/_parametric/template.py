"""KernelTemplate: a space, a default and the source for each configuration."""

from collections.abc import Callable
from dataclasses import dataclass

from ...languages.vectors import headers_of
from ...records import Candidate, Configuration, SourceFile, Space

_SUFFIXES = {"cpp": "cpp", "triton": "py", "opencl": "cl", "cuda": "cu"}

_QUIET = ("-Wno-psabi", "-Wno-uninitialized")
"""No vector crosses an ABI, all is inlined; GCC 12 warns of its own AVX-512 headers."""


@dataclass(frozen=True)
class Rendered:
    """The source of one configuration."""

    text: str
    """The kernel file."""
    symbol: str
    """The entry in it."""


@dataclass(eq=False)
class KernelTemplate:
    """A parametric kernel: implements `propose.Template` with a function from configuration to source.

    Example:
        >>> from kernelwright.records import Parameter, Space
        >>> space = Space(parameters=(Parameter(name="unroll", values=(1, 2)),))
        >>> source = lambda configuration: Rendered("// nothing", "nothing")
        >>> template = KernelTemplate("nothing", "cpp", space, {"unroll": 2}, source)
        >>> template.render(template.default()).entry
        'kernel.cpp:nothing'
    """

    name: str
    """`family/variant`, for people and for records."""
    language: str
    """Name of the `Language`."""
    space: Space
    """The parameters, their values and constraints."""
    first: Configuration
    """The configuration to try first; must be in the space."""
    source: Callable[[Configuration], Rendered]
    """Returns the kernel file; pure: the same text for the same configuration."""
    reason: str = ""
    """One line: why the kernel is faster."""

    def __post_init__(self) -> None:
        if not self._holds(self.first):
            raise ValueError(f"default {self.first!r} of template {self.name!r} is not in its space")

    def default(self) -> Configuration:
        """Return the configuration to try first."""
        return dict(self.first)

    def render(self, configuration: Configuration) -> Candidate:
        """Return the candidate of one configuration, headers included."""
        if not self._holds(configuration):
            raise ValueError(f"configuration {configuration!r} is not in the space of template {self.name!r}")
        rendered = self.source(configuration)
        path = f"kernel.{_SUFFIXES[self.language]}"
        kernel = SourceFile(path=path, text=rendered.text)
        headers = headers_of(rendered.text)
        flags = _QUIET if "vector.h" in {h.path for h in headers} else ()
        return Candidate(
            sources=(kernel, *headers), language=self.language, entry=f"{path}:{rendered.symbol}",
            style="function" if self.language == "triton" else "destination", flags=flags,
            parameters=dict(configuration), template=self.name, proposer="library", reason=self.reason,
        )  # fmt: skip

    def _holds(self, configuration: Configuration) -> bool:
        values = {p.name: p.values for p in self.space.parameters}
        known = values.keys() == configuration.keys()
        return (
            known
            and all(v in values[n] for n, v in configuration.items())
            and self.space.allows(configuration)
        )
