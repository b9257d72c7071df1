"""Request → Templates: the graph of the task, lowered and printed in every language that was asked for."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, tee

from ...records import Candidate, Configuration, Space
from .._protocol import Request
from ._layouts import laid_out, lowering, space_of
from .actions import offered
from .graph import NotSchedulable, read
from .lower import NotLowered, Unlowered, lower
from .policy import Cost, Faults, Leaf, alone, explained, leaves
from .printing import Render, Unprintable, choices_of, forms_of, printer_of
from .tile import NativeCall

_LOG = logging.getLogger(__name__)
_MOST_LEAVES = 5


@dataclass(eq=False)
class ScheduleTemplate:
    """A schedule: implements `propose.Template`; the tuner chooses how its loops are laid out."""

    name: str
    language: str
    space: Space
    leaf: Leaf
    printer: Render
    title: str
    reason: str

    def default(self) -> Configuration:
        """Return the configuration to try first."""
        return {p.name: p.values[0] for p in self.space.parameters}

    def render(self, configuration: Configuration) -> Candidate:
        """Lower and print under one configuration."""
        state = self.leaf.state
        decisions, program = laid_out(state.decisions, configuration), state.program
        if program is None or decisions != state.decisions:
            program = lower(state.graph, decisions, state.arranged)
        return self.printer(
            program, state.graph, title=f"{self.title}\n{self.reason}", reason=self.reason, template=self.name,
            parameters={**configuration, "actions": state.text},
        )  # fmt: skip


class ScheduleProposer:
    """Capture, lower and print: no model, no library of kernels.

    Covers: every reference that captures; regions without a form in tiles stay native.
    Does not cover: gradients; graphs that are native from end to end.
    """

    name = "schedule"

    def propose(self, request: Request) -> Iterator[ScheduleTemplate]:
        """Yield templates that print, best first."""
        try:
            graph = read(request.problem)
        except NotSchedulable as error:
            _LOG.info("%s has no schedule: %s", request.problem.task.name, error)
            return
        found: dict[frozenset[str], Iterable[Leaf]] = {}
        before, faults = None, Faults(request.say)
        with faults.of("one kernel an operation"):
            before = alone(graph)
        for language in request.languages:
            printer = printer_of(language)
            if printer is not None:
                forms = forms_of(language)
                if forms not in found:
                    found[forms] = islice(leaves(graph, offered(forms), faults), _MOST_LEAVES)
                found[forms], best = tee(found[forms])
                yield from self._in_language(request, best, before, language, printer, faults)

    def _in_language(
        self,
        request: Request,
        best: Iterable[Leaf],
        before: Cost | None,
        language: str,
        printer: Render,
        faults: Faults,
    ) -> Iterator[ScheduleTemplate]:
        own = request.problem.task.contract.calls == "custom-only"
        for leaf in best:
            program = leaf.state.program
            if program is None or (own and program.natives):
                continue
            if all(isinstance(step, NativeCall) for step in program.steps):
                continue
            template = None
            with faults.of(f"{leaf.state.text or 'fused'} in {language}"):
                template = _template(request, leaf, before, language, printer)
            if template is not None:
                yield template


def _template(
    request: Request, leaf: Leaf, before: Cost | None, language: str, printer: Render
) -> ScheduleTemplate | None:
    """Return the template of a leaf; none where the language has no words for it."""
    program, name = leaf.state.program, f"schedule/{leaf.state.text or 'fused'}"
    if program is None:
        return None
    space = choices_of(language, program) or space_of(program, leaf.state.decisions.moves)
    space = lowering(space, leaf.state)
    title = request.problem.task.name
    template = ScheduleTemplate(name, language, space, leaf, printer, title, explained(leaf, before))
    try:
        template.render(template.default())
    except (Unprintable, NotLowered, Unlowered) as error:
        _LOG.info("%s in %s: %s", name, language, error)
        return None
    return template
