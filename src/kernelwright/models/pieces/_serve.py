"""Graph of Dynamo, regions with kernels → the graph with calls of kernels in their places.

Covers: regions by their computation, at exactly the shapes and dtypes that were verified; inputs of other layouts,
which are copied; weights that change; kernels that decline, for which the region's own operators answer.
Does not cover: graphs that change their inputs or whose operators depend on strides.
"""

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn
from torch._guards import tracing

from ._form import RegionForm, form_of_part, operator_of
from ._graph import Capture, captured_program
from ._print import Printed, Unprintable, printed

_STRIDED = ("as_strided", "stride", "set_")
"""Parts of operators' names whose results depend on how their input lies in memory."""
Call = Callable[..., Any]


@dataclass(frozen=True)
class Region:
    """A computation for which there is a kernel."""

    form: RegionForm
    """What it computes; its sources are names of the kernel's arguments."""
    arguments: tuple[tuple[str, tuple[int, ...], str], ...]
    """Name, shape and dtype (`float32`) of each argument of the kernel, in order."""
    outputs: tuple[tuple[tuple[int, ...], str], ...]
    """Shape and dtype of each result."""
    kernel: Callable[[], Call]
    """Returns what computes it at one place, where weights are packed anew; raises `Unprintable` where that fails."""


class Site:
    """A kernel where it is called, with packed weights of its own."""

    def __init__(self, region: Region, native: Call) -> None:
        places = {name: place for place, name in enumerate(region.form.sources)}
        self._kernel, self._native = region.kernel(), native
        self._order = [places[name] for name, _, _ in region.arguments]
        specs = {name: (torch.Size(shape), getattr(torch, dtype)) for name, shape, dtype in region.arguments}
        self._specs = [specs[name] for name in region.form.sources]
        self.outputs = [(shape, getattr(torch, dtype)) for shape, dtype in region.outputs]
        """Shape and dtype of each result."""
        self.calls = self.native_calls = 0

    def __call__(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the region's results, of what it reads in order of first use."""
        if [(t.shape, t.dtype) for t in tensors] == self._specs:
            try:
                made = self._kernel(*[tensors[place].contiguous() for place in self._order])
            except (NotImplementedError, RuntimeError) as error:
                if not str(error).startswith("Unsupported"):
                    raise
            else:
                self.calls += 1
                return (made,) if isinstance(made, torch.Tensor) else tuple(made)
        self.native_calls += 1
        return tuple(self._native(*tensors))


Placed = Callable[[nn.Module, fx.Graph, Site, tuple[fx.Node, ...]], fx.Node]
"""Puts the call of a kernel into the graph of a module, of what the region reads; it yields a sequence of results."""


@dataclass(frozen=True)
class Use:
    """A place in a graph where a kernel serves."""

    nodes: tuple[str, ...]
    """The nodes that it computes."""
    sources: tuple[str, ...]
    """Nodes that it reads, in the order in which its form has them."""
    results: tuple[str, ...]
    """Nodes that it yields."""
    site: Site
    """What serves there."""


def served_graph(
    graph: fx.GraphModule,
    arguments: Sequence[Any],
    regions: Sequence[Region],
    placed: Placed | None = None,
) -> fx.GraphModule | None:
    """Return a graph that computes the same and calls kernels for regions; None where it has none of them.

    Args:
        graph: A graph of Dynamo; whatever its code raises under the exporter is raised.
        arguments: Its arguments, tensors of fixed sizes and whole numbers; tensors may be fake.
        regions: What there are kernels for.
        placed: Puts the call of a kernel into the graph; by default the place itself is called.

    Raises:
        Unprintable: an argument is no dense tensor on the CPU.
    """
    if not regions:
        return None
    capture = _captured(graph, arguments)
    if capture.mutations or any(map(has_strides, capture.nodes)):
        return None
    uses = list(_uses(capture, regions))
    return _rewritten(capture, arguments, uses, placed or _placed) if uses else None


def _captured(graph: fx.GraphModule, arguments: Sequence[Any]) -> Capture:
    """Return the graph as a region's was captured, at the sizes and strides of these arguments."""
    tensors = [torch.empty_strided(a.shape, a.stride(), dtype=a.dtype) for a in arguments if _is_dense(a)]
    whole = _Around(graph, [None if isinstance(a, torch.Tensor) else a for a in arguments])
    with tracing(None), torch.no_grad():
        return captured_program("graph", whole, tensors)


class _Around(nn.Module):
    """A graph as a function of its tensors alone."""

    def __init__(self, graph: fx.GraphModule, numbers: Sequence[Any]) -> None:
        super().__init__()
        self.graph, self._numbers = graph, numbers

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rest = iter(tensors)
        found: tuple[torch.Tensor, ...] = self.graph(*(next(rest) if n is None else n for n in self._numbers))
        return found


def _is_dense(value: object) -> bool:
    """Tell whether a value is a dense tensor on the CPU.

    Raises:
        Unprintable: it is another tensor.
    """
    if not isinstance(value, torch.Tensor):
        return False
    plain = type(value) in (torch.Tensor, nn.Parameter) or isinstance(value, torch._subclasses.FakeTensor)
    if not plain or value.device.type != "cpu" or value.layout is not torch.strided:
        raise Unprintable(f"an argument is a {type(value).__name__} that no kernel takes")
    return True


def _uses(capture: Capture, regions: Sequence[Region]) -> Iterator[Use]:
    """Yield where kernels serve, the largest regions first, none of which overlap."""
    live = [n for n in capture.nodes if n.name not in capture.folded]
    names = [operator_of(n) for n in live]
    taken: set[int] = set()
    for region in sorted(regions, key=lambda r: -len(r.form.operators)):
        wanted = list(region.form.operators)
        for start in range(len(live) - len(wanted) + 1):
            places = range(start, start + len(wanted))
            if names[start : places.stop] != wanted or not taken.isdisjoint(places):
                continue
            found = part_of(capture, live[start], live[places.stop - 1])
            if found is None or found[1].key != region.form.key:
                continue
            inside, (part, form) = [live[i] for i in places], found
            try:
                site = Site(region, native_of(inside, form.sources, part.outputs))
            except Unprintable:
                break
            taken.update(places)
            yield Use(tuple(n.name for n in inside), form.sources, part.outputs, site)


def has_strides(node: fx.Node) -> bool:
    """Tell whether a node's result depends on how its input lies in memory."""
    return any(part in operator_of(node) for part in _STRIDED)


def part_of(capture: Capture, first: fx.Node, last: fx.Node) -> tuple[Printed, RegionForm] | None:
    """Return the nodes from the first to the last as text, and their form; None where they are no function."""
    try:
        part = printed(capture, capture.place[first.name], capture.place[last.name] + 1)
    except Unprintable:
        return None
    return part, form_of_part(part)


def _rewritten(
    capture: Capture, arguments: Sequence[Any], uses: Sequence[Use], placed: Placed
) -> fx.GraphModule:
    """Return the graph with kernels in their places; it takes what Dynamo's takes."""
    graph, made = fx.Graph(), dict[str, fx.Node]()
    tensors = iter(capture.inputs)
    for number, argument in enumerate(arguments):
        node = graph.placeholder(f"argument{number}")
        if isinstance(argument, torch.Tensor):
            made[next(tensors)] = node
    root = _constants(graph, capture, made)
    inside = {name for use in uses for name in use.nodes}
    ends = {use.nodes[-1]: use for use in uses}
    for node in capture.nodes:
        if node.name in ends:
            use = ends[node.name]
            found = placed(root, graph, use.site, tuple(made[name] for name in use.sources))
            made |= {
                name: graph.call_function(operator.getitem, (found, i)) for i, name in enumerate(use.results)
            }
        elif node.name not in inside:
            made[node.name] = _copied(graph, node, made)
    graph.output(tuple(made[name] for name in capture.outputs))
    return fx.GraphModule(root, graph)


def native_of(nodes: Sequence[fx.Node], sources: Sequence[str], results: Sequence[str]) -> fx.GraphModule:
    """Return the operators of a region as a function of what it reads."""
    graph, made = fx.Graph(), dict[str, fx.Node]()
    for number, name in enumerate(sources):
        made[name] = graph.placeholder(f"source{number}")
    for node in nodes:
        made[node.name] = _copied(graph, node, made)
    graph.output(tuple(made[name] for name in results))
    return fx.GraphModule(nn.Module(), graph)


def _placed(root: nn.Module, graph: fx.Graph, site: Site, sources: tuple[fx.Node, ...]) -> fx.Node:
    name = f"site{len(graph.nodes)}"
    setattr(root, name, site)
    return graph.call_function(operator.call, (graph.get_attr(name), *sources))


def _constants(graph: fx.Graph, capture: Capture, made: dict[str, fx.Node]) -> nn.Module:
    root = nn.Module()
    for number, (name, value) in enumerate(capture.constants.items()):
        root.register_buffer(f"constant{number}", value)
        made[name] = graph.get_attr(f"constant{number}")
    return root


def _copied(graph: fx.Graph, node: fx.Node, made: dict[str, fx.Node]) -> fx.Node:
    copied = graph.node_copy(node, lambda n: made[n.name])
    copied.meta.clear()
    return copied
