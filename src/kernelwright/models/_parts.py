"""Captured, Timed → where a model's time goes, by module and operator, for treemaps."""

from collections.abc import Mapping

from ..records import Record
from ._capture import Captured
from ._regions import operator_name
from ._timing import Timed

_LEAST_SHARE = 0.003
"""Parts of a smaller share of the time are one part, `other`."""
_DEPTH = 2


class TimedPart(Record):
    """Operators of one kind in modules of one name."""

    module: str
    """The module, with `*` for numbers: `layers.*.attention`; empty for the model's own operators."""
    operator: str
    """The operator: `linear`."""
    calls: int
    """How often it runs in one call of the model."""
    time_us: float
    """Microseconds of all of them, in eager torch inside the model."""


def timed_parts(captured: Captured, times: Mapping[str, Timed]) -> tuple[TimedPart, ...]:
    """Return where the time of one call goes, from the most to the least; what is small is put together."""
    found: dict[tuple[str, str], tuple[int, float]] = {}
    for piece in captured.pieces:
        for node in piece.nodes:
            path = max(piece.paths[node.name], key=len, default="")
            key = module_name(path), operator_name(node)
            calls, spent = found.get(key, (0, 0.0))
            found[key] = calls + 1, spent + times[piece.name].nodes_us[node.name]
    least = _LEAST_SHARE * sum(spent for _, spent in found.values())
    large = {key: value for key, value in found.items() if value[1] >= least}
    small = [value for key, value in found.items() if key not in large]
    if small:
        large["other", ""] = sum(calls for calls, _ in small), sum(spent for _, spent in small)
    rows = (TimedPart(module=m, operator=o, calls=n, time_us=us) for (m, o), (n, us) in large.items())
    return tuple(sorted(rows, key=lambda row: -row.time_us))


def module_name(path: str) -> str:
    """Return what modules of a kind are called: up to the name after the first number, else two names deep.

    Example:
        >>> module_name("model.layers.3.mlp.up"), module_name("encoder.norm.scale"), module_name("blocks.0")
        ('model.layers.*.mlp', 'encoder.norm', 'blocks.*')
    """
    names = path.split(".")
    number = next((i for i, name in enumerate(names) if name.isdigit()), None)
    kept = names[:_DEPTH] if number is None else names[: number + 2]
    return ".".join("*" if name.isdigit() else name for name in kept)
