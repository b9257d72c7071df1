"""The printer interface: one folder per language, found by the language's name."""

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Protocol, cast

from ...records import Candidate, Scalar, Space
from ..graph import Graph
from ..policy import Estimate, estimate
from ..tile import Program


class Unprintable(Exception):
    """A language cannot express something in a program; the proposer skips the language."""


class Render(Protocol):
    """The function `render` that the folder of a language offers."""

    def __call__(
        self, program: Program, graph: Graph, *, title: str = "", reason: str = "", template: str | None = None,
        parameters: Mapping[str, Scalar] | None = None,
    ) -> Candidate:  # fmt: skip
        """Return the candidate of a program.

        Args:
            program: What to print.
            graph: What it was lowered from; native regions are printed from its operations.
            title: What it computes, for the head of the file.
            reason: Why it is proposed, in one line.
            template: Name of the requesting template.
            parameters: What is recorded with the candidate, the actions among them.

        Raises:
            Unprintable: the language has no form for something in the program.
        """
        ...


def choices_of(language: str, program: Program) -> Space | None:
    """Return what the folder of a language lets a tuner choose for a program; None if nothing."""
    own = getattr(import_module(f"{__package__}.{language}"), "space", None)
    return None if own is None else cast(Space, own(program))


def estimate_of(language: str) -> Estimate:
    """Return how the folder of a language estimates costs; as for a CPU if it does not say."""
    return cast(Estimate, getattr(import_module(f"{__package__}.{language}"), "cost", estimate))


def printer_of(language: str) -> Render | None:
    """Return the printer of a language, or None if there is none."""
    name = f"{__package__}.{language}"
    if find_spec(name) is None:
        return None
    return cast(Render, getattr(import_module(name), "render", None))


def forms_of(language: str) -> frozenset[str]:
    """Return `FORMS` of a language: forms of a product other than plain loops, `moves`, `ahead`, `bias`, `programs`."""
    return frozenset(getattr(import_module(f"{__package__}.{language}"), "FORMS", ()))
