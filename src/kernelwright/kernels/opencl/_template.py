"""A template whose candidates are `.cl` files called in place."""

from ...records import Candidate, Configuration, SourceFile
from .._core import KernelTemplate


class OpenCLTemplate(KernelTemplate):
    """A parametric OpenCL kernel."""

    def render(self, configuration: Configuration) -> Candidate:
        """Return the candidate of one configuration."""
        if not self._holds(configuration):
            raise ValueError(f"configuration {configuration!r} is not in the space of template {self.name!r}")
        rendered = self.source(configuration)
        return Candidate(
            sources=(SourceFile(path="kernel.cl", text=rendered.text),), language=self.language,
            entry=f"kernel.cl:{rendered.symbol}", style="destination", flags=rendered.flags,
            parameters=dict(configuration), template=self.name, proposer="library", reason=self.reason,
        )  # fmt: skip
