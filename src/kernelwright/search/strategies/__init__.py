"""What was found → which edit to ask for next. One file a strategy, found by name."""

from collections.abc import Mapping
from importlib.metadata import entry_points

from ...errors import InputError, NotFoundError
from ...records import Scalar
from ._numbered import NumberedStrategy
from ._protocol import Means, Strategy

GROUP = "kernelwright.strategies"
DEFAULT_STRATEGY = "evolve"

Settings = Mapping[str, Scalar]
"""A strategy's own settings by name; each file says which it has."""


def make_strategy(name: str, means: Means, settings: Settings | None = None) -> Strategy:
    """Make the strategy of that name.

    Raises:
        NotFoundError: no strategy is registered under the name.
        InputError: it has no such setting, or there is no editor whose operators it could use.
    """
    found = {point.name: point for point in entry_points(group=GROUP)}
    if name not in found:
        raise NotFoundError(f"no strategy is called {name!r}; there are {', '.join(sorted(found))}")
    if not {"draft", "improve"}.intersection(means.operators):
        raise InputError(
            f"strategy {name!r} needs an editor that knows `draft` or `improve`; "
            f"known operators: {', '.join(means.operators) or 'none'}"
        )
    try:
        strategy: Strategy = found[name].load()(means, **(settings or {}))
    except TypeError as error:
        raise InputError(f"strategy {name!r} cannot be made with {dict(settings or {})!r}: {error}") from None
    return strategy


def strategy_names() -> tuple[str, ...]:
    """Name every strategy that is registered."""
    return tuple(sorted(point.name for point in entry_points(group=GROUP)))


__all__ = [
    "DEFAULT_STRATEGY", "Means", "NumberedStrategy", "Settings", "Strategy", "make_strategy", "strategy_names",
]  # fmt: skip
