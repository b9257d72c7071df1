"""Ignore the devices that a file names when it makes its inputs: the judge moves them itself."""

from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class Anywhere(TorchFunctionMode):
    """Make tensors on the ambient device, whatever accelerator the code names.

    Covers: `device=` of functions that make tensors, `Tensor.to` and `Tensor.cuda`.
    Does not cover: other uses of an accelerator than making tensors: streams, generators, properties.

    Example:
        >>> with Anywhere():
        ...     torch.ones(2, device="cuda").to("cuda:1").cuda().device
        device(type='cpu')
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run the call without the accelerators among its arguments."""
        given = {k: v for k, v in (kwargs or {}).items() if not (k == "device" and _is_accelerator(v))}
        if func is torch.Tensor.cuda:
            return args[0]
        if func is torch.Tensor.to:
            args = tuple(a for a in args if not _is_accelerator(a))
            if len(args) == 1 and not given:
                return args[0]
        return func(*args, **given)


def _is_accelerator(value: object) -> bool:
    """Whether the value names a GPU."""
    if isinstance(value, torch.device):
        return value.type == "cuda"
    return isinstance(value, str) and value.partition(":")[0] == "cuda"
