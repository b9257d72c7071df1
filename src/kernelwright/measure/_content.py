"""Fresh content for every block, cheaply: windows at secret offsets into random pools.

Covers: independent values (normal, uniform, integers, Bernoulli), which any window preserves; real ones are scaled by
a new factor each time, so that remembering a window does not help when it returns.
Does not cover: structured tensors, which are drawn again; integers, whose windows return unchanged.
"""

import secrets

import torch

from ..records import TensorSpec, Workload
from ..tasks import Problem

_FREE = {"normal", "uniform", "integers", "bernoulli"}
_SCALED, _WIDE = {"normal", "uniform"}, {"float64", "float32", "bfloat16", "float16"}
_REDRAWN_REGIMES = {"constant", "special", "small-integers"}
_LEAST_STEP = 1 << 28
"""A scale factor is less than one by at most a sixteenth of this."""
_MOST_WINDOWS, _MOST_REDRAWN = 256, 32


class Content:
    """Draws argument lists for one workload; no list repeats the values of an earlier one in the same order."""

    def __init__(self, problem: Problem, workload: Workload) -> None:
        self._problem, self._workload = problem, workload
        self._pools: dict[int, torch.Tensor] = {}
        self._ends: dict[int, torch.Tensor] = {}
        self._first = problem.inputs(workload, secrets.randbits(48))
        second = problem.inputs(workload, secrets.randbits(48))
        self._redraw = workload.regime in _REDRAWN_REGIMES
        for i, spec in enumerate(workload.arguments):
            if isinstance(spec, TensorSpec) and spec.distribution.kind in _FREE and not self._redraw:
                self._pools[i] = torch.cat([self._first[i].reshape(-1), second[i].reshape(-1)])
                if spec.distribution.kind in _SCALED and spec.dtype in _WIDE:
                    self._ends[i] = _nearest_to_zero(self._pools[i])
        tensors = {i for i, spec in enumerate(workload.arguments) if isinstance(spec, TensorSpec)}
        self._redraw = self._redraw or not tensors <= set(self._pools)

    @property
    def most(self) -> int:
        """How many lists are drawn for one block: few if each is drawn from scratch, which is slow."""
        return _MOST_REDRAWN if self._redraw else _MOST_WINDOWS

    def several(self, count: int) -> list[list[object]]:
        """Return this many fresh lists."""
        return [self.draw() for _ in range(count)]

    def draw(self) -> list[object]:
        """Return fresh arguments, in the declared layouts."""
        values = (
            self._problem.inputs(self._workload, secrets.randbits(48)) if self._redraw else list(self._first)
        )
        for i, pool in self._pools.items():
            like = self._first[i]
            start = secrets.randbelow(like.numel() + 1)
            window = self._rescaled(i, pool.narrow(0, start, like.numel()).view(like.shape))
            values[i] = window if like.is_contiguous() else torch.empty_like(like).copy_(window)
        return values

    def _rescaled(self, i: int, window: torch.Tensor) -> torch.Tensor:
        """Return a window shifted slightly towards the end of its range that is nearer to zero; zeros stay."""
        if i not in self._ends:
            return window
        end, factor = self._ends[i], 1 - secrets.randbelow(1 << 24) / _LEAST_STEP
        if not end:  # an infinity stays one, which `lerp` loses
            return window * factor
        return torch.lerp(end, window, factor)


def _nearest_to_zero(values: torch.Tensor) -> torch.Tensor:
    """Return the end of the range of values that is nearer to zero; zero if the range contains it."""
    if not values.numel():
        return values.new_zeros(())
    return values.min().clamp(min=0) + values.max().clamp(max=0)
