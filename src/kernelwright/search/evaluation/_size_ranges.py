"""A kernel accepted at one size → the sizes it may serve: ranges of each symbol, opened where it was looked at.

Covers: neighbours of the accepted size, shares and multiples of it, the extremes and their corners; each is verified,
and timed against the native op, before a range reaches it; kernels that serve multiples of a number only.
Does not cover: sizes between two that were looked at, which are taken to be like them; sizes beyond the extremes.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from ...records import ServedSizes, SizeOutcome, SizeProbe, SymbolRange, TensorSpec, Workload
from ...tasks.workloads.symbols import Symbol, Symbols

_MOST_SYMBOLS = 3
"""Symbols that are opened; those of the largest values."""
_MOST_MULTIPLE = 128
_LARGEST = 2
"""Times the accepted size that is the largest looked at."""
_MOST_ELEMENTS = 1 << 22
"""Elements of the arguments up to which a size is looked at, or twice those of the accepted one if that is more."""

_OUTCOMES = {
    SizeOutcome.SERVED: "was verified, and timed against the native op (times as fast), at",
    SizeOutcome.SLOWER: "is slower, so that the native op is kept, at",
    SizeOutcome.DECLINED: "declines, so that the native op is kept, at",
    SizeOutcome.OPEN: "was not timed, so that the native op is kept, at",
    SizeOutcome.WRONG: "is wrong at",
}

Values = dict[str, int]
Look = Callable[[Workload], SizeOutcome]
"""Says whether the kernel is right at another size: `SERVED` where it is."""
Time = Callable[[Sequence[Workload]], Mapping[str, float]]
"""Returns the median ratio of the native op's time to the kernel's, by workload; none where it was not timed."""


def told_sizes(sizes: ServedSizes, *, evidence: bool = False) -> Iterator[str]:
    """Say which ranges a kernel serves, where the native op is kept, and with `evidence` what was looked at."""
    for box in sizes.boxes:
        yield f"serves {', '.join(map(str, box))}"
    for outcome, words in _OUTCOMES.items() if evidence else ():
        if seen := [_told_probe(p) for p in sizes.probes if p.outcome is outcome]:
            yield f"{words}: {'; '.join(seen)}"
    yield from sizes.notes


def _told_probe(probe: SizeProbe) -> str:
    at = ", ".join(f"{name} {value}" for name, value in probe.sizes.items())
    return f"{at} ({probe.speedup:.2f})" if probe.speedup is not None else at


class WrongAtAnotherSizeError(Exception):
    """The kernel is wrong at a size that it does not decline."""


@dataclass(frozen=True)
class _Way:
    """Values of one symbol, from the accepted one outwards."""

    symbol: Symbol
    multiple: int
    values: list[int]

    def at(self, value: int) -> Values:
        return {self.symbol.name: value}


@dataclass
class Opening:
    """Opens ranges around one workload that a kernel was accepted on."""

    symbols: Symbols
    look: Look
    time: Time
    _found: dict[tuple[tuple[str, int], ...], SizeProbe] = field(default_factory=dict)
    _workloads: dict[tuple[tuple[str, int], ...], Workload] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def run(self) -> ServedSizes:
        """Look around and return what may be served.

        Raises:
            WrongAtAnotherSizeError: the kernel is wrong somewhere; `found` keeps the evidence.
        """
        ways = self._ways(sorted(self.symbols.free, key=lambda s: -s.value)[:_MOST_SYMBOLS])
        self._timed([way.at(v) for way in ways for v in self._served_on(way)])
        ranges = [self._range(down, up) for down, up in zip(ways[::2], ways[1::2], strict=True)]
        opened = [r for r in ranges if r.low < r.high]
        boxes: list[tuple[SymbolRange, ...]] = []
        if len(opened) > 1 and self._corners(opened):
            boxes.append(self._box(opened))
        else:
            boxes.extend(self._box([one]) for one in opened)
        return self.found(tuple(boxes))

    def found(self, boxes: tuple[tuple[SymbolRange, ...], ...] = ()) -> ServedSizes:
        """Return the evidence so far."""
        return ServedSizes(
            workload=self.symbols.workload.name, arguments=self.symbols.arguments, boxes=boxes,
            probes=tuple(map(_as_known, self._found.values())), notes=(*self.symbols.notes, *self.notes),
        )  # fmt: skip

    def _ways(self, chosen: Sequence[Symbol]) -> list["_Way"]:
        """Return two ways for each symbol that a neighbour of is served, down and up, all others as accepted."""
        ways: list[_Way] = []
        for symbol in chosen:
            base, multiple = symbol.value, self._multiple(symbol)
            if multiple:
                down = _steps((base - multiple, base // 2, base // 8, 1), multiple, below=base)
                up = _steps((base + multiple, base * _LARGEST), multiple, above=base)
                ways += [_Way(symbol, multiple, down), _Way(symbol, multiple, up)]
        return ways

    def _range(self, *ways: "_Way") -> SymbolRange:
        """Return the range between the last values that are served on two ways, those before them too."""
        symbol, multiple = ways[0].symbol, ways[0].multiple
        ends = [symbol.value]
        for way in ways:
            ends += self._served_on(way)
        return SymbolRange(symbol=symbol.name, low=min(ends), high=max(ends), multiple=multiple)

    def _multiple(self, symbol: Symbol) -> int:
        """Return what a value has to be a multiple of; 0 where no neighbour is served."""
        neighbours = [self._seen({symbol.name: v}) for v in (symbol.value - 1, symbol.value + 1) if v > 0]
        if any(p is not None and p.outcome is SizeOutcome.SERVED for p in neighbours):
            return 1
        multiple = 2
        while multiple <= _MOST_MULTIPLE and symbol.value % multiple == 0:
            for value in (symbol.value - multiple, symbol.value + multiple):
                probe = self._seen({symbol.name: value}) if value > 0 else None
                if probe is not None and probe.outcome is SizeOutcome.SERVED:
                    return multiple
            multiple *= 2
        self.notes.append(f"{symbol.name} stays {symbol.value}: the kernel serves no neighbour of it")
        return 0

    def _served_on(self, way: "_Way") -> list[int]:
        """Return the values up to the first that is not served; untimed yet, that it is not right at."""
        return list(itertools.takewhile(lambda value: self._is_served(way.at(value)), way.values))

    def _corners(self, opened: Sequence[SymbolRange]) -> bool:
        """Tell whether the ranges hold together: at every corner of the box that they make."""
        corners = [
            dict(zip((r.symbol for r in opened), ends, strict=True))
            for ends in itertools.product(*((r.low, r.high) for r in opened))
        ]
        right = [c for c in corners if self._is_served(c)]
        if len(right) == len(corners):
            self._timed(right)
        if len(right) == len(corners) and all(map(self._is_served, corners)):
            return True
        late = not all(c in self._known() for c in corners)
        why = "time was up before all corners were timed" if late else "not all corners are served"
        self.notes.append(f"the ranges hold one at a time: {why}")
        return False

    def _known(self) -> list[Values]:
        """Return the sizes of which something is known but that the kernel is right."""
        return [p.sizes for p in map(_as_known, self._found.values()) if p.outcome is not SizeOutcome.OPEN]

    def _is_served(self, values: Values) -> bool:
        probe = self._seen(values)
        return probe is not None and probe.outcome is SizeOutcome.SERVED

    def _seen(self, values: Values) -> SizeProbe | None:
        """Return what is known of a size, looked at now if nothing is; none where it cannot be asked for."""
        key = tuple(sorted(values.items()))
        if key not in self._found:
            workload = self.symbols.at(values)
            if workload is None or not self._is_small(workload):
                return None
            outcome = self.look(workload)
            self._workloads[key] = workload
            self._found[key] = SizeProbe(sizes=values, outcome=outcome)
            if outcome is SizeOutcome.WRONG:
                raise WrongAtAnotherSizeError
        return self._found[key]

    def _is_small(self, workload: Workload) -> bool:
        return _elements(workload) <= max(_MOST_ELEMENTS, _LARGEST * _elements(self.symbols.workload))

    def _timed(self, sizes: Iterable[Values]) -> None:
        """Time the kernel where it is right; who is slower, or was not timed, is not served."""
        keys = [k for values in sizes if self._found[k := tuple(sorted(values.items()))].speedup is None]
        ratios = self.time([self._workloads[key] for key in keys]) if keys else {}
        for key in keys:
            ratio = ratios.get(self._workloads[key].name)
            outcome = SizeOutcome.OPEN if ratio is None else SizeOutcome.SLOWER if ratio < 1 else None
            self._found[key] = self._found[key].model_copy(
                update={"speedup": ratio, **({"outcome": outcome} if outcome else {})}
            )

    def _box(self, opened: Sequence[SymbolRange]) -> tuple[SymbolRange, ...]:
        """Return a range for every symbol; of one value for those that are not opened."""
        ranges = {r.symbol: r for r in opened}
        return tuple(
            ranges.get(s.name, SymbolRange(symbol=s.name, low=s.value, high=s.value))
            for s in self.symbols.free
        )


def _steps(values: Iterable[int], multiple: int, *, below: int = 0, above: int = 0) -> list[int]:
    """Return the values as multiples, each once, from the accepted one outwards.

    Example:
        >>> _steps((56, 48, 32, 8, 1), 8, below=64)
        [56, 48, 32, 8]
    """
    rounded = (max(multiple, value // multiple * multiple) for value in values)
    return [v for v in dict.fromkeys(rounded) if v < below or (above and v > above)]


def _as_known(probe: SizeProbe) -> SizeProbe:
    """Leave open what is right and was not timed."""
    untimed = probe.outcome is SizeOutcome.SERVED and probe.speedup is None
    return probe.model_copy(update={"outcome": SizeOutcome.OPEN}) if untimed else probe


def _elements(workload: Workload) -> int:
    return sum(prod(s.shape) for s in (*workload.arguments, *workload.outputs) if isinstance(s, TensorSpec))
