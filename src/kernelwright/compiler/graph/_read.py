"""Problem → Graph: capture the reference on its workloads and read it in graph form."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import torch

from ...records import ScalarSpec, Split, TensorSpec, Workload
from ...tasks import Problem, one_thread
from ...tasks.capture import Graph as CapturedGraph
from ...tasks.capture import Ref, record_function, trace, trace_step
from ._alike import NotAlike, join
from ._graph import Graph
from ._nodes import RESERVED, Cat, Input, Node, Reshape, ordered
from ._probes import alike, probes
from ._reader import Reader
from ._size import product, text_of

_Seen = tuple[Workload, Graph]
_LEAST = 3
"""Workloads that must agree before a rule is accepted."""
_SMALL = 64
"""Rules that hold on a probe whose axes are at most this are accepted for smaller sizes."""


class NotSchedulable(Exception):
    """The reference has no static graph, or its gradients have none."""


def read(problem: Problem, *, weights_fixed: bool = False) -> Graph:
    """Read the reference of a problem; sizes follow from the arguments if probes show how.

    One search workload and up to three of other sizes, made by the reader (`_probes`), are captured. A rule
    such as `(height - 1) // 2` must hold on all that agree on the operations, at least three; if
    they do not, the axes that keep the operations when changed alone are tried again. Sizes without a rule
    are constants. Guards limit a kernel to the sizes seen: up to the largest,
    and not below the smallest if no small probe agreed.

    Covers: every reference that `tasks.capture` captures, arguments and state that it changes in place
    included; operations outside the form are `Native` nodes. Of a backward task forward and gradients are one graph,
    whose arguments the gradients of the outputs are; its state are plain inputs, for gradients go through them.
    Does not cover: values handed on from one argument to another in place, and references whose operations
    or sizes depend on the values in their inputs (`NotSchedulable`); a reference whose Python code takes another
    path between or below the captured sizes. Hidden and confirm workloads are never read.

    Args:
        problem: What is to be read.
        weights_fixed: Whether axes that size parameters or buffers are constants, as they are in one trained model.
    """
    search = problem.task.split(Split.SEARCH)
    first = min(search, key=lambda w: (_ones(w), -_elements(w)))
    captured = _captured(problem, first)
    if captured.how == "dispatch" and _differs(problem, first, captured):
        raise NotSchedulable("with other values in the inputs it is made of other operations")
    one = (first, from_captured(captured, first))
    served = [w for w in search if alike(w, first)]

    def tried(free: Sequence[str]) -> Iterator[_Seen]:
        for probe in probes(problem, first, served, free, larger=captured.how != "dispatch"):
            try:
                seen = from_captured(_captured(problem, probe), probe)
            except Exception:  # noqa: BLE001  what the user's reference raises only drops this probe
                continue
            if all(node.elements for node in seen.nodes):  # sizes of zero tell no rule, and divide nothing
                yield probe, seen

    def moves(name: str) -> bool:
        return _agreed([one, *itertools.islice(tried([name]), 1)], served, least=2) is not None

    with one_thread():  # probes are small, and many
        axes = tuple(first.axes)
        if weights_fixed:
            axes = tuple(name for name in axes if not _sizes_weights(problem, first, name))
            served = [w for w in served if [s.shape for s in w.state] == [s.shape for s in first.state]]
        found = _agreed([one, *tried(axes)], served)
        if found is None and 0 < len(free := tuple(filter(moves, axes))) < len(axes):
            found = _agreed([one, *tried(free)], served)
    return replace(found or one[1], error_floor=problem.task.contract.error_floor)


def _captured(problem: Problem, workload: Workload) -> CapturedGraph:
    """Trace the reference; of a backward task its gradients too."""
    if not workload.cotangents:
        return trace(problem, workload)
    try:
        return trace_step(problem, workload)
    except Exception as error:  # the user's reference and torch's backward raise what they like
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise NotSchedulable(f"forward and gradients have no graph: {first}") from error


def _differs(problem: Problem, workload: Workload, captured: CapturedGraph) -> bool:
    """Tell whether the reference does something else on inputs of the same sizes and other values."""
    with torch.no_grad():
        again = record_function(problem.reference(workload), workload, problem.inputs(workload, 1))
    return str(again) != str(captured)


def _sizes_weights(problem: Problem, first: Workload, name: str) -> bool:
    """Tell whether parameters or buffers change with an axis; those that the reference does not let change stay."""
    probe = next(probes(problem, first, [first], [name], larger=False), None)
    return probe is None or [s.shape for s in probe.state] != [s.shape for s in first.state]


def _agreed(seen: Sequence[_Seen], served: Sequence[Workload], least: int = _LEAST) -> Graph | None:
    """Join as many as agree with the first one."""
    for count in range(len(seen), least - 1, -1):
        for others in itertools.combinations(seen[1:], count - 1):
            try:
                return _joined([seen[0], *others], served)
            except NotAlike:
                continue
    return None


def from_captured(captured: CapturedGraph, workload: Workload) -> Graph:
    """Read one captured graph; every size is a constant."""
    reader = Reader(captured)
    inputs, outputs = reader.read(workload)
    mutations = tuple((reader.node(Ref(old)), reader.node(Ref(new))) for old, new in captured.mutations)
    if any(isinstance(new, Input) for _, new in mutations):
        raise NotSchedulable("an argument is put in the place of another")
    values = {name: found for name, found in reader.known.items() if isinstance(found, Node)}
    return Graph(
        inputs=inputs, outputs=outputs, scalars=_scalars(workload), operations=captured.nodes, values=values,
        mutations=mutations,
    )  # fmt: skip


def _ones(workload: Workload) -> int:
    return sum(size == 1 for spec in _tensors(workload) for size in spec.shape)


def _elements(workload: Workload) -> int:
    return sum(math.prod(spec.shape) for spec in _tensors(workload))


def _joined(seen: Sequence[_Seen], served: Sequence[Workload]) -> Graph:
    workloads, graphs = zip(*seen, strict=True)
    symbols, places = _symbols(graphs, workloads)
    made: dict[tuple[int, ...], Node] = {}
    guards: dict[str, None] = {}
    inputs: tuple[Input, ...] = join([g.inputs for g in graphs], symbols, made, guards)
    for versions in zip(*(g.nodes for g in graphs), strict=False):
        join(versions, symbols, made, guards)
    outputs = join([g.outputs for g in graphs], symbols, made, guards)
    mutations = join([g.mutations for g in graphs], symbols, made, guards)
    if any(g.values.keys() != graphs[0].values.keys() for g in graphs):
        raise NotAlike("other operations")
    needed = {id(n) for g in graphs[:1] for n in (*g.nodes, *g.inputs)}
    values = {
        name: join([g.values[name] for g in graphs], symbols, made, guards)
        for name, node in graphs[0].values.items()
        if id(node) in needed
    }
    operations = join([g.operations for g in graphs], symbols, {}, guards)
    guards |= dict.fromkeys(
        [*_shape_guards([*outputs, *(new for _, new in mutations)]), *_bounds(places, workloads, served)]
    )
    return Graph(inputs, outputs, places, graphs[0].scalars, operations, values, tuple(guards), mutations)


def _bounds(
    places: Mapping[str, tuple[int, int]], seen: Sequence[Workload], served: Sequence[Workload]
) -> Iterator[str]:
    """Yield how far the rules were seen to hold."""
    axes = seen[0].axes
    low = any(w is not seen[0] and all(v <= _SMALL or v == axes[n] for n, v in w.axes.items()) for w in seen)
    for name, (position, dim) in places.items():
        sizes = [_size(w, position, dim) for w in seen]
        yield f"{name} <= {max(*sizes, *(_size(w, position, dim) for w in served))}"
        if not low:
            yield f"{name} >= {min(*sizes, *(_size(w, position, dim) for w in served))}"


def _size(workload: Workload, position: int, dim: int) -> int:
    spec = (*workload.arguments, *workload.state)[position]
    assert isinstance(spec, TensorSpec)
    return spec.shape[dim]


def _shape_guards(roots: Sequence[Node]) -> Iterator[str]:
    """Yield what views assume: that parts add up and the number of elements is unchanged."""
    for node in ordered(roots):
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
