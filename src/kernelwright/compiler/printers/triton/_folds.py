"""Monoids over an axis of a block: how states are merged into one."""

from collections.abc import Callable, Mapping

Parts = Mapping[str, str]
"""Part of a state → text."""
SIMPLE = {
    "sum": ("({0} + {1})", "tl.sum({0}, {axis})"),
    "prod": ("({0} * {1})", "tl.reduce({0}, combine_fn=multiplied, {axis})"),
    "max": ("larger({0}, {1})", "tl.reduce({0}, combine_fn=larger, {axis})"),
    "min": ("smaller({0}, {1})", "tl.reduce({0}, combine_fn=smaller, {axis})"),
    "any": ("({0} | {1})", "(tl.max(({0}).to(tl.int32), {axis}) != 0)"),
    "all": ("({0} & {1})", "(tl.min(({0}).to(tl.int32), {axis}) != 0)"),
}
"""Monoid of one part → how two values join, how a block of them does."""
SCANS = {
    "sum": "tl.cumsum({0}, {axis})", "prod": "tl.cumprod({0}, {axis})",
    "max": "tl.associative_scan({0}, combine_fn=larger, {axis})",
    "min": "tl.associative_scan({0}, combine_fn=smaller, {axis})",
}  # fmt: skip
"""Monoid → all its partial results along an axis."""
_MOST = (1 << 63) - 1


def folded(monoid: str, name: str, parts: Parts, axis: str) -> list[str]:
    """Print how a block of states becomes one, part by part: `name_part = ...`.

    Args:
        monoid: Its name in `MONOIDS`.
        name: The accumulator.
        parts: States, one per element of a block; for a state that is just an element (`mean`, `top`) the parts
            that are the same for all elements may be omitted.
        axis: The axis, as keyword arguments.
    """
    if monoid in SIMPLE:
        return [f"{name}_value = {SIMPLE[monoid][1].format(parts['value'], axis=axis)}"]
    return _FOLDS[monoid](name, parts, axis)


def _best(sign: str) -> Callable[[str, Parts, str], list[str]]:
    def fold(name: str, parts: Parts, axis: str) -> list[str]:
        value, index, best = parts["value"], parts["index"], f"{name}_value"
        wins = f"({index} >= 0) & (({value} == {best}) | ({value} != {value}))"
        return [
            f"{best} = {SIMPLE[sign][1].format(value, axis=axis)}",
            f"{name}_index = tl.min(tl.where({wins}, {index}, {_MOST}), {axis})",
        ]

    return fold


def _variance(name: str, parts: Parts, axis: str) -> list[str]:
    count, mean, away = parts["count"], parts["mean"], f"{name}_away"
    within = f"{parts['squares']} + " if "squares" in parts else ""
    return [
        f"{name}_count = tl.sum({count}, {axis})",
        f"{name}_mean = tl.sum({count} * {mean}, {axis}) / tl.maximum({name}_count, 1.0)",
        f"{away} = {mean} - {name}_mean",
        f"{name}_squares = tl.sum({within}{count} * {away} * {away}, {axis})",
    ]


def _powers(name: str, parts: Parts, axis: str) -> list[str]:
    top, best = parts["top"], f"{name}_top"
    times = f"{parts['total']} * " if "total" in parts else ""
    return [
        f"{best} = {SIMPLE['max'][1].format(top, axis=axis)}",
        f"{name}_total = tl.sum({times}tl.where({top} == {best}, 1.0, tl.exp({top} - {best})), {axis})",
    ]


_FOLDS = {
    "argmax": _best("max"), "argmin": _best("min"), "variance": _variance, "logsumexp": _powers, "sumexp": _powers,
}  # fmt: skip
