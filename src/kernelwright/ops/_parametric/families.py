"""Find the families with a `template.py` and ask them for templates."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Protocol

from ...languages.vectors import Unprintable
from ...records import Workload
from ...tasks.capture import Graph
from .template import KernelTemplate

_HOME = Path(__file__).parents[1]
_LAST = "rows"
"""Who is asked last: the other families serve fewer graphs, and these better."""


class Match(Protocol):
    """The signature of a family's `match`."""

    def __call__(self, graph: Graph, workload: Workload, /) -> Iterable[KernelTemplate]:
        """Yield every template that computes the whole graph, best first."""
        ...


@cache
def matchers() -> Mapping[str, Match]:
    """Return the `match` of every family that has one, by its name, in the order they are asked.

    Example:
        >>> list(matchers())[-1]
        'rows'
    """
    names = sorted(file.parent.name for file in _HOME.glob("[!_]*/template.py"))
    names.sort(key=_LAST.__eq__)
    return {name: import_module(f"kernelwright.ops.{name}.template").match for name in names}


def match_all(graph: Graph, workload: Workload) -> Iterator[KernelTemplate]:
    """Yield the templates of every family that computes the whole graph, most specific family first."""
    for match in matchers().values():
        yield from match(graph, workload)


def forms(graph: Graph, *makers: Callable[[Graph], KernelTemplate | None]) -> Iterator[KernelTemplate]:
    """Yield what each of these makes of a graph, but for those that do not serve it.

    One that does not returns nothing, or raises `Unprintable`, or `KeyError` where an argument is no result.
    """
    for make in makers if not graph.mutations else ():
        try:
            found = make(graph)
        except (KeyError, Unprintable):
            continue
        if found is not None:
            yield found
