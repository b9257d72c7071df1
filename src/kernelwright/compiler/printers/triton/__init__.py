"""Program → Candidate in Triton: blocks of elements, tiles of rows, `tl.dot` for products.

A traversal runs a block of its outermost loops in each program. Where the innermost loops read neighbours, they
run over the lanes of a row: a row that fits stays in registers between its passes, so that it is read once,
and a longer one is read in tiles. What is folded over a whole tensor leaves one partial state per program, merged by
the next launch. Half precision computes in float32. Native regions are torch's, between kernels, and so is
the last copy into arguments that change in place.

Covers: every traversal, with tails; scans along lanes; atomic scatters; contractions with both ends fused.
Does not cover: functions that Triton lacks, atomic products, scatters of half precision (`Unprintable`).
"""

from collections.abc import Mapping
from dataclasses import fields, replace

from ....records import Candidate, Parameter, Scalar, SourceFile, Space
from ...graph import Graph
from ...groups import renamed
from ...tile import Contraction, Kernel, Program
from .. import Unprintable
from ._cost import cost
from ._functions import TAKEN
from ._product import is_product
from ._program import Choice, Printer
from ._replay import is_replayable

__all__ = ["FORMS", "Choice", "Unprintable", "cost", "render", "space"]

FORMS = ("native", "bias", "programs")
"""Native regions run between the kernels, and add no bias to a convolution; reductions want many programs."""


def render(
    program: Program, graph: Graph, *, title: str = "", reason: str = "", template: str | None = None,
    parameters: Mapping[str, Scalar] | None = None,
) -> Candidate:  # fmt: skip
    """Return the candidate of a program; `parameters` named as the fields of `Choice` are used.

    Raises:
        Unprintable: there is no Triton for some operation.
    """
    given = dict(parameters or {})
    chosen = {f.name: given[f.name] for f in fields(Choice) if f.name in given}
    choice = Choice(**chosen)  # type: ignore[arg-type]  # the space gives each its own type
    own = renamed(program, TAKEN)
    if own.natives:  # they name sizes as the graph does
        own = replace(own, symbols={**program.symbols, **own.symbols})
    text = Printer(own, graph, choice).text(title or program.name)
    return Candidate(
        sources=(SourceFile(path="kernel.py", text=text),), language="triton", entry=f"kernel.py:{own.name}",
        style="function", parameters=given, template=template, proposer="schedule", reason=reason,
    )  # fmt: skip


def space(program: Program) -> Space:
    """Return what the tuner may choose for a program, the first of each to begin with."""
    products = [s for s in program.steps if isinstance(s, Contraction) and is_product(s)]
    others = [s for s in program.steps if isinstance(s, Kernel | Contraction) and s not in products]
    found = [Parameter(name="num_warps", values=(0, 4, 8, 2)), Parameter(name="num_stages", values=(2, 3, 1))]
    if others:
        found += [
            Parameter(name="lanes", values=("auto", "inner", "outer")),
            Parameter(name="block", values=(0, 1024, 512, 2048, 256, 4096)),
        ]
    if products:
        found += [
            Parameter(name="block_m", values=(0, 128, 64, 32, 16)),
            Parameter(name="block_n", values=(0, 128, 64, 32, 16)),
            Parameter(name="block_k", values=(0, 32, 64, 16)), Parameter(name="precision", values=("ieee", "tf32x3")),
        ]  # fmt: skip
    if is_replayable(program):
        found.append(Parameter(name="replay", values=(True, False)))
    return Space(parameters=tuple(found))
