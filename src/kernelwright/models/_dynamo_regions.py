"""Graph of Dynamo → the same graph with accepted kernels of regions in it; Inductor compiles the rest.

Covers: regions by their computation, in whatever model they occur, at exactly the shapes and dtypes that were verified;
inputs of other layouts, which are copied; weights that change; kernels that decline, for which the region's reference
answers; results in memory of their own.
Does not cover: graphs that change their inputs or whose operators depend on strides; regions that read fixed values.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from operator import getitem
from typing import Any

import torch
from torch import fx, nn
from torch._guards import tracing

from ..deploy.runtime.operators import apart
from ..errors import KernelwrightError
from ..languages.prepared import Prepared
from ..records import Task, TensorSpec
from ..tasks import Problem
from ..tasks.capture import quiet
from ._accepted import LoadedProgram, RegionProgram
from ._capture import Capture, captured_program
from ._numbered import define_numbered
from ._print import Unprintable, printed
from ._region_form import form_of_part, operator_of

_LOG = logging.getLogger(__name__)
_STRIDED = ("as_strided", "stride", "set_")
"""Parts of operators' names whose results depend on how their input lies in memory."""


def with_regions(
    graph: fx.GraphModule, arguments: Sequence[Any], programs: Sequence[RegionProgram]
) -> fx.GraphModule | None:
    """Return a graph that computes the same and calls kernels for regions; None where it has none of them.

    Args:
        graph: A graph of Dynamo.
        arguments: Its arguments, tensors of fixed sizes and whole numbers; tensors may be fake.
        programs: What was accepted for regions.
    """
    if not programs:
        return None
    try:
        capture = _captured(graph, arguments)
    except Exception as error:  # noqa: BLE001  the model's own code runs under the exporter, and may raise anything
        _LOG.debug("no region is looked for in the graph: %s: %s", type(error).__name__, error)
        return None
    if capture.mutations or any(part in operator_of(n) for n in capture.nodes for part in _STRIDED):
        return None
    uses = list(_uses(capture, programs))
    return _rewritten(capture, arguments, uses) if uses else None


@dataclass(frozen=True)
class _Use:
    """A place in a graph where a kernel serves."""

    nodes: tuple[str, ...]
    """The nodes that it computes."""
    sources: tuple[str, ...]
    """Nodes that it reads, in the order in which its operator takes them."""
    results: tuple[str, ...]
    """Nodes that it yields."""
    site: int
    """Its number."""


class Site:
    """A kernel where it is called: with packed weights of its own."""

    def __init__(self, program: RegionProgram, loaded: LoadedProgram) -> None:
        kernel = loaded.kernel
        self._kernel = kernel.again() if isinstance(kernel, Prepared) else kernel
        workload = program.task.workloads[0]
        specs = {s.name: s for s in (*workload.arguments, *workload.state) if isinstance(s, TensorSpec)}
        places = {name: place for place, name in enumerate(program.form.sources)}
        self._order = [places[name] for name in specs]
        self._specs = [
            (torch.Size(specs[n].shape), getattr(torch, specs[n].dtype)) for n in program.form.sources
        ]
        self.outputs = [(s.shape, getattr(torch, s.dtype)) for s in workload.outputs]
        """Shape and dtype of each result."""
        self._task, self._inputs = program.task, len(workload.arguments)
        self._names = [s.name for s in workload.state]
        self.calls = self.native_calls = 0

    def __call__(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return the region's results."""
        given = [tensors[place].contiguous() for place in self._order]
        if [(t.shape, t.dtype) for t in tensors] == self._specs:
            try:
                made = self._kernel(*given)
            except (NotImplementedError, RuntimeError) as error:
                if not str(error).startswith("Unsupported"):
                    raise
            else:
                self.calls += 1
                return list(apart((made,) if isinstance(made, torch.Tensor) else tuple(made), given))
        self.native_calls += 1
        state = dict(zip(self._names, given[self._inputs :], strict=True))
        found = torch.func.functional_call(self._reference, state, tuple(given[: self._inputs]))
        return list(apart((found,) if isinstance(found, torch.Tensor) else tuple(found), given))

    @cached_property
    def _reference(self) -> nn.Module:
        return _reference(self._task)


def _reference(task: Task) -> nn.Module:
    made = Problem(task).reference(task.workloads[0])
    assert isinstance(made, nn.Module)
    return made


SITES: list[Site] = []
"""Every place in this process where a kernel serves, by number: operators of torch are the process's, too."""


@cache
def _operator() -> Any:
    """Define the operator that calls a kernel where it serves."""
    return define_numbered(
        "region(Tensor[] tensors, int site)",
        lambda tensors, site: SITES[site](tensors),
        lambda site: SITES[site].outputs,
    )


def _captured(graph: fx.GraphModule, arguments: Sequence[Any]) -> Capture:
    """Return the graph as a region's was captured, at the sizes and strides of these arguments."""
    tensors = [torch.empty_strided(a.shape, a.stride(), dtype=a.dtype) for a in arguments if _is_dense(a)]
    whole = _Around(graph, [None if isinstance(a, torch.Tensor) else a for a in arguments])
    with tracing(None), quiet(), torch.no_grad():
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


def _uses(capture: Capture, programs: Sequence[RegionProgram]) -> Iterator[_Use]:
    """Yield where kernels serve, the largest regions first, none of which overlap."""
    live = [n for n in capture.nodes if n.name not in capture.folded]
    names = [operator_of(n) for n in live]
    taken: set[int] = set()
    for program in sorted(programs, key=lambda p: -len(p.form.operators)):
        wanted, loaded = list(program.form.operators), None
        for start in range(len(live) - len(wanted) + 1):
            places = range(start, start + len(wanted))
            if names[start : places.stop] != wanted or not taken.isdisjoint(places):
                continue
            first, last = (capture.place[live[i].name] for i in (start, places.stop - 1))
            try:
                part = printed(capture, first, last + 1)
                form = form_of_part(part)
                if form.key != program.form.key:
                    continue
                loaded = loaded or program.load()
            except (KernelwrightError, Unprintable) as error:
                _LOG.debug("a kernel of %s is not used: %s", program.name, error)
                continue
            taken.update(places)
            SITES.append(Site(program, loaded))
            nodes = tuple(live[i].name for i in places)
            yield _Use(nodes, form.sources, part.outputs, len(SITES) - 1)


def _rewritten(capture: Capture, arguments: Sequence[Any], uses: Sequence[_Use]) -> fx.GraphModule:
    """Return the graph with kernels in their places; it takes what Dynamo's takes."""
    graph, made = fx.Graph(), dict[str, fx.Node]()
    tensors = iter(capture.inputs)
    for number, argument in enumerate(arguments):
        node = graph.placeholder(f"argument{number}")
        if isinstance(argument, torch.Tensor):
            made[next(tensors)] = node
    root = nn.Module()
    for number, (name, value) in enumerate(capture.constants.items()):
        root.register_buffer(f"constant{number}", value)
        made[name] = graph.get_attr(f"constant{number}")
    inside = {name for use in uses for name in use.nodes}
    ends = {use.nodes[-1]: use for use in uses}
    for node in capture.nodes:
        if node.name not in inside:
            made[node.name] = graph.node_copy(node, lambda n: made[n.name])
            made[node.name].meta.clear()
        elif node.name in ends:
            _call(graph, ends[node.name], made)
    graph.output(tuple(made[name] for name in capture.outputs))
    return fx.GraphModule(root, graph)


def _call(graph: fx.Graph, use: _Use, made: dict[str, fx.Node]) -> None:
    call = graph.call_function(_operator(), ([made[name] for name in use.sources], use.site))
    for place, name in enumerate(use.results):
        made[name] = graph.call_function(getitem, (call, place))
