"""Program → Candidate in C++: OpenMP over threads, the vectors of `vector.h` over lanes.

The width of a vector is left to the C++ compiler (16 floats with AVX-512, 8 with AVX2, 4 elsewhere), so one
source serves every machine. A program that torch computes parts of, that changes its arguments in place, or
that packs weights ahead of the calls, becomes Python around the kernels.
"""

import re
from collections.abc import Mapping
from importlib.resources import files

from ....languages.vectors import headers_of
from ....records import Candidate, Scalar, SourceFile
from ...calls import Calls, NotCalled
from ...graph import Graph
from ...tile import Contraction, Kernel, Program
from .. import Unprintable
from ._program import Printer, Style

__all__ = ["FORMS", "NotCalled", "Style", "Unprintable", "render", "source"]

FORMS = (
    "panels",
    "direct",
    "packed",
    "dots",
    "winograd",
    "winograd-2",
    "winograd-3",
    "winograd-4",
    "convolve",
    "channels-last",
    "online",
    "gradients",
    "moves",
    "segments",
    "ahead",
    "onednn",
    "native",
    "double",
)
"""Forms of a contraction that are printed, besides plain loops; `moves` for changes of single loops, `segments` for
sorts by segment, `ahead` for steps that run ahead of the calls, `onednn` for what the library of torch's CPU fuses,
`double` for sums in float64."""
_INCLUDED = re.compile(r'^#include "(\S+)"$', re.MULTILINE)
FLAGS = ("-Wno-psabi", "-Wno-uninitialized", "-Wno-unused-variable", "-Wno-unused-but-set-variable")
"""Everything is inlined, so no vector crosses an ABI; kernels may receive sizes that they do not use."""


def source(program: Program, title: str = "", style: Style | None = None) -> str:
    """Return the kernels and their entry as one file.

    Raises:
        Unprintable: there is no C++ for some operation.
    """
    return Printer(program, style or Style()).text(title or program.name)


def render(
    program: Program, graph: Graph, *, title: str = "", reason: str = "", template: str | None = None,
    parameters: Mapping[str, Scalar] | None = None, style: Style | None = None,
) -> Candidate:  # fmt: skip
    """Return the candidate of a program, headers included.

    Raises:
        Unprintable: there is no C++ for some operation.
        NotCalled: a native operation cannot be written as a call.
    """
    printer = Printer(program, style or Style())
    calls = bool(program.natives or program.updates or program.ahead)
    printed = printer.files(title or program.name, [s.name for s in program.steps] if calls else ())
    sources = [SourceFile(path=name, text=text) for name, text in printed.items()]
    entry = f"kernel.cpp:{program.name}"
    if calls:
        sources.append(SourceFile(path="run.py", text=_around(program, graph, printer)))
        entry = f"run.py:{program.name}"
    names = dict.fromkeys(n for text in printed.values() for n in _INCLUDED.findall(text))
    headers = [SourceFile(path=n, text=(files(__package__) / n).read_text()) for n in names]
    headers += headers_of(headers[0].text)
    return Candidate(
        sources=(*sources, *headers), language="cpp", entry=entry, flags=FLAGS,
        style="function" if calls else "destination", parameters=dict(parameters or {}),
        template=template, proposer="schedule", reason=reason,
    )  # fmt: skip


def _around(program: Program, graph: Graph, printer: Printer) -> str:
    """Return `run.py`: kernels and torch in sequence."""

    def launch(step: Kernel | Contraction) -> list[str]:
        reads, writes = printer.touched(step)
        given = [*(b.name for b in (*reads, *writes)), *printer.sizes(step)]
        return [f"kernels.{printer.functions[step.name]}_entry({', '.join(given)})"]

    sections = [
        (
            section,
            f"kernels.{entry}({', '.join([*(b.name for b in printer.given(section)), *program.symbols])})",
        )
        for entry, section in printer.sections.items()
    ]
    lines = [
        '"""Kernels of `kernel.cpp` and operations of torch, in turn; `kernels` is given by the loader."""',
        "", "import torch", "", "aten = torch.ops.aten", "", "",
        *Calls(program, graph, program.name, launch, sections=sections).lines(),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"
