"""Program → the same program without names that are reserved in the language."""

import re
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from ..graph import Size
from ..tile import NativeCall, Program

_NAMED = frozenset({"name", "buffer", "axis", "accumulator"})
_T = TypeVar("_T")


def renamed(program: Program, taken: frozenset[str]) -> Program:
    """Append an underscore to every name in `taken`, including sizes; native steps keep theirs."""
    steps = tuple(
        _native(s, taken) if isinstance(s, NativeCall) else _renamed(s, taken) for s in program.steps
    )
    names = {node: _free(name, taken) for node, name in program.names.items()}
    updates = tuple((_free(old, taken), _free(new, taken)) for old, new in program.updates)
    return replace(
        program, name=_free(program.name, taken), buffers=_renamed(program.buffers, taken), steps=steps,
        names=names, updates=updates,
        symbols={_free(name, taken): place for name, place in program.symbols.items()},
        guards=tuple(_rule(guard, taken) for guard in program.guards),
    )  # fmt: skip


def _free(name: str, taken: frozenset[str]) -> str:
    return f"{name}_" if name in taken else name


def _rule(text: str, taken: frozenset[str]) -> str:
    """Rename the symbols of a size's rule."""
    return re.sub(r"[A-Za-z_]\w*", lambda found: _free(found[0], taken), text)


def _native(step: NativeCall, taken: frozenset[str]) -> NativeCall:
    return replace(step, reads=tuple(_free(r, taken) for r in step.reads), writes=_free(step.writes, taken))


def _renamed(value: _T, taken: frozenset[str]) -> _T:
    if isinstance(value, Size):
        return Size(_rule(value.text, taken), value.values)  # type: ignore[return-value]  # a size stays a size
    if isinstance(value, tuple):
        return tuple(_renamed(v, taken) for v in value)  # type: ignore[return-value]  # a tuple stays a tuple
    if not is_dataclass(value) or isinstance(value, type):
        return value
    changes: dict[str, Any] = {}
    for f in fields(value):
        old = getattr(value, f.name)
        if f.name in _NAMED and isinstance(old, str):
            changes[f.name] = _free(old, taken)
        else:
            changes[f.name] = _renamed(old, taken)
    return replace(value, **changes)
