"""Call a destination-passing kernel: allocate the outputs, pass everything, return the outputs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from ..errors import InputError
from ..records import TensorSpec

Entry = Callable[..., Any]
"""The compiled symbol: called with arguments, state and outputs; returns nothing."""


class Destination:
    """A loaded destination kernel: called with arguments and state, returns fresh contiguous outputs.

    The outputs' shapes are those of the specs it is bound to; `bind` gives the same kernel for others. They are on
    the `device`, or if that is empty on the first tensor argument's.

    Example:
        >>> def double(x, out): torch.mul(x, 2, out=out)
        >>> kernel = Destination(double, (TensorSpec(name="out", shape=(2,), dtype="float32"),))
        >>> kernel(torch.ones(2))
        tensor([2., 2.])
        >>> kernel.bind((TensorSpec(name="out", shape=(3,), dtype="float32"),))(torch.ones(3)).shape
        torch.Size([3])
    """

    def __init__(
        self, entry: Entry, outputs: tuple[TensorSpec, ...], *, strided: bool = False, device: str = "cpu"
    ) -> None:
        if not outputs:
            raise InputError("a destination kernel needs at least one output spec; got none")
        self.outputs = outputs
        self._entry, self._strided, self._device = entry, strided, device
        self._allocate = [(spec.shape, _dtype(spec)) for spec in outputs]

    def bind(self, outputs: tuple[TensorSpec, ...]) -> "Destination":
        """Return this kernel for outputs of other shapes or dtypes."""
        return Destination(self._entry, outputs, strided=self._strided, device=self._device)

    def through(self, wrap: Callable[[Entry], Entry]) -> "Destination":
        """Return this kernel with another entry that wraps its own."""
        return Destination(wrap(self._entry), self.outputs, strided=self._strided, device=self._device)

    def __call__(self, *arguments: Any) -> Any:
        """Run it; a tuple argument is passed as its elements in order.

        Raises:
            NotImplementedError: `Unsupported: ...` if a tensor is not contiguous and the candidate does
                not set `parameters["strided"] = true`, or if the kernel itself raises it.
        """
        for argument in arguments:
            if isinstance(argument, torch.Tensor):
                if not (self._strided or argument.is_contiguous()):
                    raise NotImplementedError(
                        f"Unsupported: a tensor of shape {tuple(argument.shape)} has strides "
                        f"{argument.stride()}; this kernel takes contiguous tensors"
                    )
            elif isinstance(argument, tuple | list):
                return self(*_flat(arguments))
        device = self._device or next(a.device for a in arguments if isinstance(a, torch.Tensor))
        if len(self._allocate) == 1:
            shape, dtype = self._allocate[0]
            out = torch.empty(shape, dtype=dtype, device=device)
            self._entry(*arguments, out)
            return out
        outs = tuple([torch.empty(shape, dtype=dtype, device=device) for shape, dtype in self._allocate])
        self._entry(*arguments, *outs)
        return outs


def load_entry(library: Path, symbol: str) -> Entry:
    """Load a shared library through TVM FFI and return its exported `__tvm_ffi_<symbol>`."""
    entry: Entry = load_library(library).get_function(symbol)
    return entry


def load_library(library: Path) -> Any:
    """Load a shared library through TVM FFI; its exported kernels are attributes of the result."""
    import tvm_ffi

    return tvm_ffi.load_module(str(library))


def _dtype(spec: TensorSpec) -> torch.dtype:
    dtype = getattr(torch, spec.dtype, None)
    if not isinstance(dtype, torch.dtype):
        raise InputError(f"output {spec.name!r} has dtype {spec.dtype!r}; expected a torch dtype's name")
    return dtype


def _flat(arguments: tuple[Any, ...]) -> list[Any]:
    flat: list[Any] = []
    for argument in arguments:
        flat.extend(argument) if isinstance(argument, tuple | list) else flat.append(argument)
    return flat
