"""Rows of an estimator's input: a tensor, an array, or a file mapped to memory that is read part by part."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from .._core import refuse, told

_PART_BYTES = 1 << 26
"""Bytes of a file that are read at once."""
_BLOCK = 4096
_IN_PLACE = frozenset({torch.float32, torch.bfloat16, torch.float16})
"""Dtypes that the kernel reads where they lie."""


@dataclass(frozen=True)
class Moments:
    """Mean and variance of each column."""

    mean: torch.Tensor
    """(columns,) float64."""
    variance: torch.Tensor
    """(columns,) float64."""


class Rows:
    """Rows of numbers, in parts that fit in memory.

    Example:
        >>> rows = Rows("KMeans.fit", torch.ones(3, 2))
        >>> [(first, part.shape) for first, part in rows.parts()]
        [(0, torch.Size([3, 2]))]
    """

    def __init__(self, op: str, x: Any, part_rows: int | None = None) -> None:
        self.was_tensor = isinstance(x, torch.Tensor)
        self._op, self._x = op, x if self.was_tensor else _array(op, x)
        if self.was_tensor and (x.layout is not torch.strided or x.is_meta or x.is_complex()):
            refuse(op, "X", f"{told(x)}, {x.layout}, on {x.device}", "dense rows of numbers, in memory")
        if self._x.ndim != 2:
            refuse(op, "X", f"of shape {tuple(self._x.shape)}", "a matrix, one row for each sample")
        self.count, self.columns = map(int, self._x.shape)
        self._mapped = isinstance(self._x, np.memmap)
        each = max(1, _PART_BYTES // max(1, self.columns * 4)) if self._mapped else max(1, self.count)
        self._each = part_rows or each

    @property
    def device(self) -> torch.device:
        """Where the rows are: the processor's memory unless they are a tensor elsewhere."""
        return self._x.device if isinstance(self._x, torch.Tensor) else torch.device("cpu")

    def parts(self) -> Iterator[tuple[int, torch.Tensor]]:
        """Yield the first row's number and the rows of each part."""
        for first in range(0, self.count, self._each):
            yield first, self[slice(first, first + self._each)]

    def __getitem__(self, which: slice | torch.Tensor) -> torch.Tensor:
        """Return some rows, of a dtype that the kernel takes."""
        if isinstance(self._x, torch.Tensor):
            x = self._x[which].detach()
        else:
            found = self._x[which.numpy() if isinstance(which, torch.Tensor) else which]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of arrays that are read-only, as we leave them
                x = torch.from_numpy(np.array(found) if self._mapped else found)
        return x if x.dtype in _IN_PLACE else x.to(torch.float32)

    @cached_property
    def moments(self) -> Moments:
        """Mean and variance of each column, in one pass.

        Raises:
            ArgumentError: a value is not finite.
        """
        around = self[slice(0, 1)][0].float() if self.count else torch.zeros(self.columns, device=self.device)
        total, squares = (
            torch.zeros(self.columns, dtype=torch.float64, device=self.device) for _ in range(2)
        )
        for first, part in self.parts():
            for at in range(0, len(part), _BLOCK):
                block = part[at : at + _BLOCK].float() - around
                total += block.sum(0)
                squares += block.square_().sum(0)
            if not bool(squares.isfinite().all()):
                wrong = first + int(part.isfinite().all(1).logical_not().int().argmax())
                if wrong < first + len(part) and not bool(part[wrong - first].isfinite().all()):
                    refuse(self._op, "X", f"not finite in row {wrong}", "finite numbers")
                refuse(self._op, "X", "too large to be squared in float32", "numbers below 1e19")
        mean = total / max(1, self.count)
        return Moments(around.double() + mean, (squares / max(1, self.count) - mean.square()).clamp(min=0))

    def like(self, x: torch.Tensor) -> Any:
        """Return a result as a tensor if the input was one, else as an array."""
        return x if self.was_tensor else x.numpy()


def _array(op: str, x: Any) -> np.ndarray[Any, Any]:
    if hasattr(x, "toarray"):
        refuse(op, "X", f"sparse ({type(x).__name__})", "dense rows")
    array = x if isinstance(x, np.ndarray) else np.asarray(x)
    if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8:
        refuse(op, "X", f"an array of {array.dtype}", "numbers")
    if not array.dtype.isnative or any(step < 0 for step in array.strides):
        return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
    return array


def numbers_of(op: str, name: str, given: Any) -> torch.Tensor:
    """Return a dense tensor of the numbers in a tensor, an array or lists.

    Raises:
        ArgumentError: there is something else in it.
    """
    try:
        found = torch.as_tensor(given).detach()
    except (TypeError, ValueError, RuntimeError) as error:
        refuse(
            op, name, f"a {type(given).__name__} that holds no numbers alone", "an array of numbers", error
        )
    if found.layout is not torch.strided or found.is_meta or found.is_complex():
        refuse(
            op,
            name,
            f"{told(found)}, {found.layout}, on {found.device}",
            "a dense array of numbers, in memory",
        )
    return found


def weights_of(op: str, sample_weight: Any, rows: Rows) -> torch.Tensor | None:
    """Return the weights of rows as float32; None where there are none.

    Raises:
        ArgumentError: not one for each row, or one is negative or not finite.
    """
    if sample_weight is None:
        return None
    weights = numbers_of(op, "sample_weight", sample_weight).to(rows.device, torch.float32).contiguous()
    if weights.shape != (rows.count,):
        refuse(op, "sample_weight", f"of shape {tuple(weights.shape)}", f"({rows.count},), one for each row")
    if not bool(((weights >= 0) & weights.isfinite()).all()) or not bool(weights.any()):
        refuse(
            op, "sample_weight", "negative, infinite or all zero", "finite weights from zero, one above it"
        )
    return weights
