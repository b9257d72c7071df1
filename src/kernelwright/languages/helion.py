"""Helion, PyTorch's language of tiles, which it compiles to Triton; styles as for `torch`. Executed on a CPU.

A candidate is Python with `@helion.kernel` functions in it:

    # softmax.py, entry "softmax.py:run"
    import helion
    import helion.language as hl
    import torch

    @helion.kernel(config=helion.Config(block_sizes=[8]))
    def softmax(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        for rows in hl.tile(x.size(0)):
            out[rows, :] = torch.softmax(x[rows, :], dim=1)
        return out

    def run(x):
        if x.dim() != 2:
            raise NotImplementedError("Unsupported: x must be a matrix")
        return softmax(x)

Give each kernel a `config`: without one Helion searches for one by timing, and a search is what Kernelwright is for.
Without a GPU every call is executed from the PTX that Triton makes of Helion's code for sm_90 (docs/executor.md), under
the sanitiser.
"""

from ._package import PackageLanguage


class Helion(PackageLanguage):
    """Helion candidates."""

    name = "helion"
    title = "Helion"
    distribution = "helion"
    by_triton = True
    """Whether kernels are launched by Triton's `kernel[grid](...)`."""
