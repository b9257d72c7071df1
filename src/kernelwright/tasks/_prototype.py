"""A module that is made once and copied for every call: drawing millions of weights that a state replaces takes longer
than most calls.

Covers: a fresh module for each call, with everything that its constructor put into it; tensors that the state replaces
are not copied, only made.
Does not cover: modules that hold tensors that share memory, or functions with variables of their own, which in a copy
would still be the first module's; and those that cannot be copied. They are made anew each time, as are those whose
copies answer otherwise.
"""

import copy
import io
import math
import pickle
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from types import BuiltinFunctionType, FunctionType, ModuleType

import torch
from torch.nn.parameter import Parameter

_PARTS = (BuiltinFunctionType, ModuleType, type, torch.dtype, torch.device, torch.Tensor)
"""What a copy shares, but for tensors."""


class Prototype:
    """Hands out modules that are all alike.

    Example:
        >>> kind = Prototype(torch.nn.Linear(2, 3))
        >>> one, other = (kind.fresh({"weight": torch.ones(3, 2), "bias": torch.zeros(3)}) for _ in range(2))
        >>> one is other, one(torch.ones(2)).tolist()
        (False, [2.0, 2.0, 2.0])
    """

    def __init__(self, first: torch.nn.Module) -> None:
        """Keep what a module that was just made consists of.

        Raises:
            NotWholeError: a copy would not be all its own.
        """
        written = io.BytesIO()
        taken_apart = _Apart(written, pickle.HIGHEST_PROTOCOL)
        try:
            with _quiet():
                taken_apart.dump(first)
        except Exception as error:  # whatever a class of somebody's raises when it is taken apart
            raise NotWholeError from error
        self._written, self._parts = written.getvalue(), tuple(taken_apart.parts)
        homes = Counter(
            t.untyped_storage().data_ptr() for t in self._parts if isinstance(t, torch.Tensor) and t.numel()
        )
        if any(count > 1 for count in homes.values()):
            raise NotWholeError("tensors that share memory would not in a copy")
        replaced = {id(t): t for t in first.state_dict(keep_vars=True).values() if _is_plain(t)}
        self._replaced: tuple[torch.Tensor, ...] = tuple(replaced.values())

    def fresh(
        self, state: Mapping[str, torch.Tensor], *, spoilt: bool = False, wide: bool = False
    ) -> torch.nn.Module:
        """Return a module of its own with a state.

        Args:
            state: Parameters and buffers.
            spoilt: Whether it shall be NaN where the state does not reach.
            wide: Whether it shall be float64, as `double()` makes it.

        Raises:
            NotWholeError: a class of it does not let itself be copied.
        """
        memo: dict[int, object] = {id(t): t for t in self._parts if not isinstance(t, torch.Tensor)}
        memo |= {id(t): _like(t, spoilt=spoilt, wide=wide) for t in self._replaced}
        try:
            with _quiet():
                parts = [copy.deepcopy(part, memo) for part in self._parts]
                made: torch.nn.Module = _Joined(io.BytesIO(self._written), parts).load()
        except Exception as error:  # whatever a class of somebody's raises when it is copied
            raise NotWholeError from error
        made.load_state_dict(dict(state))
        return made.double() if wide else made


class NotWholeError(Exception):
    """A copy of a module would share objects with it, or cannot be made."""


class _Apart(pickle.Pickler):
    """Writes what holds the parts of an object together; the parts are tensors, and what a copy shares."""

    def __init__(self, file: io.BytesIO, protocol: int) -> None:
        super().__init__(file, protocol)
        self.parts = list[object]()
        self._numbers = dict[int, int]()

    def persistent_id(self, obj: object) -> int | None:
        if isinstance(obj, FunctionType):
            defaults = (*(obj.__defaults__ or ()), *(obj.__kwdefaults__ or {}).values())
            if obj.__closure__ or any(isinstance(d, (torch.Tensor, torch.nn.Module)) for d in defaults):
                raise NotWholeError
        elif not isinstance(obj, _PARTS):
            return None
        if id(obj) not in self._numbers:
            self._numbers[id(obj)] = len(self.parts)
            self.parts.append(obj)
        return self._numbers[id(obj)]


class _Joined(pickle.Unpickler):
    """Puts parts together again."""

    def __init__(self, file: io.BytesIO, parts: Sequence[object]) -> None:
        super().__init__(file)
        self._parts = parts

    def persistent_load(self, number: int) -> object:
        return self._parts[number]


def _quiet() -> AbstractContextManager[object]:
    """Leave out what classes say while they are taken apart, as some of torch's do of their own names."""
    return warnings.catch_warnings(action="ignore")


def _is_plain(tensor: torch.Tensor) -> bool:
    """Tell whether a tensor is its values, in memory that has room for nothing else."""
    return (
        type(tensor) in (torch.Tensor, Parameter)
        and tensor.layout is torch.strided
        and tensor.is_leaf
        and not vars(tensor)
        and not tensor._backward_hooks
        and tensor.grad is None
        and tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size() > 0
    )


def _like(tensor: torch.Tensor, *, spoilt: bool, wide: bool) -> torch.Tensor:
    """Return a tensor of the same kind and layout, without its values."""
    dtype = torch.float64 if wide and tensor.is_floating_point() else tensor.dtype
    made = torch.empty_like(tensor, dtype=dtype, requires_grad=False)
    if spoilt and made.is_floating_point():
        made.fill_(math.nan)
    if isinstance(tensor, Parameter):
        return Parameter(made, requires_grad=tensor.requires_grad)
    return made.requires_grad_(tensor.requires_grad)
