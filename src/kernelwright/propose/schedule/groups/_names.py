"""Program → the same program without names that mean something in the language."""

from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from ..tile import NativeCall, Program

_NAMED = frozenset({"name", "buffer", "axis", "accumulator"})
_T = TypeVar("_T")


def renamed(program: Program, taken: frozenset[str]) -> Program:
    """Put an underscore behind every name that is among `taken`; sizes keep theirs."""
    steps = tuple(s if isinstance(s, NativeCall) else _renamed(s, taken) for s in program.steps)
    return replace(program, buffers=_renamed(program.buffers, taken), steps=steps)


def _renamed(value: _T, taken: frozenset[str]) -> _T:
    if isinstance(value, tuple):
        return tuple(_renamed(v, taken) for v in value)  # type: ignore[return-value]  # a tuple stays a tuple
    if not is_dataclass(value) or isinstance(value, type):
        return value
    changes: dict[str, Any] = {}
    for f in fields(value):
        old = getattr(value, f.name)
        if f.name in _NAMED and isinstance(old, str):
            changes[f.name] = f"{old}_" if old in taken else old
        else:
            changes[f.name] = _renamed(old, taken)
    return replace(value, **changes)
