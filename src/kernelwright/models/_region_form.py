"""Task of a region → RegionForm; part of a graph → the same: by what a region is found in another graph.

Covers: operators, constants, shapes and dtypes; which of its values are read outside.
Does not cover: regions whose inputs have fixed values, such as complex numbers: they were verified on those alone.
"""

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import fx

from ..records import Task, TensorSpec, content_key
from ._print import Printed, expression

_SOURCE = re.compile(r"\b[aw]\d+\b")
_OPERATOR = re.compile(r" = torch\.ops\.([\w.]+)\(")


@dataclass(frozen=True)
class RegionForm:
    """A computation by its operators, whatever its inputs and weights are called."""

    key: str
    """Hash of operators, constants, shapes, dtypes, and which values are results."""
    sources: tuple[str, ...]
    """Names of what it reads, in order of first use."""
    operators: tuple[str, ...]
    """Its operators, in order."""


def form_of_task(task: Task) -> RegionForm | None:
    """Return the form of a region's task, from the text that was judged; None where it is no region of this kind."""
    text = task.reference.files[0].text
    if not task.name.startswith("region_") or "_unpacked" in text:
        return None
    forward = next(
        (n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef) and n.name == "forward"), None
    )
    if forward is None:
        return None
    rows = text.splitlines()
    lines = [rows[s.lineno - 1].strip() for s in forward.body]
    returned = lines[-1].removeprefix("return ").strip(",").split(", ")
    workload = task.workloads[0]
    shapes = {
        s.name: (tuple(s.shape), f"torch.{s.dtype}")
        for s in (*workload.arguments, *workload.state)
        if isinstance(s, TensorSpec)
    }
    return _form([line for line in lines[:-1] if " = self." not in line], returned, shapes)


def form_of_part(part: Printed) -> RegionForm:
    """Return the form of a part of a graph; its sources are the nodes that it reads."""
    names = [f"a{i}" for i in range(len(part.inputs))] + [f"w{i}" for i in range(len(part.weights))]
    nodes = dict(zip(names, (*part.inputs, *part.weights), strict=True))
    form = _form(part.lines, part.returned, dict(zip(names, part.shapes, strict=True)))
    return RegionForm(form.key, tuple(nodes[name] for name in form.sources), form.operators)


def operator_of(node: fx.Node) -> str:
    """Return the operator of a node as a form names it."""
    return _operator(f"v = {expression(node, lambda name: name)}")


def _form(
    lines: Sequence[str], returned: Sequence[str], shapes: Mapping[str, tuple[tuple[int, ...], str]]
) -> RegionForm:
    order: dict[str, str] = {}

    def renamed(found: re.Match[str]) -> str:
        return order.setdefault(found[0], f"s{len(order)}")

    text = [_SOURCE.sub(renamed, line) for line in lines]
    key = content_key(*text, *returned, *(repr(shapes[name]) for name in order))
    return RegionForm(key, tuple(order), tuple(map(_operator, lines)))


def _operator(line: str) -> str:
    found = _OPERATOR.search(line)
    return found[1] if found else "getitem"
