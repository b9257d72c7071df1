"""A problem that makes its module once and loads each state into it: drawing millions of weights takes longer than
most calls on small inputs.

Covers: modules of which a call changes nothing but parameters and persistent buffers; configurations and other objects
of plain Python classes, whose attributes are looked at.
Does not cover: what a module keeps in other objects or changes in its file's globals; each call of the
judge has a module of its own.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import torch

from ..records import Workload
from ._problem import Problem

_KNOWN = (FunctionType, BuiltinFunctionType, MethodType, type, torch.dtype, torch.device, Enum)
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_STATE = ("_parameters", "_buffers")
Marks = list[object]


class _Plain:
    """An object that has nothing but attributes."""


class Reused(Problem):
    """The same problem for calls whose results are looked at and forgotten.

    Example:
        >>> from kernelwright.tasks import Problem, load_task
        >>> problem = Problem(load_task("examples/swiglu.py"))
        >>> Reused(problem).task is problem.task
        True
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.task)
        self._states = problem._states
        self._kept: tuple[str, torch.nn.Module, Marks] | None = None

    def reference(
        self, workload: Workload, state: Mapping[str, torch.Tensor] | None = None
    ) -> Callable[..., Any]:
        """Return the module of the last call if it is as it was made, with the state loaded; else a fresh one."""
        key = self.sources(workload).key
        if state is not None and self._kept is not None and self._kept[0] == key:
            _, kept, marks = self._kept
            if marks_of(kept) == marks:
                kept.load_state_dict(dict(state))
                return kept
        self._kept = None
        made = super().reference(workload, state)
        if isinstance(made, torch.nn.Module) and (fresh := marks_of(made)) is not None:
            self._kept = key, made, fresh
        return made

    def _kind(self, workload: Workload, state: Mapping[str, torch.Tensor]) -> None:
        """Copy none: the one that was made is used again."""


def marks_of(module: torch.nn.Module) -> Marks | None:
    """Return what tells whether a module but for its state is as it was; none where that cannot be told.

    Example:
        >>> layer = torch.nn.Linear(2, 3)
        >>> before = marks_of(layer)
        >>> layer.weight.data.zero_(), marks_of(layer) == before
        (tensor([[0., 0.],
                [0., 0.],
                [0., 0.]]), True)
        >>> layer.calls = 1
        >>> marks_of(layer) == before
        False
    """
    try:
        return [
            (name, _of_state(part, name, value) if name in _STATE else _mark(value))
            for part in module.modules()
            for name, value in vars(part).items()
        ]
    except _UnknownError:
        return None


class _UnknownError(Exception):
    """Something whose changes do not show."""


class _Same:
    """Equal to itself only, and kept so that nothing new takes its place in memory."""

    def __init__(self, value: object, *facts: object) -> None:
        self._value, self._facts = value, facts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self._value is other._value and self._facts == other._facts

    def __hash__(self) -> int:
        return id(self._value)


def _of_state(part: torch.nn.Module, name: str, tensors: dict[str, torch.Tensor | None]) -> Marks:
    """Mark parameters or buffers; the values of those that a state replaces do not count."""
    return [
        (
            k,
            _mark(t)
            if t is None or (name == "_buffers" and k in part._non_persistent_buffers_set)
            else _Same(t, t.dtype),
        )
        for k, t in tensors.items()
    ]


def _mark(value: object, within: tuple[object, ...] = ()) -> object:
    """Return what is equal as long as a value is unchanged; `within` are the objects that it was found in."""
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, torch.Tensor):
        return _Same(value, value.dtype, value._version)
    if isinstance(value, (torch.nn.Module, *_KNOWN)):
        return _Same(value)
    if isinstance(value, dict):
        return [(k, _mark(v, within)) for k, v in value.items()]
    if isinstance(value, list | tuple):
        return [_mark(v, within) for v in value]
    if isinstance(value, set | frozenset):
        return frozenset(map(_mark, value))
    if any(value is one for one in within):
        return _Same(value)
    if _has_attributes_alone(type(value)):
        return [_Same(value), *((k, _mark(v, (*within, value))) for k, v in vars(value).items())]
    raise _UnknownError


def _has_attributes_alone(kind: type) -> bool:
    """Tell whether objects of a class have no room but for a dictionary of attributes, as those in C or with slots."""
    return kind.__basicsize__ == _Plain.__basicsize__ and not kind.__itemsize__ and kind.__dictoffset__ != 0
