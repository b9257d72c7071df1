"""Problem → Graph: capture the reference on its workloads and read it in graph form."""

import math
from collections.abc import Iterator, Sequence

from ....records import ScalarSpec, Split, TensorSpec, Workload
from ....tasks import Problem
from ....tasks.capture import Graph as CapturedGraph
from ....tasks.capture import capture
from ._alike import NotAlike, join
from ._graph import Graph
from ._nodes import RESERVED, Cat, Input, Node, Reshape, ordered
from ._reader import Reader
from ._size import product, text_of

_MOST = 4
"""Workloads that are captured to find how sizes follow from the arguments."""


class NotSchedulable(Exception):
    """The reference changes its arguments, or has no static graph."""


def read(problem: Problem) -> Graph:
    """Read the reference of a problem; sizes follow from the arguments where the workloads show how.

    Covers: every reference that `tasks.capture` captures; what the form has no word for is a `Native` node.
    Does not cover: references that change arguments or state in place (`NotSchedulable`). Only the *sizes*
    of other workloads are looked at, to find rules such as `(height - 1) // 2`; no size but those of the
    first workload, and no value, enters the graph. Where no rule is found the sizes are constants, and the
    kernel serves these sizes only.
    """
    workloads = _chosen(problem)
    first = _captured(problem, workloads[0])
    for count in range(len(workloads), 1, -1):
        try:
            captured = [first, *(_captured(problem, w) for w in workloads[1:count])]
            return _joined(captured, workloads[:count])
        except (NotAlike, NotSchedulable):
            continue
    return from_captured(first, workloads[0])


def from_captured(captured: CapturedGraph, workload: Workload) -> Graph:
    """Read one captured graph; every size is a constant."""
    reader = Reader(captured)
    inputs, outputs = reader.read()
    values = {name: found for name, found in reader.known.items() if isinstance(found, Node)}
    return Graph(
        inputs=inputs, outputs=outputs, scalars=_scalars(workload), operations=captured.nodes, values=values
    )


def _chosen(problem: Problem) -> list[Workload]:
    """Return the search workload with the fewest sizes of one, which hide structure, and others unlike it."""
    task = problem.task
    first = min(task.split(Split.SEARCH) or task.workloads, key=lambda w: (_ones(w), -_elements(w)))
    found = [first]
    others = [w for w in task.workloads if _scalars(w) == _scalars(first) and _comparable(w, first)]
    while others and len(found) < _MOST:
        best = max(others, key=lambda w: (_told_apart([*found, w]), _differences(w, first)))
        if not all(_differences(best, w) for w in found):
            break
        found.append(best)
        others.remove(best)
    return found


def _comparable(a: Workload, b: Workload) -> bool:
    one, two = _tensors(a), _tensors(b)
    return len(one) == len(two) and all(
        len(x.shape) == len(y.shape) and x.dtype == y.dtype for x, y in zip(one, two, strict=True)
    )


def _told_apart(workloads: Sequence[Workload]) -> int:
    """Count the sizes that the workloads tell apart."""
    sizes = [[s for spec in _tensors(w) for s in spec.shape] for w in workloads]
    return len(set(zip(*sizes, strict=True)))


def _differences(a: Workload, b: Workload) -> int:
    """Count the sizes that differ; sizes of one tell little."""
    return sum(
        x != y and 1 not in (x, y)
        for one, two in zip(_tensors(a), _tensors(b), strict=True)
        for x, y in zip(one.shape, two.shape, strict=True)
    )


def _ones(workload: Workload) -> int:
    return sum(size == 1 for spec in _tensors(workload) for size in spec.shape)


def _elements(workload: Workload) -> int:
    return sum(math.prod(spec.shape) for spec in _tensors(workload))


def _captured(problem: Problem, workload: Workload) -> CapturedGraph:
    captured = capture(problem, workload)
    if captured.mutations:
        raise NotSchedulable(f"the reference changes {', '.join(old for old, _ in captured.mutations)}")
    return captured


def _joined(captured: Sequence[CapturedGraph], workloads: Sequence[Workload]) -> Graph:
    graphs = [from_captured(c, w) for c, w in zip(captured, workloads, strict=True)]
    symbols, places = _symbols(graphs, workloads)
    made: dict[tuple[int, ...], Node] = {}
    guards: dict[str, None] = {}
    inputs: tuple[Input, ...] = join([g.inputs for g in graphs], symbols, made, guards)
    outputs = join([g.outputs for g in graphs], symbols, made, guards)
    if any(g.values.keys() != graphs[0].values.keys() for g in graphs):
        raise NotAlike("other operations")
    needed = {id(n) for g in graphs[:1] for n in (*ordered(g.outputs), *g.inputs)}
    values = {
        name: join([g.values[name] for g in graphs], symbols, made, guards)
        for name, node in graphs[0].values.items()
        if id(node) in needed
    }
    operations = join([g.operations for g in graphs], symbols, {}, guards)
    guards |= dict.fromkeys(_shape_guards(outputs))
    return Graph(inputs, outputs, places, graphs[0].scalars, operations, values, tuple(guards))


def _shape_guards(outputs: Sequence[Node]) -> Iterator[str]:
    """Yield what views take for granted: that parts add up and elements are as many as before."""
    for node in ordered(outputs):
        if isinstance(node, Cat):
            whole, parts = text_of(node.shape[node.dim]), [text_of(s.shape[node.dim]) for s in node.sources]
            if any(not p.isdigit() for p in (whole, *parts)):
                yield f"{' + '.join(parts)} == {whole}"
        elif isinstance(node, Reshape):
            one, two = (text_of(product(n.shape)) for n in (node.source, node))
            if one != two:
                yield f"{one} == {two}"


def _symbols(
    graphs: Sequence[Graph], workloads: Sequence[Workload]
) -> tuple[dict[str, tuple[int, ...]], dict[str, tuple[int, int]]]:
    """Name every size of an argument that differs between workloads, equal ones once."""
    known: dict[tuple[int, ...], str] = {}
    places: dict[str, tuple[int, int]] = {}
    names = {n.name for n in graphs[0].inputs}
    axes = {tuple(w.axes.get(name, 0) for w in workloads): name for name in workloads[0].axes}
    for versions in zip(*(g.inputs for g in graphs), strict=True):
        if any(len(v.shape) != len(versions[0].shape) for v in versions):
            raise NotAlike("another number of dimensions")
        for dim, sizes in enumerate(zip(*(v.shape for v in versions), strict=True)):
            if len(set(sizes)) > 1 and sizes not in known:
                wanted = axes.get(sizes, "")
                plain = wanted.isidentifier() and wanted.lower() not in {*places, *RESERVED, *names}
                name = wanted.lower() if plain else f"{versions[0].name}_{dim}"
                known[sizes] = name
                places[name] = (versions[0].position, dim)
    return {name: sizes for sizes, name in known.items()}, places


def _tensors(workload: Workload) -> list[TensorSpec]:
    return [*(a for a in workload.arguments if isinstance(a, TensorSpec)), *workload.state]


def _scalars(workload: Workload) -> tuple[tuple[int, object], ...]:
    return tuple((i, a.value) for i, a in enumerate(workload.arguments) if isinstance(a, ScalarSpec))
