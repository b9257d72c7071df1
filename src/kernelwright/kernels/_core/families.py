"""Find the families by name and ask them for templates."""

import pkgutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Protocol

from ...records import Workload
from ...tasks.capture import Graph
from .template import KernelTemplate

_DEFAULT_RANK = 50


class Match(Protocol):
    """The signature of a family's `match`."""

    def __call__(self, graph: Graph, workload: Workload, /) -> Iterable[KernelTemplate]:
        """Yield every template that computes the whole graph, best first."""
        ...


@dataclass(frozen=True)
class Family:
    """One folder of kernels."""

    name: str
    """The folder's name."""
    rank: int
    """Families are asked in ascending rank."""
    match: Match
    """Graph → templates."""


@cache
def families() -> tuple[Family, ...]:
    """Return every family, in the order they are asked."""
    root = import_module("kernelwright.kernels")
    names = [m.name for m in pkgutil.iter_modules(root.__path__) if m.ispkg and not m.name.startswith("_")]
    modules = {name: import_module(f"kernelwright.kernels.{name}") for name in names}
    found = [Family(n, getattr(m, "RANK", _DEFAULT_RANK), m.match) for n, m in modules.items()]
    return tuple(sorted(found, key=lambda family: (family.rank, family.name)))


def match_all(graph: Graph, workload: Workload) -> Iterator[KernelTemplate]:
    """Yield the templates of every family that computes the whole graph, most specific family first."""
    for family in families():
        yield from family.match(graph, workload)
