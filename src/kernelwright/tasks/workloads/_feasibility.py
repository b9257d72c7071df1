"""Feasibility: each derived workload is run on the reference before it is kept.

Covers: workloads on which it raises; regimes under which it is not finite, or defined otherwise than in float64.
Does not cover: workloads above a million elements, which are kept unrun; above 67 million where an argument holds
integers, which may be indices that another size puts out of range.
"""

from collections.abc import Iterable, Sequence

import torch

from ...records import ScalarSpec, TensorSpec, Workload
from .._problem import Outcome, Problem
from ..inputs._draw import dtype_of
from ..inputs.regimes import LONE, SPECIAL, adds_nothing, kind_of, lone_of, takes_regime
from ._shrink import workload_elements

MOST_TRIED = 1 << 20
"""Most elements with which a derived workload is run before it is kept."""
MOST_INDEXED = 1 << 26
"""The same if an argument holds integers: shapes alone do not show an index out of range."""


class Feasibility:
    """Runs a problem's reference on workloads that may be kept."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._drawn: tuple[dict[str, int], dict[str, torch.Tensor]] | None = None

    def runs(self, workload: Workload) -> bool:
        """Whether the reference accepts the workload; a large one is assumed to be accepted."""
        most = MOST_INDEXED if any(map(_may_index, workload.arguments)) else MOST_TRIED
        return workload_elements(workload) > most or self._outcome(workload) is not None

    def takes(self, workload: Workload) -> bool:
        """Run the workload, whatever its size, and return whether the reference accepts it."""
        return self._outcome(workload) is not None

    def behaves(self, workload: Workload) -> bool:
        """Whether the reference is defined under a workload's regime as it is under the declared values."""
        declared = self._outcome(_under(workload, "declared"))
        return declared is not None and self._takes(workload, _all_finite(declared.outputs))

    def regimes(self, workload: Workload, among: Sequence[str]) -> list[str]:
        """Name the regimes under which the reference behaves: no error, finite, defined alike in float64.

        If special values in every argument leave nothing of the result, as in a mean over all, a NaN and an
        infinity in one argument at a time replace them: the result shows for each whether it was lost. Of several
        arguments a NaN in one at a time follows them anyway (`lone_of`).
        """
        free = [s for s in workload.arguments if isinstance(s, TensorSpec) and takes_regime(s)]
        if not free:
            return []
        allowed = [r for r in among if not adds_nothing(r, [s.distribution for s in free])]
        declared = self._outcome(workload)
        strict = declared is not None and _all_finite(declared.outputs)
        kept = [r for r in allowed if self._takes(_under(workload, r), strict)]
        special = [r for r in among if kind_of(r) == SPECIAL]
        lone = [one for r in special for one in lone_of(r, free, is_drawn=r in kept)]
        return kept + [r for r in lone if self._takes(_under(workload, r), strict)]

    def _takes(self, workload: Workload, strict: bool) -> bool:
        kind = kind_of(workload.regime)
        if kind == SPECIAL or kind in LONE:
            return self._is_defined(workload, partly=kind == SPECIAL)
        outcome = self._outcome(workload)
        return outcome is not None and (not strict or _all_finite(outcome.outputs))

    def _is_defined(self, workload: Workload, *, partly: bool = False) -> bool:
        """Whether NaN and infinities agree with float64; `partly`: and something is finite."""
        outcome, oracle = self._outcome(workload), self._outcome(workload, oracle=True)
        if outcome is None or oracle is None:
            return False
        if partly and not any(bool(_wide(t).isfinite().any()) for t in outcome.outputs):
            return False
        return all(map(_defined_alike, outcome.outputs, oracle.outputs))

    def _outcome(self, workload: Workload, *, oracle: bool = False) -> Outcome | None:
        run = self._problem.run_oracle if oracle else self._problem.run_reference
        try:
            return run(workload, self._problem.inputs(workload, 0), self._state(workload))
        except Exception:  # noqa: BLE001  what the user's reference raises only drops this workload
            return None

    def _state(self, workload: Workload) -> dict[str, torch.Tensor]:
        """Draw a state, once for all regimes and layouts of the same sizes: millions of numbers in large models."""
        if self._drawn is None or self._drawn[0] != workload.axes:
            self._drawn = (workload.axes, self._problem.state(workload, 0))
        return self._drawn[1]


def _may_index(spec: TensorSpec | ScalarSpec) -> bool:
    """Whether an argument is a tensor of integers."""
    if isinstance(spec, ScalarSpec):
        return False
    dtype = dtype_of(spec.dtype)
    return dtype is not torch.bool and not dtype.is_floating_point and not dtype.is_complex


def _under(workload: Workload, regime: str) -> Workload:
    return workload.model_copy(update={"regime": regime})


def _all_finite(outputs: Iterable[torch.Tensor]) -> bool:
    return all(bool(_wide(t).isfinite().all()) for t in outputs)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    """Return an eight-bit float as float32, since torch tells of no such number whether it is finite."""
    return tensor.float() if tensor.is_floating_point() and tensor.dtype.itemsize == 1 else tensor


def _defined_alike(native: torch.Tensor, oracle: torch.Tensor) -> bool:
    native, oracle = _wide(native), _wide(oracle)
    return torch.equal(torch.isnan(native), torch.isnan(oracle)) and torch.equal(
        torch.isinf(native), torch.isinf(oracle)
    )
