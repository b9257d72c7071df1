"""Program → Candidate in WGSL: numbers in float32, integers and positions in 32 bits, sums in float32.

Covers: programs whose buffers have fewer than 2^31 elements; half precision is wide in them, integers are narrow.
Does not cover: float64 and small integers, products and sums of integers that memory holds, which may pass 32 bits,
items that loop too often, and what torch computes (`Unprintable`); doubles: where a C++ kernel sums in double
precision, this one sums in as many float32 partial sums as a group has items.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....languages.wgsl import LARGEST
from ....records import Candidate, Scalar, SourceFile
from ...graph import Graph
from ...groups import Body, Launch, iterations, launches, needed, print_program, renamed
from ...tile import Begin, Call, Literal, Program, expressions, statements, walk
from .. import Unprintable
from ._dialect import HELD, TAKEN, Wgsl
from ._functions import FUNCTIONS

__all__ = ["Unprintable", "render"]

_MOST_ELEMENTS = 1 << 31
_MOST_ITERATIONS = 65535
"""Iterations, all loops together, after which Mesa's software device silently leaves a shader.

Source: Mesa, src/gallium/auxiliary/gallivm/lp_bld_limits.h, LP_MAX_TGSI_LOOP_ITERATIONS."""
_GROWING = frozenset({"sum", "prod", "mul", "square", "pow"})
"""Operators and folds by which integers outgrow those in memory."""
_ADDING = frozenset({"add", "sub", "rsub"})
_ROW = 65535
"""Groups along one axis of a dispatch: the most that WebGPU allows."""


def render(
    program: Program, graph: Graph, *, title: str = "", reason: str = "", template: str | None = None,  # noqa: ARG001
    parameters: Mapping[str, Scalar] | None = None,
) -> Candidate:  # fmt: skip
    """Return the candidate of a program.

    Raises:
        Unprintable: a dtype or an operator has no form, or torch computes a part.
    """
    program = renamed(program, TAKEN)
    launched = list(launches(program))
    for launch in launched:
        if iterations(launch.body, Wgsl.items) > _MOST_ITERATIONS:
            raise Unprintable(f"{launch.name}: an item loops more than {_MOST_ITERATIONS} times")
    touched = {name for launch in launched for name in (*launch.loaded, *launch.stored)}
    for b in (b for b in program.buffers if b.name in touched):
        if b.dtype not in HELD:
            raise Unprintable(f"{b.name} is {b.dtype}; WGSL has {', '.join(HELD)}")
        if int(b.elements) >= _MOST_ELEMENTS:
            raise Unprintable(f"{b.name} has {b.elements} elements; positions have 32 bits")
    if any(b.dtype.startswith("int") for b in program.buffers if b.name in touched):
        _refuse_wide(launched)
    printer = _Printer(program, touched)
    head, text = print_program(program, Wgsl(), launched, printer.kernel)
    overrides = [f"override {name}: i32;" for name in program.symbols]
    body = "\n".join(text)
    lines = [*(f"// {line}" for line in (title or program.name).splitlines()), *head, ""]
    lines += [
        *printer.bindings({b for launch in launched for b in launch.stored}),
        *overrides,
        "",
        *needed(body, FUNCTIONS, "WGSL"),
        body,
    ]
    source = SourceFile(path="kernel.wgsl", text="\n".join(lines).rstrip() + "\n")
    return Candidate(
        sources=(source,), language="wgsl", entry=f"kernel.wgsl:{launched[-1].name}", style="destination",
        parameters=dict(parameters or {}), template=template, proposer="schedule", reason=reason,
    )  # fmt: skip


def _refuse_wide(launched: Sequence[Launch]) -> None:
    """Refuse integers that may pass 32 bits though all that memory holds fit: two of them add up, three may not."""
    added = 0
    for s in statements([s for launch in launched for s in launch.body]):
        if isinstance(s, Begin) and s.kind == "int64" and s.monoid in _GROWING:
            raise Unprintable(f"{s.name}: a {s.monoid} of integers may pass 32 bits")
        for e in (e for x in expressions(s) for e in walk(x)):
            if isinstance(e, Call) and e.kind == "int64":
                added += e.op in _ADDING
                if e.op in _GROWING or added > 1 or (e.op in _ADDING and _is_large(e)):
                    raise Unprintable(f"{e.op} of integers may pass 32 bits")
                if e.op == "cast" and any(a is not None and a.kind.startswith("float") for a in e.args):
                    raise Unprintable("a float that is made an integer may pass 32 bits")


def _is_large(e: Call) -> bool:
    """Whether a sum is of multiples, or with a number that leaves no room for another integer."""
    alone = dict(e.options).get("alpha", 1) == 1 and len(e.args) == 2
    return not alone or any(isinstance(a, Literal) and abs(a.value) >= LARGEST for a in e.args)


@dataclass
class _Printer:
    program: Program
    touched: set[str]

    def bindings(self, written: set[str]) -> list[str]:
        """Declare every buffer; arguments and outputs in the order of the call, then temporaries."""
        outside = sorted((b for b in self.program.buffers if b.role != "temporary"), key=lambda b: b.position)
        every = [*outside, *(b for b in self.program.buffers if b.role == "temporary")]
        every = [b for b in every if b.name in self.touched]
        access = {b.name: "read_write" if b.name in written else "read" for b in every}
        return [
            f"@group(0) @binding({i}) var<storage, {access[b.name]}> {b.name}: array<{HELD[b.dtype]}>;"
            for i, b in enumerate(every)
        ]

    def kernel(
        self, launch: Launch, body: Body, passed: list[str], lines: list[str]
    ) -> tuple[list[str], list[str]]:
        """Print one kernel; groups beyond one row of a dispatch go into the next row."""
        items = Wgsl.items
        groups = body.count if launch.grouped else f"(({body.count} + {items - 1}) / {items})"
        count = groups.replace("/", "//")
        said = [
            f"// kernel: {launch.name}({', '.join(passed)})",
            f"// launch: groups = (max(1, min({count}, {_ROW})), max(1, cdiv({count}, {_ROW})))",
        ]
        number = "i32(group.x + group.y * GROUPS)".replace("GROUPS", f"{_ROW}u")
        index = number if launch.grouped else f"{number} * {items} + item"
        text = [
            f"// {launch.comment}",
            *(
                f"var<workgroup> {name}: array<{Wgsl().type(kind)}, {items}>;"
                for name, kind in body.shares.items()
            ),
            f"@compute @workgroup_size({items})",
            f"fn {launch.name}(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) place: u32) {{",
            "  let item = i32(place);",
            f"  let index = {index};",
            f"  if (index >= {body.count}) {{ return; }}",
            *lines,
            "}",
        ]
        return said, text
