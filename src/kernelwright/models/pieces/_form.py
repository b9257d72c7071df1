"""Part of a graph → RegionForm: by what a region is found in another graph.

Covers: operators, constants, shapes and dtypes; which of its values are read outside.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import fx

from ._print import Printed, expression

_SOURCE = re.compile(r"\b[aw]\d+\b")
_OPERATOR = re.compile(r" = torch\.ops\.([\w.]+)\(")


@dataclass(frozen=True)
class RegionForm:
    """A computation by its operators, whatever its inputs and weights are called."""

    key: str
    """Operators, constants, shapes, dtypes, and which values are results: equal ones compute the same."""
    sources: tuple[str, ...]
    """Names of what it reads, in order of first use."""
    operators: tuple[str, ...]
    """Its operators, in order."""


def form_of_part(part: Printed) -> RegionForm:
    """Return the form of a part of a graph; its sources are the nodes that it reads."""
    names = [f"a{i}" for i in range(len(part.inputs))] + [f"w{i}" for i in range(len(part.weights))]
    nodes = dict(zip(names, (*part.inputs, *part.weights), strict=True))
    form = form_of_lines(part.lines, part.returned, dict(zip(names, part.shapes, strict=True)))
    return RegionForm(form.key, tuple(nodes[name] for name in form.sources), form.operators)


def operator_of(node: fx.Node) -> str:
    """Return the operator of a node as a form names it."""
    return _operator(f"v = {expression(node, lambda name: name)}")


def form_of_lines(
    lines: Sequence[str], returned: Sequence[str], shapes: Mapping[str, tuple[tuple[int, ...], str]]
) -> RegionForm:
    """Return the form of lines of Python whose inputs and weights are called `a0`, `w0` and so on."""
    order: dict[str, str] = {}

    def renamed(found: re.Match[str]) -> str:
        return order.setdefault(found[0], f"s{len(order)}")

    text = [_SOURCE.sub(renamed, line) for line in lines]
    key = "\n".join((*text, *returned, *(repr(shapes[name]) for name in order)))
    return RegionForm(key, tuple(order), tuple(map(_operator, lines)))


def _operator(line: str) -> str:
    found = _OPERATOR.search(line)
    return found[1] if found else "getitem"
