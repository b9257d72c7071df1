"""From the workloads a candidate was accepted on to the sizes it may serve."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..records import Evaluation, ScalarSpec, TensorSpec, Workload

Rule = dict[str, object]
"""What one argument must be: `{"value": v}`, or dtype, device and a range for each size."""


@dataclass(frozen=True)
class Specialisation:
    """One accepted candidate and the timed workloads it serves."""

    evaluation: Evaluation
    workloads: tuple[Workload, ...]
    """Those on which it was accepted; sizes between theirs are served too."""

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
    columns = zip(*((*w.arguments, *w.state) for w in workloads), strict=True)
    return [_rule(list(column), device) for column in columns]


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
