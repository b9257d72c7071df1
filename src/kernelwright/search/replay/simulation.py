"""Recorded space, tuner → what the tuner would have found: parameter search without a device.

A recorded space is a table with one row per configuration. Every column before `time_ms` is a parameter; a
row whose `time_ms` is empty failed to build or to run; columns after it are for people. A configuration
that is not in the table does not exist.
"""

import csv
import gzip
import math
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from ...errors import InputError
from ...records import Configuration, Parameter, Scalar, Space
from ..tuners import Observation, Tuner

_TIME = "time_ms"


class ListedSpace(Space):
    """A space given as a list of configurations instead of constraints.

    Example:
        >>> tile = Parameter(name="tile", values=(8, 16, 32))
        >>> space = ListedSpace(parameters=(tile,), listed=((32,), (8,)))
        >>> list(space.configurations()), space.allows({"tile": 16})
        ([{'tile': 32}, {'tile': 8}], False)
    """

    listed: tuple[tuple[Scalar, ...], ...]
    """The values of every allowed configuration, in the order of the parameters."""

    def allows(self, configuration: Configuration) -> bool:
        """Return whether the configuration is listed."""
        return tuple(configuration[p.name] for p in self.parameters) in self._members

    def configurations(self) -> Iterator[Configuration]:
        """Yield every listed configuration in list order."""
        names = [p.name for p in self.parameters]
        return (dict(zip(names, values, strict=True)) for values in self.listed)

    @cached_property
    def _members(self) -> frozenset[tuple[Scalar, ...]]:
        return frozenset(self.listed)


@dataclass(frozen=True)
class RecordedSpace:
    """A space with the time of every configuration."""

    name: str
    """The file's name without its suffixes."""
    space: Space
    """The parameters and the allowed configurations."""
    times_us: dict[tuple[Scalar, ...], float | None]
    """Microseconds by values in the order of the parameters. None if the configuration failed."""

    @classmethod
    def load(cls, path: Path) -> "RecordedSpace":
        """Read a table (`.csv` or `.csv.gz`).

        Raises:
            InputError: there is no such file, or it is not a table of configurations and times.
        """
        rows = _rows(path)
        if not rows or _TIME not in rows[0][1:]:
            raise InputError(f"{path}: expected a header with parameters before a column `{_TIME}`")
        names = rows[0][: rows[0].index(_TIME)]
        if len(set(names)) < len(names):
            raise InputError(f"{path}: two parameters have the same name; rename one of the columns")
        configurations: list[Configuration] = []
        times_us: list[float | None] = []
        for number, row in enumerate(rows[1:], start=2):
            if len(row) != len(rows[0]):
                raise InputError(f"{path}, line {number}: {len(row)} cells; expected {len(rows[0])}")
            configurations.append({name: _scalar(row[i]) for i, name in enumerate(names)})
            times_us.append(_time_us(row[len(names)], f"{path}, line {number}"))
        if not any(t is not None for t in times_us):
            raise InputError(f"{path}: no row has a `{_TIME}`; at least one configuration must have worked")
        recorded = cls.of(path.name.removesuffix(".gz").removesuffix(".csv"), configurations, times_us)
        if len(recorded.times_us) < len(configurations):
            raise InputError(f"{path}: a configuration stands in two rows; keep one row for each")
        return recorded

    @classmethod
    def of(
        cls, name: str, configurations: Sequence[Configuration], times_us: Sequence[float | None]
    ) -> "RecordedSpace":
        """Make a recorded space from configurations and their times, in the same order."""
        names = list(configurations[0])
        listed = tuple(tuple(c[n] for n in names) for c in configurations)
        values = [_in_order({row[i]: None for row in listed}) for i in range(len(names))]
        parameters = tuple(Parameter(name=n, values=v) for n, v in zip(names, values, strict=True))
        space = ListedSpace(parameters=parameters, listed=listed)
        return cls(name, space, dict(zip(listed, times_us, strict=True)))

    @classmethod
    def planted(
        cls, name: str, space: Space, time_us: Callable[[Configuration], float | None]
    ) -> "RecordedSpace":
        """Make a recorded space whose times come from a formula."""
        return cls(name, space, {tuple(c.values()): time_us(c) for c in space.configurations()})

    def save(self, path: Path) -> None:
        """Write the table that `load` reads; the same times give the same bytes."""
        lines = [",".join([*(p.name for p in self.space.parameters), _TIME])]
        for values, time_us in self.times_us.items():
            lines.append(",".join([*map(str, values), "" if time_us is None else f"{time_us / 1e3:.6g}"]))
        data = "\n".join([*lines, ""]).encode()
        path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)

    def time_us(self, configuration: Configuration) -> float | None:
        """Return the configuration's time."""
        return self.times_us[tuple(configuration[p.name] for p in self.space.parameters)]

    @property
    def best_us(self) -> float:
        """The least time in the space."""
        return min(t for t in self.times_us.values() if t is not None)

    @property
    def observations(self) -> tuple[Observation, ...]:
        """Every configuration with its time, for a tuner's warm start on another space."""
        names = [p.name for p in self.space.parameters]
        return tuple(
            Observation(dict(zip(names, values, strict=True)), time_us)
            for values, time_us in self.times_us.items()
        )


@dataclass(frozen=True)
class Simulation:
    """A tuner's results on a recorded space, seed by seed."""

    curves_us: tuple[tuple[float, ...], ...]
    """Best time after each evaluation, one curve per seed; infinite until something works."""
    best_us: float
    """The least time in the space."""
    ask_s: float
    """Mean CPU seconds of the tuner per evaluation: its `ask` and `tell` together."""

    @property
    def fractions(self) -> tuple[float, ...]:
        """The optimum's time over the best time found, one per seed: 1 is the optimum, 0 means nothing worked."""
        return tuple(self.best_us / curve[-1] for curve in self.curves_us)

    def quantile(self, share: float) -> float:
        """Return a quantile of the fractions."""
        return float(np.quantile(self.fractions, share))

    def worst_median(self, seeds: int) -> float:
        """Return the lowest median of the fractions over any `seeds` consecutive seeds, or over all if there are fewer.

        Example:
            >>> Simulation(curves_us=((10.0,), (10.0,), (20.0,), (40.0,)), best_us=10.0, ask_s=0.0).worst_median(2)
            0.375
        """
        found = self.fractions
        starts = range(max(1, len(found) - seeds + 1))
        return min(float(np.median(found[start : start + seeds])) for start in starts)


def replay(recorded: RecordedSpace, tuner: Tuner, evaluations: int) -> list[float]:
    """Run a tuner on a recorded space; return its best time after each evaluation.

    Failures count as evaluations. Times are infinite until something works; the list is shorter than `evaluations`
    if the space was used up.
    """
    best_us = math.inf
    curve: list[float] = []
    while len(curve) < evaluations and (configuration := tuner.ask()) is not None:
        time_us = recorded.time_us(configuration)
        tuner.tell(configuration, time_us)
        best_us = min(best_us, math.inf if time_us is None else time_us)
        curve.append(best_us)
    return curve


def simulate(
    recorded: RecordedSpace,
    make: Callable[[Space, int], Tuner],
    *,
    evaluations: int,
    seeds: int,
    first_seed: int = 0,
) -> Simulation:
    """Replay a recorded space once per seed; another first seed validates a choice made on these seeds.

    Example:
        >>> from kernelwright.search.tuners import make_tuner
        >>> space = Space(parameters=(Parameter(name="tile", values=(1, 2, 4, 8)),))
        >>> recorded = RecordedSpace.planted("tiles", space, lambda c: 8.0 / c["tile"])
        >>> found = simulate(recorded, lambda s, seed: make_tuner("random", s, seed), evaluations=4, seeds=3)
        >>> found.fractions
        (1.0, 1.0, 1.0)
    """
    curves, elapsed_s = [], 0.0
    for seed in range(first_seed, first_seed + seeds):
        tuner = make(recorded.space, seed)
        started = time.process_time()
        curves.append(tuple(replay(recorded, tuner, evaluations)))
        elapsed_s += time.process_time() - started
    return Simulation(tuple(curves), recorded.best_us, elapsed_s / max(1, sum(map(len, curves))))


def _rows(path: Path) -> list[list[str]]:
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} cannot be read as a recorded space (.csv or .csv.gz): {getattr(error, 'strerror', None) or error}"
        ) from None
    return [row for row in csv.reader(text.splitlines()) if row]


def _time_us(text: str, where: str) -> float | None:
    if not text.strip():
        return None
    try:
        time_ms = float(text)
    except ValueError:
        time_ms = math.nan
    if not 0 < time_ms < math.inf:
        raise InputError(
            f"{where}: `{_TIME}` is {text!r}; expected a positive number of milliseconds, or nothing where it failed"
        )
    return time_ms * 1e3


def _scalar(text: str) -> Scalar:
    if text in {"True", "False"}:
        return text == "True"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _in_order(values: dict[Scalar, None]) -> tuple[Scalar, ...]:
    """Sort the values if all are numbers; otherwise keep the order in which they were first seen."""
    numbers = [v for v in values if isinstance(v, int | float)]
    return tuple(sorted(numbers)) if len(numbers) == len(values) else tuple(values)
