"""What a reference computes of no input and no weight: such values are the same in every call.

Position buckets, masks and tables of angles are made of `arange` and the like. Where a whole number or a yes or no is
made of them, an honest kernel has the same one, however it rounds: it is computed ahead, or written down.

Covers: results of operators that are given no tensor, and of operators on those alone; views of them; writing to them.
Does not cover: tensors that the reference holds, such as buffers; random numbers.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map
from torch.utils.weak import WeakTensorKeyDictionary

_DISCRETE = frozenset({"floor", "ceil", "round", "trunc", "sign", "sgn", "floor_divide"})
"""Operators that give whole numbers as floats."""


class Constants:
    """The values that depend on no input, each with its value before any rounding.

    Example:
        >>> known = Constants()
        >>> made = torch.arange(3.0)
        >>> known.note(torch.ops.aten.arange.default, (), made, made)
        >>> known.exact(torch.ops.aten.neg.default, (made,)) == (made,)
        True
        >>> known.exact(torch.ops.aten.neg.default, (torch.ones(3),)) is None
        True
    """

    def __init__(self) -> None:
        self._exact: Any = WeakTensorKeyDictionary()
        """Constant → its value unrounded; none where that is itself, which would keep it alive."""

    def exact(self, func: Any, given: Any) -> Any:
        """Return an operator's arguments unrounded if they are constants, else none."""
        if torch.Tag.nondeterministic_seeded in func.tags:
            return None
        if not all(t in self._exact for t in _tensors(given)):
            return None
        rounded = any(self._exact[t] is not None for t in _tensors(given))
        return tree_map(self._of, given) if rounded else given

    def note(self, func: Any, given: Any, result: Any, exact: Any) -> None:
        """Note a result as a constant, with the same unrounded; or that it is none, where `exact` is none."""
        if exact is not None:
            for one, unrounded in zip(_tensors(result), _tensors(exact), strict=True):
                self._exact[one] = None if unrounded is one else unrounded
            return
        if func._schema.is_mutable and self._exact:
            written = {t.untyped_storage()._cdata for t in _tensors((result, given))}
            for one in [t for t in self._exact if t.untyped_storage()._cdata in written]:
                del self._exact[one]

    def _of(self, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        found = self._exact[value]
        return value if found is None else found


def is_discrete(func: Any, result: Any) -> bool:
    """Tell whether an operator makes whole numbers, or a yes or no, of what it is given.

    Example:
        >>> is_discrete(torch.ops.aten.floor.default, torch.ones(1)), is_discrete(None, torch.ones(1).long())
        (True, True)
    """
    if func is not None and func.overloadpacket.__name__.removesuffix("_") in _DISCRETE:
        return True
    return not any(t.is_floating_point() or t.is_complex() for t in _tensors(result))


def _tensors(values: Any) -> Iterator[Tensor]:
    """Yield the tensors in what an operator is given or gives: they lie in tuples, lists and dictionaries alone."""
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, tuple | list | dict):
        for value in values.values() if isinstance(values, dict) else values:
            yield from _tensors(value)
