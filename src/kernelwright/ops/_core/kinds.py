"""Kinds: what the annotations of a public function let through, and what its errors mean in its arguments."""

import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, ParamSpec, TypeVar

import torch
from torch.compiler import is_compiling

from ...errors import ArgumentError
from .arguments import refuse, told

_P = ParamSpec("_P")
_R = TypeVar("_R")
_TAKES: dict[Any, tuple[type, ...]] = {
    int: (int, torch.SymInt),
    float: (float, int, torch.SymFloat, torch.SymInt),
    bool: (bool, torch.SymBool),
    Sequence: (list, tuple),
    tuple: (list, tuple),
}
"""Types that stand for one: a whole number for a number, a list for a tuple; none but bool for a bool."""
_MOST = 1 << 31
"""Sizes beyond are taken to be why there was no memory, or a number that does not fit."""
_WORDS = {
    torch.Tensor: "a tensor", int: "a whole number", float: "a number", bool: "True or False", str: "a word",
    type(None): "None", torch.dtype: "a dtype",
}  # fmt: skip


@dataclass
class Kind:
    """What one argument may be."""

    takes: tuple[type, ...]
    """Types, and those under them."""
    words: str
    """What an error says was expected."""
    choices: tuple[Any, ...] = ()
    """Values, where only some are allowed."""
    layout: torch.layout = torch.strided
    """Of a tensor: what an annotation `Annotated[Tensor, layout]` says."""
    known: set[type] = field(default_factory=set)
    """Types that were let through, so that the next look is short."""
    each: "tuple[Kind, ...]" = ()
    """Of a tuple, the kinds of its parts; of a list, the kind of all."""

    def parts(self, given: object) -> Iterator[tuple[Any, "Kind"]]:
        """Return the parts of a list or tuple, each with what it may be."""
        if self.each and isinstance(given, list | tuple):
            fixed = len(self.each) == len(given)
            for i, one in enumerate(given):
                yield one, self.each[i if fixed else 0]

    def lets(self, given: object) -> bool:
        """Tell whether it is of this kind."""
        kind = type(given)
        fits = isinstance(given, self.takes) and (kind is not bool or bool in self.takes)
        if self.choices:
            return fits and (given is None or given in self.choices)
        if fits:
            self.known.add(kind)
        return fits


def checked(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Refuse arguments that are not of the kinds that a function's annotations name, in the function's own name.

    What torch says of layouts, devices and sizes that it cannot take becomes a sentence on the argument that has them.
    Functions that torch.compile traces are called as they are.

    Example:
        >>> @checked
        ... def half(x: torch.Tensor, whole: bool = False) -> torch.Tensor:
        ...     return x // 2 if whole else x / 2
        >>> try:
        ...     half(torch.ones(1), 3)
        ... except ValueError as error:
        ...     print(str(error).partition(": ")[2])
        whole is 3; expected True or False
    """
    kinds_of = functools.cache(functools.partial(_kinds_of, function))  # once all that they name is defined

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if is_compiling():
            return function(*args, **kwargs)
        kinds = kinds_of()
        for given, kind in zip(args, kinds.values(), strict=False):
            if type(given) not in kind.known:
                break
        else:
            for name, given in kwargs.items():
                if name not in kinds or type(given) not in kinds[name].known:
                    break
            else:
                return _called(function, kinds, args, kwargs)
        _look(function, kinds, args, kwargs)
        return _called(function, kinds, args, kwargs)

    return call


def _called(
    function: Callable[..., _R], kinds: dict[str, Kind], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> _R:
    try:
        for one in chain(args, kwargs.values()):
            if isinstance(one, torch.Tensor) and one.is_meta:
                _same_place(chain(args, kwargs.values()))
        return function(*args, **kwargs)
    except Exception as error:  # whatever torch raises of an argument that it cannot take; else raised again
        # an argument that a function within refused after a failure is one of ours by another name
        cause = error.__cause__ if isinstance(error, ArgumentError) else error
        if isinstance(cause, Exception):
            _blame(function, kinds, inspect.signature(function).bind(*args, **kwargs).arguments, cause)
        raise


def _same_place(arguments: Iterable[Any]) -> None:
    """Raise where some tensors have values and some have none: torch would make some up."""
    if not all(one.is_meta for one in arguments if isinstance(one, torch.Tensor)):
        raise NotImplementedError("some tensors have no values")


def _blame(
    function: Callable[..., Any], kinds: dict[str, Kind], arguments: dict[str, Any], error: Exception
) -> None:
    """Refuse an argument that torch or a kernel cannot take at all, if there is one."""
    name, first = _name_of(function), None
    for argument, given in arguments.items():
        kind = kinds[argument]
        parts = list(kind.parts(given))
        if len(kind.each) > 1 and isinstance(given, list | tuple) and len(parts) != len(kind.each):
            refuse(name, argument, f"of {len(parts)} parts", f"{len(kind.each)}", error)
        for part, among in parts:
            if not among.lets(part):
                refuse(name, f"{argument}, a part of it,", _said(part), among.words, error)
        for one in [given, *(part for part, _ in parts)]:
            if isinstance(one, int) and abs(one) > _MOST:
                refuse(name, argument, one, "a number that fits, or a size that memory holds", error)
            if not isinstance(one, torch.Tensor):
                continue
            first = first or (argument, one)
            if one.layout is not kind.layout:
                refuse(name, argument, f"of layout {one.layout}", str(kind.layout), error)
            if one.device != first[1].device:
                refuse(name, argument, f"on {one.device}", f"{first[1].device}, as {first[0]} is", error)
            if one.is_meta:
                refuse(name, argument, "on meta, without values", "a tensor whose values can be read", error)


def _look(
    function: Callable[..., Any], kinds: dict[str, Kind], args: Iterable[Any], kwargs: dict[str, Any]
) -> None:
    """Refuse the first argument that is of the wrong kind; Python refuses those that the function has not."""
    for name, given in inspect.signature(function).bind(*args, **kwargs).arguments.items():
        kind = kinds.get(name)
        if kind and not kind.lets(given):
            refuse(_name_of(function), name, _said(given), kind.words)


def _said(given: object) -> str:
    return repr(given) if isinstance(given, str | int | float | type(None)) else told(given)


def _name_of(function: Callable[..., Any]) -> str:
    """Return `family.function`."""
    family = function.__module__.removeprefix("kernelwright.ops.").partition(".")[0]
    return f"{family}.{function.__qualname__.removesuffix('.__init__')}"


def _kinds_of(function: Callable[..., Any]) -> dict[str, Kind]:
    hints = typing.get_type_hints(function, include_extras=True)
    return {name: _kind(hints.get(name, Any)) for name in inspect.signature(function).parameters}


def _kind(hint: Any) -> Kind:
    origin = typing.get_origin(hint)
    if hint is Any:
        return Kind((object, bool), "anything")
    if origin in (typing.Union, types.UnionType):
        parts = [_kind(one) for one in typing.get_args(hint)]
        takes = tuple(one for part in parts for one in part.takes)
        each = next((p.each for p in parts if p.each), ())
        return Kind(
            takes, " or ".join(p.words for p in parts), tuple(c for p in parts for c in p.choices), each=each
        )
    if origin is typing.Annotated:
        of, layout = typing.get_args(hint)
        return replace(_kind(of), layout=layout)
    if origin is typing.Literal:
        choices = typing.get_args(hint)
        return Kind(tuple({type(c) for c in choices}), " or ".join(map(repr, choices)), choices)
    if origin in (Sequence, tuple):
        each = tuple(_kind(one) for one in typing.get_args(hint))
        count = f"{len(each)} " if len(each) > 1 else ""
        return Kind(_TAKES[origin], f"a list of {count}{each[0].words.removeprefix('a ')}s", each=each)
    return Kind(_TAKES.get(hint, (hint,)), _WORDS.get(hint, f"a {getattr(hint, '__name__', hint)}"))
