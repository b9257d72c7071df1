"""A strategy's settings: their names, meanings and defaults, and `NAME=VALUE` words → values."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import InputError
from ...records import Scalar

_ARGUMENT = re.compile(r"^ *(\w+): (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Setting:
    """One setting of a strategy."""

    name: str
    """Its name."""
    default: bool | int | float | str
    """Its default value."""
    what: str
    """What it means."""

    def read(self, text: str) -> Scalar:
        """Read a value of the default's type.

        Raises:
            ValueError: the text is not such a value.
        """
        if isinstance(self.default, bool):
            return (
                {"true": True, "false": False}[text.lower()]
                if text.lower() in {"true", "false"}
                else _no(text)
            )
        return type(self.default)(text)


def settings_of(make: Callable[..., Any]) -> tuple[Setting, ...]:
    """Return the settings of a strategy, from its signature and its docstring.

    Example:
        >>> from kernelwright.search.strategies.best_of import BestOf
        >>> [(s.name, s.default) for s in settings_of(BestOf)]
        [('n', 32)]
    """
    init = make.__init__ if inspect.isclass(make) else make
    said = dict(_ARGUMENT.findall(inspect.getdoc(init) or ""))
    return tuple(
        Setting(p.name, p.default, said.get(p.name, ""))
        for p in inspect.signature(make).parameters.values()
        if p.kind is p.KEYWORD_ONLY and isinstance(p.default, bool | int | float | str)
    )


def check_settings(name: str, known: Sequence[Setting], given: Mapping[str, object]) -> None:
    """Check that a strategy has all given settings.

    Raises:
        InputError: it lacks one; the message lists those that it has.
    """
    for one in given:
        if one not in {s.name for s in known}:
            raise InputError(f"strategy {name!r} has no setting {one!r}; {_listed(known)}")


def read_settings(name: str, known: Sequence[Setting], words: Sequence[str]) -> dict[str, Scalar]:
    """Read `NAME=VALUE` words.

    Raises:
        InputError: a word is of another form, names no setting, or its value is of another type.
    """
    by_name, values = {s.name: s for s in known}, dict[str, Scalar]()
    for word in words:
        key, equals, text = word.partition("=")
        if not equals:
            raise InputError(f"setting {word!r} has no value; expected NAME=VALUE; {_listed(known)}")
        check_settings(name, known, {key: text})
        try:
            values[key] = by_name[key].read(text)
        except ValueError:
            kind = type(by_name[key].default).__name__
            raise InputError(
                f"setting {key!r} of strategy {name!r} is {text!r}; expected {kind}, such as {by_name[key].default}"
            ) from None
    return values


def _listed(known: Sequence[Setting]) -> str:
    return f"it has {', '.join(f'{s.name}={s.default}' for s in known) or 'none'}"


def _no(text: str) -> Scalar:
    raise ValueError(text)
