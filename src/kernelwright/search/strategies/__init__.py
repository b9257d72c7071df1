"""Evaluated candidates → the edit to request next. One file per strategy, found by name."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ...errors import InputError
from ...records import Scalar
from ...registry import Registry
from ._numbered import NumberedStrategy
from ._protocol import Means, Strategy
from ._settings import Setting, check_settings, read_settings, settings_of

_STRATEGIES = Registry("strategies", "strategy")
DEFAULT_STRATEGY = "evolve"

Settings = Mapping[str, Scalar]
"""A strategy's own settings by name; each strategy documents its settings."""


def make_strategy(name: str, means: Means, settings: Settings | None = None) -> Strategy:
    """Make a strategy by name.

    Raises:
        NotFoundError: no strategy is registered under the name.
        InputError: it has no such setting, or no editor supports its operators.
    """
    make = _loaded(name)
    check_settings(name, settings_of(make), settings or {})
    if not {"draft", "improve"}.intersection(means.operators):
        raise InputError(
            f"strategy {name!r} needs an editor that knows `draft` or `improve`; "
            f"known operators: {', '.join(means.operators) or 'none'}"
        )
    try:
        strategy: Strategy = make(means, **(settings or {}))
        make(means, **(settings or {})).ask()  # some invalid settings show only on the first ask
    except (TypeError, ValueError, ArithmeticError, LookupError) as error:
        raise InputError(f"strategy {name!r} cannot be made with {dict(settings or {})!r}: {error}") from None
    return strategy


@dataclass(frozen=True)
class StrategyDescription:
    """Name, description and settings of a strategy."""

    name: str
    """Its name."""
    what: str
    """One-sentence description."""
    settings: tuple[Setting, ...]
    """Its settings."""


def strategy_description(name: str) -> StrategyDescription:
    """Describe a strategy and its settings.

    Raises:
        NotFoundError: no strategy is registered under the name.
    """
    make = _loaded(name)
    return StrategyDescription(name, (inspect.getdoc(make) or "").partition("\n\n")[0], settings_of(make))


def settings_in(name: str, words: Sequence[str]) -> dict[str, Scalar]:
    """Read `NAME=VALUE` words as settings of a strategy.

    Raises:
        NotFoundError: no strategy is registered under the name.
        InputError: it has no such setting, or the value is of another type.
    """
    return read_settings(name, settings_of(_loaded(name)), words)


def _loaded(name: str) -> Callable[..., Strategy]:
    make: Callable[..., Strategy] = _STRATEGIES.load(name)
    return make


def strategy_names() -> tuple[str, ...]:
    """Return the names of all registered strategies."""
    return _STRATEGIES.names()


__all__ = [
    "DEFAULT_STRATEGY",
    "Means",
    "NumberedStrategy",
    "Setting",
    "Settings",
    "Strategy",
    "StrategyDescription",
    "make_strategy",
    "settings_in",
    "strategy_description",
    "strategy_names",
]  # fmt: skip
