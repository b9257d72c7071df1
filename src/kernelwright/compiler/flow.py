"""Problem → Schedules, best first: read the graph, try actions, lower the results, print them."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, tee

from ..records import Candidate, Configuration, Space
from ..tasks import Problem
from ._layouts import laid_out, lowering, space_of
from .actions import offered
from .graph import Contract, Graph, NotSchedulable, read
from .lower import NotLowered, Unlowered, convolved_by, lower
from .policy import Cost, Estimate, Faults, Leaf, alone, explained, leaves
from .printers import Render, Unprintable, choices_of, estimate_of, forms_of, printer_of
from .tile import NativeCall

_LOG = logging.getLogger(__name__)
_MOST_LEAVES = 5


@dataclass(eq=False)
class Schedule:
    """A program with its loops laid out: a kernel for every configuration of a space. A `propose.Template`."""

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


def schedules(
    problem: Problem, languages: Sequence[str], say: Callable[[str], None] = lambda _: None
) -> Iterator[Schedule]:
    """Yield schedules that print, best first, language by language.

    Covers: every reference that captures; regions without a form in tiles stay native.
    Does not cover: graphs that are entirely native, which have no schedules.

    Args:
        problem: What to compute; its contract decides whether native regions are allowed.
        languages: Names of languages; those without a printer are skipped.
        say: Receives one line for every action or leaf that raised and was skipped, and why there are no schedules.

    Example:
        >>> from kernelwright.tasks import load_task
        >>> best = next(schedules(Problem(load_task("examples/swiglu.py")), ("cpp",)))
        >>> best.language, best.render(best.default()).entry
        ('cpp', 'kernel.cpp:mul_1')
    """
    try:
        graph = _read(problem)
    except NotSchedulable as error:
        say(f"{problem.task.name} has no schedule: {error}")
        return
    found: dict[tuple[frozenset[str], Estimate], Iterable[Leaf]] = {}
    before, faults = None, Faults(say)
    with faults.of("one kernel an operation"):
        before = alone(graph)
    for language in languages:
        printer = printer_of(language)
        if printer is not None:
            key = forms, guess = forms_of(language), estimate_of(language)
            if key not in found:
                actions = offered(forms, problem.task.contract.error_factor)
                found[key] = islice(leaves(graph, actions, faults, guess), _MOST_LEAVES)
            found[key], best = tee(found[key])
            for leaf in filter(lambda leaf: _is_worth(leaf, problem), best):
                schedule = None
                with faults.of(f"{leaf.state.text or 'fused'} in {language}"):
                    schedule = _schedule(problem, leaf, before, language, printer)
                if schedule is not None:
                    yield schedule


def _read(problem: Problem) -> Graph:
    """Read the graph; with the sizes of weights as constants where its convolutions have no form of their own else."""
    graph = read(problem)
    products = [node for node in graph.nodes if isinstance(node, Contract)]
    if any(convolved_by(p, fixed=False) is not None and convolved_by(p) is None for p in products):
        return read(problem, weights_fixed=True)
    return graph


def _is_worth(leaf: Leaf, problem: Problem) -> bool:
    """Whether a leaf has generated kernels, and nothing else if the contract requires that or asks for gradients.

    A Python function around kernels and operators of torch would have to be differentiated itself.
    """
    program = leaf.state.program
    if program is None or all(isinstance(step, NativeCall) for step in program.steps):
        return False
    contract = problem.task.contract
    return not ((contract.calls == "custom-only" or contract.backward) and program.natives)


def _schedule(
    problem: Problem, leaf: Leaf, before: Cost | None, language: str, printer: Render
) -> Schedule | None:
    """Return the schedule of a leaf; None if the language cannot express it."""
    program, name = leaf.state.program, f"schedule/{leaf.state.text or 'fused'}"
    if program is None:
        return None
    space = choices_of(language, program) or space_of(program, leaf.state.decisions.moves)
    space = lowering(space, leaf.state)
    schedule = Schedule(name, language, space, leaf, printer, problem.task.name, explained(leaf, before))
    try:
        schedule.render(schedule.default())
    except (Unprintable, NotLowered, Unlowered) as error:
        _LOG.info("%s in %s: %s", name, language, error)
        return None
    return schedule
