"""Shape inference on the meta device, without torch's slow decompositions.

On that device torch decomposes norms into elementwise Python and unrolls recurrent layers step by step; a network
has a hundred norms, or thousands of steps.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from ...system.dispatch_mode import DispatchMode
from ._recurrent import Whole

_NORMS = (torch.ops.aten.native_batch_norm.default, torch.ops.aten.native_group_norm.default)


@contextmanager
def shapes_alone() -> Iterator[None]:
    """Infer norms and recurrent layers on the meta device by shape.

    Covers: batch, group and instance norms; LSTM, GRU and plain recurrent layers over padded sequences.
    Does not cover: what torch refuses within these operators; that shows when the reference really runs.

    Example:
        >>> with torch.device("meta"), shapes_alone():
        ...     [tuple(t.shape) for t in torch.nn.GRU(3, 4, 2)(torch.randn(5, 7, 3))]
        [(5, 7, 4), (2, 7, 4)]
    """
    with _Norms(), Whole():
        yield


class _Norms(DispatchMode):
    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in _NORMS and args[0].device.type == "meta":
            return torch.empty_like(args[0]), args[0].new_empty(0), args[0].new_empty(0)
        return func(*args, **(kwargs or {}))
