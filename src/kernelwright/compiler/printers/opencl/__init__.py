"""Program → Candidate in OpenCL C: doubles and 64-bit positions, half precision through float32.

Covers: every dtype of the tile form.
Does not cover: what torch computes (`Unprintable`).
"""

from collections.abc import Mapping

from ....records import Candidate, Scalar, SourceFile
from ...graph import Graph
from ...groups import Body, Launch, launches, needed, print_program, renamed, shared
from ...tile import Buffer, Program
from .. import Unprintable
from ._dialect import STORED, TAKEN, OpenClC
from ._functions import FUNCTIONS

__all__ = ["FORMS", "Unprintable", "render"]

FORMS = ("double",)
"""Sums in float64 can be printed, so `single` may choose float32 instead."""


def render(
    program: Program, graph: Graph, *, title: str = "", reason: str = "", template: str | None = None,  # noqa: ARG001
    parameters: Mapping[str, Scalar] | None = None,
) -> Candidate:  # fmt: skip
    """Return the candidate of a program.

    Raises:
        Unprintable: an operator has no form, or torch computes a part.
    """
    program = renamed(program, TAKEN)
    launched = shared(list(launches(program)), program)
    by_name = {b.name: b for b in program.buffers}

    def frame(launch: Launch, body: Body, passed: list[str], lines: list[str]) -> tuple[list[str], list[str]]:
        return _kernel(launch, body, [by_name[n] for n in passed], lines)

    head, text = print_program(program, OpenClC(), launched, frame)
    body = "\n".join(text)
    lines = [
        *(f"// {line}" for line in (title or program.name).splitlines()),
        *head,
        "",
        *needed(body, FUNCTIONS, "OpenCL C"),
        body,
    ]
    source = SourceFile(path="kernel.cl", text="\n".join(lines).rstrip() + "\n")
    return Candidate(
        sources=(source,), language="opencl", entry=f"kernel.cl:{launched[-1].name}", style="destination",
        parameters=dict(parameters or {}), template=template, proposer="schedule", reason=reason,
    )  # fmt: skip


def _kernel(
    launch: Launch, body: Body, passed: list[Buffer], lines: list[str]
) -> tuple[list[str], list[str]]:
    items, sizes = OpenClC.items, list(body.program.symbols)
    count = body.count.replace("/", "//")
    groups = f"({count})" if launch.grouped else f"cdiv({count}, {items})"
    said = [
        f"// kernel: {launch.name}({', '.join([*(b.name for b in passed), *sizes])})",
        f"// launch: local = {items}",
        f"// launch: global = max(1, {groups}) * {items}",
    ]
    parameters = [
        f"__global {'' if b.name in launch.stored else 'const '}{STORED[b.dtype]}* restrict {b.name}"
        for b in passed
    ]
    parameters += [f"const long {name}" for name in sizes]
    dialect = OpenClC()
    text = [
        f"// {launch.comment}",
        f"__kernel void {launch.name}({', '.join(parameters)}) {{",
        *(f"  {dialect.shared(kind, name)}" for name, kind in body.shares.items()),
        "  const long item = get_local_id(0);",
        f"  const long index = {'get_group_id(0)' if launch.grouped else 'get_global_id(0)'};",
        f"  if (index >= {body.count}) return;",
        *lines,
        "}",
    ]
    return said, text
