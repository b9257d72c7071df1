"""Numbers that a Python candidate keeps, and how to move them, in the worker that has loaded it.

Covers: numbers, lengths of containers and strings, `itertools.count`: in globals of the candidate's files, attributes,
closures, defaults, small containers and arrays; attributes of arguments; new ones of Python's and torch's modules.
Does not cover: what generators and other iterators hold; numbers kept as something else; a worker that was taken over.
"""

import itertools
import re
import sys
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from functools import partial
from pathlib import Path
from threading import local
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

_CANDIDATE = "kernelwright_candidate_"
_MOST_PLACES, _MOST_ELEMENTS, _MOST_DEPTH = 10_000, 256, 8
_MOST_LENGTH = 2_000_000
"""Elements by which anything is made longer at once."""
_COUNT = re.compile(r"count\((-?\d+)\)")


class _Place(NamedTuple):
    """Where a value is kept."""

    path: str
    value: Any
    put: Callable[[Any], object] = lambda _: None


class Counters:
    """The numbers of one candidate, found anew at each look."""

    def __init__(self, kernel: Any, known: Mapping[str, frozenset[str]]) -> None:
        """Look from a kernel, and at what modules hold beyond the names that are `known` of them."""
        self._kernel, self._known = kernel, known

    def values(self, arguments: Iterable[Any]) -> dict[str, float]:
        """Return path → number."""
        found = ((place.path, _number(place.value)) for place in self._places(arguments))
        return {path: number for path, number in found if number is not None}

    def move(self, by: Mapping[str, float], arguments: Iterable[Any]) -> None:
        """Add to numbers, and make longer what has a length."""
        for place in [place for place in self._places(arguments) if place.path in by]:
            place.put(_moved(place.value, by[place.path]))

    def _places(self, arguments: Iterable[Any]) -> Iterator[_Place]:
        own = _own_modules()
        roots = [place for module in own.values() for place in _entries(vars(module), "{}")]
        roots.append(_Place("the entry", self._kernel))
        roots.extend(_Place(f"argument {n}", a) for n, a in enumerate(arguments) if isinstance(a, Tensor))
        for name, known in self._known.items():
            held = _entries(vars(sys.modules[name]), name + ".{}")
            roots.extend(place for place in held if place.path.removeprefix(f"{name}.") not in known)
        seen: set[int] = set()
        waiting = deque((place, 0) for place in roots)
        for _ in range(_MOST_PLACES):
            if not waiting:
                return
            place, depth = waiting.popleft()
            yield place
            if id(place.value) not in seen and depth < _MOST_DEPTH:
                seen.add(id(place.value))
                waiting.extend((inner, depth + 1) for inner in _within(place, own))


def _own_modules() -> dict[str, types.ModuleType]:
    """Return the modules that came from the candidate's files."""
    modules = {name: module for name, module in sys.modules.items() if isinstance(module, types.ModuleType)}
    entries = [module for name, module in modules.items() if name.startswith(_CANDIDATE)]
    folders = {str(Path(module.__file__).parent) for module in entries if module.__file__}
    return {
        n: m for n, m in modules.items() if str(Path(getattr(m, "__file__", None) or "/").parent) in folders
    }


def _within(place: _Place, own: Mapping[str, types.ModuleType]) -> Iterator[_Place]:
    """Yield what a value holds: functions, classes and objects of the candidate's own, containers, arrays."""
    path, value = place.path, place.value
    if isinstance(value, types.FunctionType):
        if any(value.__globals__ is vars(module) for module in own.values()):
            yield from _of_function(path, value)
    elif isinstance(value, types.MethodType):
        yield from (_Place(path, value.__self__), _Place(path, value.__func__))
    elif isinstance(value, partial):
        yield from (_Place(f"{path}({n})", v) for n, v in enumerate((value.func, *value.args)))
    elif isinstance(value, MutableMapping):
        yield from _entries(value, path + "[{!r}]")
    elif isinstance(value, (list, deque, tuple, Tensor, np.ndarray)):
        yield from _of_sequence(path, value)
    if isinstance(value, type):
        if value.__module__ in own:
            yield from (_Place(f"{path}.{n}", v, partial(setattr, value, n)) for n, v in _plain(vars(value)))
    elif type(value).__module__ in own or isinstance(value, (local, types.SimpleNamespace, Tensor)):
        yield _Place(path, type(value))
        yield from _entries(getattr(value, "__dict__", {}), path + ".{}")


def _of_function(path: str, function: types.FunctionType) -> Iterator[_Place]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if cell != types.CellType():
            yield _Place(f"{path}: {name}", cell.cell_contents, partial(setattr, cell, "cell_contents"))
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    yield from (_Place(f"{path}: default {n}", v) for n, v in enumerate(defaults))
    yield from _entries(vars(function), path + ".{}")


def _of_sequence(path: str, value: Any) -> Iterator[_Place]:
    array = isinstance(value, (Tensor, np.ndarray))
    if (np.prod(value.shape) if array else len(value)) > _MOST_ELEMENTS:
        return
    if isinstance(value, Tensor):
        value = value.detach().view(-1) if value.is_contiguous() else value.detach().reshape(-1)
    elif array:
        value = value.reshape(-1)
    for n, element in enumerate(value):
        put = partial(value.__setitem__, n) if hasattr(value, "__setitem__") else lambda _: None
        yield _Place(f"{path}[{n}]", element.item() if array else element, put)


def _entries(names: MutableMapping[Any, Any], form: str) -> Iterator[_Place]:
    return (
        _Place(form.format(name), value, partial(names.__setitem__, name)) for name, value in _plain(names)
    )


def _plain(names: Mapping[Any, Any]) -> list[tuple[Any, Any]]:
    return [(n, v) for n, v in list(names.items()) if not (isinstance(n, str) and n.startswith("__"))]


def _number(value: Any) -> float | None:
    """Return the number that a value stands for: itself, or a length."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return float(value)
    if isinstance(value, itertools.count):
        found = _COUNT.fullmatch(repr(value))
        return float(found[1]) if found else None
    if isinstance(value, (str, bytes, bytearray, tuple, list, deque, set, dict)):
        return float(len(value))
    return None


def _moved(value: Any, by: float) -> Any:
    """Return a larger number, or something longer, in place where that is possible."""
    if isinstance(value, float):
        return value + by
    if isinstance(value, int):
        return value + round(by)
    if isinstance(value, itertools.count):
        return itertools.count(round((_number(value) or 0) + by))
    more = max(0, min(round(by), _MOST_LENGTH))
    if isinstance(value, (list, deque, bytearray)):
        value.extend(itertools.repeat(value[-1], more) if value else ())
    elif isinstance(value, set):
        value.update(object() for _ in range(more))
    elif isinstance(value, dict):
        value.update(
            (object(), last) for last in itertools.repeat(next(reversed(value.values()), None), more)
        )
    else:
        return value + value[-1:] * more
    return value
