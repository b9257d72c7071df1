"""Request → Templates: the graph of the task, lowered and printed in every language that was asked for."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ...records import Candidate, Configuration, Parameter, Space
from .._protocol import Request
from .graph import Contract, Graph, NotSchedulable, read
from .lower import Decisions, Layout, NotLowered, Unlowered, lower
from .printing import Render, Unprintable, printer_of

_LOG = logging.getLogger(__name__)
_PRODUCTS = ("convolution", "mm", "bmm", "addmm", "baddbmm", "scaled_dot_product_attention")


@dataclass(eq=False)
class ScheduleTemplate:
    """A graph under one set of decisions: implements `propose.Template`; the tuner chooses the loops' layout."""

    name: str
    language: str
    space: Space
    graph: Graph
    decisions: Decisions
    printer: Render
    title: str
    reason: str

    def default(self) -> Configuration:
        """Return the configuration to try first."""
        return {p.name: p.values[0] for p in self.space.parameters}

    def render(self, configuration: Configuration) -> Candidate:
        """Lower and print under one configuration."""
        layout = Layout(vector=str(configuration["vector"]), unroll=int(str(configuration["unroll"])))
        program = lower(self.graph, replace(self.decisions, layout=layout))
        return self.printer(
            program, self.graph, title=self.title, reason=self.reason, template=self.name,
            parameters=dict(configuration),
        )  # fmt: skip


class ScheduleProposer:
    """Capture, lower and print: no model, no library of kernels.

    Covers: every reference that captures; regions without a form in tiles stay native.
    Does not cover: references that change their arguments; graphs that are native from end to end.
    """

    name = "schedule"

    def propose(self, request: Request) -> Iterator[ScheduleTemplate]:
        """Yield templates that print, best first."""
        try:
            graph = read(request.problem)
        except NotSchedulable as error:
            _LOG.info("%s has no schedule: %s", request.problem.task.name, error)
            return
        for language in request.languages:
            printer = printer_of(language)
            if printer is not None:
                yield from self._in_language(request, graph, language, printer)

    def _in_language(
        self, request: Request, graph: Graph, language: str, printer: Render
    ) -> Iterator[ScheduleTemplate]:
        space = Space(
            parameters=(
                Parameter(name="vector", values=("auto", "inner", "outer")),
                Parameter(name="unroll", values=(2, 1, 4)),
            )
        )
        for name, decisions in _choices(graph, request.problem.task.contract.calls != "custom-only"):
            title = f"{request.problem.task.name}, {name}"
            template = ScheduleTemplate(
                f"schedule/{name}", language, space, graph, decisions, printer, title, name
            )
            try:
                template.render(template.default())
            except (Unprintable, NotLowered, Unlowered) as error:
                _LOG.info("%s in %s: %s", title, language, error)
                continue
            yield template


def _choices(graph: Graph, library: bool) -> Iterator[tuple[str, Decisions]]:
    """Yield the decisions worth trying: products by the library where there are some, else by own kernels."""
    products = frozenset(
        op.name for op in graph.operations if op.op.split(".")[1:2] and op.op.split(".")[1] in _PRODUCTS
    )
    has_product = any(isinstance(n, Contract) for n in graph.nodes)
    if library and has_product and products:
        yield "library products", Decisions(native=products)
    yield "fused", Decisions()
