"""Helion's kernels on a machine without a GPU: the Triton code that it writes is compiled and executed."""

from pathlib import Path
from typing import Any, Final

from ..languages import Kernel, helion
from ..languages._package import imported
from ..records import Candidate, TensorSpec
from ._errors import NotExecutedError
from ._loading import OnlyExecuted
from .module import Options

_COOPERATIVE: Final = "launch_cooperative_grid"
_FOR_PTXAS: Final = "ptx_options"


class Helion(OnlyExecuted, helion.Helion):
    """Helion; executed where there is no GPU."""

    def load_in_order(
        self, candidate: Candidate, artefact: Path, outputs: tuple[TensorSpec, ...], how: Options
    ) -> Kernel:
        """Load it so that what Helion launches goes through Triton's `kernel[grid]`."""
        imported("helion").runtime._triton_default_launcher = _launch
        return super().load_in_order(candidate, artefact, outputs, how)


def _launch(
    kernel: Any, grid: tuple[int, ...], *arguments: Any, num_warps: int, num_stages: int, **settings: Any
) -> None:
    """Launch a kernel as Helion's own launcher does, but for what several devices or their occupancy are needed for."""
    asked = {name: value for name, value in settings.items() if value and name != _FOR_PTXAS}
    needing = sorted(name for name in asked if name.startswith("_") or name == _COOPERATIVE)
    if needing:
        raise NotExecutedError(f"not executed: a Helion kernel with {needing[0].lstrip('_')!r}")
    kernel[grid](*arguments, num_warps=num_warps, num_stages=num_stages, **asked)
