"""Fresh content for every block, cheaply: windows at secret offsets into random pools.

Covers: independent values (normal, uniform, integers, Bernoulli), which any window keeps.
Does not cover: structured tensors; they are drawn anew.
"""

import secrets

import torch

from ..records import TensorSpec, Workload
from ..tasks import Problem

_FREE = {"normal", "uniform", "integers", "bernoulli"}
_REDRAWN_REGIMES = {"constant", "special"}


class Content:
    """Draws argument lists for one workload; every list holds values that no earlier one held in that order."""

    def __init__(self, problem: Problem, workload: Workload) -> None:
        self._problem, self._workload = problem, workload
        self._pools: dict[int, torch.Tensor] = {}
        self._first = problem.inputs(workload, secrets.randbits(48))
        second = problem.inputs(workload, secrets.randbits(48))
        self._redraw = workload.regime in _REDRAWN_REGIMES
        for i, spec in enumerate(workload.arguments):
            if isinstance(spec, TensorSpec) and spec.distribution.kind in _FREE and not self._redraw:
                self._pools[i] = torch.cat([self._first[i].reshape(-1), second[i].reshape(-1)])
        tensors = {i for i, spec in enumerate(workload.arguments) if isinstance(spec, TensorSpec)}
        self._redraw = self._redraw or not tensors <= set(self._pools)

    def draw(self) -> list[object]:
        """Return fresh arguments, in the declared layouts."""
        values = (
            self._problem.inputs(self._workload, secrets.randbits(48)) if self._redraw else list(self._first)
        )
        for i, pool in self._pools.items():
            like = self._first[i]
            start = secrets.randbelow(like.numel() + 1)
            window = pool[start : start + like.numel()].view(like.shape)
            values[i] = window if like.is_contiguous() else torch.empty_like(like).copy_(window)
        return values
