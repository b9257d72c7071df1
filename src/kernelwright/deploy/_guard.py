"""From the workloads a candidate was accepted on to the sizes it may serve."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from ..records import Evaluation, Scalar, ScalarSpec, ServedSizes, SizeOf, SymbolRange, TensorSpec, Workload

Box = tuple[SymbolRange, ...]


class Rule(TypedDict, total=False):
    """What one argument must be, as the package's `specialisations.json` has it: a scalar by `value` alone."""

    value: Scalar | tuple[Scalar, ...]
    """Of a scalar."""
    dtype: str
    """Of a tensor, like all that follows."""
    device: str
    """`cpu` or `cuda`."""
    sizes: list[list[int]]
    """The least and the most of each axis."""
    symbols: list[list[Any] | None]
    """What each axis follows from, where sizes move together: `[name, scale, offset, multiple]`, or nothing. A symbol
    has one value in a call."""


@dataclass(frozen=True)
class Specialisation:
    """One accepted candidate and the timed workloads it serves."""

    evaluation: Evaluation
    workloads: tuple[Workload, ...]
    """Those on which it was accepted; sizes between theirs are served too."""
    sizes: ServedSizes | None = None
    """What was opened around the workload, where there is one."""
    box: Box = ()
    """Which of the ranges that were opened this is; none where it is the workloads' own."""

    @property
    def name(self) -> str:
        """The folder's name: language and content hash."""
        return f"{self.evaluation.candidate.language}-{self.evaluation.candidate.key}"


def guard(workloads: Sequence[Workload], device: str) -> list[Rule]:
    """Return one rule an argument: equal scalars, dtypes and ranks; sizes within the timed ones.

    Raises:
        ValueError: no workloads, or workloads whose arguments differ in kind, dtype or rank.

    Example:
        >>> x = TensorSpec(name="x", shape=(4, 8), dtype="float32")
        >>> y = x.model_copy(update={"shape": (6, 8)})
        >>> guard([Workload(name="a", arguments=(x,)), Workload(name="b", arguments=(y,))], "cpu")
        [{'dtype': 'float32', 'device': 'cpu', 'sizes': [[4, 6], [8, 8]]}]
    """
    if not workloads:
        raise ValueError("a guard needs at least one workload that the candidate was accepted on")
    columns = [list(c) for c in zip(*((*w.arguments, *w.state) for w in workloads), strict=True)]
    rules = [_rule(column, device) for column in columns]
    for places in _moving_together(columns).values():
        for number, axis in places if len(places) > 1 else ():
            symbols = rules[number].setdefault("symbols", [None] * len(rules[number]["sizes"]))
            name = f"{columns[places[0][0]][0].name}[{places[0][1]}]"
            symbols[axis] = [name, 1, 0, 1]
    return rules


def opened(specialisation: Specialisation, device: str) -> list[Rule]:
    """Return one rule an argument: sizes in the ranges that were opened, each symbol with one value in a call."""
    rules = guard(specialisation.workloads, device)
    if specialisation.sizes is None or not specialisation.box:
        return rules
    ranges = {r.symbol: r for r in specialisation.box}
    for rule, sizes in zip(rules, specialisation.sizes.arguments, strict=True):
        if "sizes" in rule and any(sizes):
            rule["sizes"] = [_within(s, ranges, kept) for s, kept in zip(sizes, rule["sizes"], strict=True)]
            rule["symbols"] = [
                None if s is None else [s.symbol, s.scale, s.offset, ranges[s.symbol].multiple] for s in sizes
            ]
    return rules


def admits(rules: Sequence[Rule], workload: Workload) -> bool:
    """Tell whether a guard of these rules lets a workload's sizes through."""
    specs, values = (*workload.arguments, *workload.state), dict[str, int]()
    for rule, spec in zip(rules, specs, strict=True):
        if isinstance(spec, ScalarSpec) or "value" in rule:
            if rule.get("value", ...) != getattr(spec, "value", None):
                return False
            continue
        ends = rule["sizes"]
        if rule["dtype"] != spec.dtype or len(ends) != len(spec.shape):
            return False
        if not all(low <= size <= high for size, (low, high) in zip(spec.shape, ends, strict=True)):
            return False
        for size, symbol in zip(spec.shape, rule.get("symbols", ()), strict=False):
            if symbol is not None:
                name, scale, offset, multiple = symbol
                value, rest = divmod(size - offset, scale)
                if rest or value % multiple or values.setdefault(name, value) != value:
                    return False
    return True


def _within(size: SizeOf | None, ranges: dict[str, SymbolRange], kept: list[int]) -> list[int]:
    if size is None:
        return kept
    return [size.scale * end + size.offset for end in (ranges[size.symbol].low, ranges[size.symbol].high)]


def _moving_together(
    columns: Sequence[Sequence[TensorSpec | ScalarSpec]],
) -> dict[tuple[int, ...], list[tuple[int, int]]]:
    """Return the axes that differ between workloads, by their sizes: those that are always equal are one symbol."""
    places: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for number, column in enumerate(columns):
        shapes = [spec.shape for spec in column if isinstance(spec, TensorSpec)]
        for axis, sizes in enumerate(zip(*shapes, strict=True)):
            if len(set(sizes)) > 1:
                places.setdefault(sizes, []).append((number, axis))
    return places


def ranges(served: Sequence[Workload], others: Sequence[Workload]) -> list[tuple[Workload, ...]]:
    """Part the workloads that a kernel serves so that no part's range spans one that it does not serve.

    Workloads that differ in more than sizes get ranges of their own.

    Example:
        >>> def rows(n):
        ...     x = TensorSpec(name="x", shape=(n, 8), dtype="float32")
        ...     return Workload(name=f"rows={n}", arguments=(x,))
        >>> [[w.name for w in part] for part in ranges([rows(2), rows(4), rows(16)], [rows(8)])]
        [['rows=2', 'rows=4'], ['rows=16']]
    """
    parts: list[tuple[Workload, ...]] = []
    for workload in sorted(served, key=_elements):
        grown = ((i, (*part, workload)) for i, part in enumerate(parts))
        place, part = next(((i, p) for i, p in grown if _is_clean(p, others)), (len(parts), (workload,)))
        parts[place : place + 1] = [part]
    return parts


def _is_clean(part: Sequence[Workload], others: Sequence[Workload]) -> bool:
    """Tell whether one range can hold the workloads, and none of the others."""
    rules = _range(part)
    return rules is not None and all(_range([*part, other]) != rules for other in others)


def _range(workloads: Sequence[Workload]) -> list[Rule] | None:
    try:
        return guard(workloads, "")
    except ValueError:
        return None


def _rule(column: list[TensorSpec | ScalarSpec], device: str) -> Rule:
    first = column[0]
    if isinstance(first, ScalarSpec):
        if any(not isinstance(c, ScalarSpec) or c.value != first.value for c in column):
            raise ValueError(
                f"argument {first.name!r} takes several values; each needs a specialisation of its own"
            )
        return {"value": first.value}
    tensors = [c for c in column if isinstance(c, TensorSpec)]
    alike = {(c.dtype, len(c.shape)) for c in tensors}
    if len(tensors) != len(column) or len(alike) != 1:
        raise ValueError(f"argument {first.name!r} differs in kind, dtype or rank between workloads")
    sizes = [[min(axis), max(axis)] for axis in zip(*(c.shape for c in tensors), strict=True)]
    return {"dtype": first.dtype, "device": device, "sizes": sizes}


def _elements(workload: Workload) -> int:
    return sum(_count(spec) for spec in (*workload.arguments, *workload.state))


def _count(spec: TensorSpec | ScalarSpec) -> int:
    if isinstance(spec, ScalarSpec):
        return 0
    count = 1
    for size in spec.shape:
        count *= size
    return count
