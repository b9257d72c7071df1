"""The values are right: near the float64 truth, in units that the native op's own error defines."""

from collections.abc import Sequence

import torch

from ...records import Finding
from ...sandbox import Fetched
from .._case import Case
from .._error import error_against
from .._explained import explained
from .._protocol import Observation, failed, passed


class Correct:
    """Hold each output against its tolerance."""

    name = "correct"

    def examine(self, seen: Observation) -> Finding:
        """Fail on the first output that is further from the truth than allowed; random ones have no truth."""
        if seen.contract.stochastic:
            return passed(self.name)
        return compare_outputs(self.name, seen.fetched, seen.case)


def compare_outputs(check: str, fetched: Fetched, case: Case, when: str = "") -> Finding:
    """Compare what was fetched with what the case expects; `when` is put before the message.

    Outputs that do not fit the case's shapes and dtypes fail without a look at their values. Who fails by a little, or
    where the reference chooses between computed values, is held to a better estimate of the sensitivity. The bits that
    were right last time are right again.
    """
    for outputs, figures in case.right:
        if same_bits(outputs, fetched.outputs):
            return passed(check, **figures)
    if len(fetched.outputs) != len(case.outputs):
        return failed(check, f"{when}{len(fetched.outputs)} outputs, expected {len(case.outputs)}")
    worst = norm = 0.0
    for i, (output, tolerance) in enumerate(zip(fetched.outputs, case.outputs, strict=True)):
        if output.shape != tolerance.output.shape or output.dtype != tolerance.output.dtype:
            return failed(check, f"{when}output {i} does not have the expected shape and dtype")
        found = error_against(output, tolerance, case.tensors)
        if case.closer is not None and (found.narrow or (case.chooses and found.inexact)):
            found = error_against(output, case.closer().outputs[i], case.tensors)
        if not found.ok:
            where = f"output {i}: " if len(case.outputs) > 1 else ""
            figures = {k: v for k, v in (("error", found.error), ("norm", found.norm)) if v < float("inf")}
            return failed(
                check, f"{when}{where}{found.message}{explained(output, tolerance, case)}", **figures
            )
        worst, norm = max(worst, found.error), max(norm, found.norm)
    figures = {"error": worst, "norm": norm, **({"in_float32": 1.0} if case.in_float32 else {})}
    case.right[:] = [(fetched.outputs, figures)]
    return passed(check, **figures)


def same_bits(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> bool:
    """Tell whether two calls returned the same bits in the same shapes.

    Example:
        >>> x = torch.tensor([1.0, float("nan")])
        >>> same_bits([x], [x.clone()]), same_bits([torch.zeros(1)], [-torch.zeros(1)])
        (True, False)
    """
    return len(one) == len(other) and all(
        a.shape == b.shape and a.dtype == b.dtype and torch.equal(_bytes(a), _bytes(b))
        for a, b in zip(one, other, strict=True)
    )


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)
