"""What an author is told of a wrong output: where it is wrong first, what is there and should be, and a likely cause.

Covers: search workloads in full, with values of one element; of hidden ones only which arguments are not contiguous.
Does not cover: outputs of another shape or dtype, which are refused before.
"""

import torch

from ..records import Split, TensorSpec
from ._case import Case
from ._tolerance import OutputTolerance


def explained(output: torch.Tensor, tolerance: OutputTolerance, case: Case) -> str:
    """Return clauses to put behind the kind and magnitude of an error; empty where there is nothing to add."""
    searched = case.workload.split is Split.SEARCH
    clauses = []
    if searched and (index := first_wrong(output, tolerance)) is not None:
        got, right = output[index].item(), tolerance.native[index].item()
        place = f"at {list(index)}" if index else "which is one number"
        clauses.append(f"first {place}: {_number(got)} instead of {_number(right)}")
    if apart := _apart(case, strides=searched):
        clauses.append(
            f"{apart}, which a kernel that takes its memory for contiguous misreads: use its strides or copy it"
        )
    return "".join(f"; {clause}" for clause in clauses)


def first_wrong(output: torch.Tensor, tolerance: OutputTolerance) -> tuple[int, ...] | None:
    """Return the index of the first element that is beyond what is allowed; none where only all together are."""
    if output.numel() == 0 or output.dtype.is_complex:
        return None
    if tolerance.unit is None or tolerance.allowed is None:
        wrong = output != tolerance.native
    else:
        numbers, truth = output.to(torch.float64), tolerance.truth.view(output.shape)
        off = (numbers - truth).abs() > tolerance.allowed.view(output.shape)
        wrong = (off & truth.isfinite()) | (numbers.isnan() != truth.isnan())
        if tolerance.exact:
            wrong |= numbers != truth
    flat = wrong.reshape(-1)
    if not bool(flat.any()):
        return None
    place = int(flat.to(torch.uint8).argmax())
    return tuple(int(i) for i in torch.unravel_index(torch.tensor(place), output.shape))


def _apart(case: Case, *, strides: bool) -> str:
    """Name the tensor arguments that are not contiguous, with their strides where these may be told."""
    told = []
    tensors = iter(case.tensors)
    for spec in case.workload.arguments:
        if not isinstance(spec, TensorSpec):
            continue
        tensor = next(tensors)
        if not tensor.is_contiguous():
            of = f" with strides {tuple(tensor.stride())}" if strides else ""
            told.append(
                f"{spec.name!r} is {spec.layout if spec.layout != 'contiguous' else 'not contiguous'}{of}"
            )
    return ", ".join(told)


def _number(value: bool | int | float) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
