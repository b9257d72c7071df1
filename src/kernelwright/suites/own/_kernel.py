"""A kernel over rows as a list of steps → its text: in C++ or OpenCL, plain, slow, or longer than it needs to be."""

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Style = Literal["plain", "slow", "long"]
_UNROLLED = 8
_FUNCTIONS = ("exp", "log", "sqrt", "tanh", "fabs", "fmax", "fmin")


@dataclass(frozen=True)
class Loop:
    """Statements for each element `i` of a row."""

    body: str


@dataclass(frozen=True)
class RowKernel:
    """What is computed for each row of `x: (rows, dim)`; a second matrix is `y`, vectors are `w` and `b`.

    The steps are C that C++ and OpenCL share: `xr`, `yr` and `o` point to a row, `real` is the type of what is summed,
    `SCALE` a number that the seed draws.
    """

    name: str
    description: str
    arguments: tuple[str, ...]
    """Some of `x`, `y`, `w`, `b`, in order."""
    reference: str
    """The lines of the function that says what is right."""
    steps: tuple[str | Loop, ...]
    bug: tuple[str, str]
    """A text of a step and what stands there in the wrong kernel."""
    symptom: str
    """What its user sees of that."""
    reduces: bool = False
    """Whether there is one result a row."""

    @property
    def declared(self) -> Mapping[str, str]:
        """The arguments as a task declares them."""
        return {a: "float32[rows, dim]" if a in "xy" else "float32[dim]" for a in self.arguments}

    def text(self, language: str, scale: float, style: Style = "plain", *, wrong: bool = False) -> str:
        """Return the source in `cpp` or `opencl`.

        Example:
            >>> twice = RowKernel("twice", "", ("x",), "", (Loop("o[i] = xr[i] * SCALE;"),), ("xr", "o"), "")
            >>> "o[i] = xr[i] * 2.0f;" in twice.text("opencl", 2.0)
            True
        """
        lines = [line for step in self.steps for line in _lines(step, style)]
        if wrong:
            old, new = self.bug
            found = next(n for n, line in enumerate(lines) if old in line)
            lines[found] = lines[found].replace(old, new, 1)
        body = [line.replace("SCALE", f"{scale}f") for line in lines]
        return _cpp(self, body, style) if language == "cpp" else _opencl(self, body, style)


def _lines(step: str | Loop, style: Style) -> list[str]:
    if isinstance(step, str):
        return step.splitlines()
    inside = step.body.splitlines()
    if style != "long":
        return ["for (long i = 0; i < dim; ++i) {", *(f"  {line}" for line in inside), "}"]
    indented = [f"    {line}" for line in inside]
    unrolled = [
        line for n in range(_UNROLLED) for line in ("  {", f"    const long i = at + {n};", *indented, "  }")
    ]
    return [
        "{", "  long at = 0;", f"  for (; at + {_UNROLLED} <= dim; at += {_UNROLLED}) {{",
        *(f"  {line}" for line in unrolled), "  }",
        "  for (; at < dim; ++at) {", "    const long i = at;", *indented, "  }", "}",
    ]  # fmt: skip


def _rows(kernel: RowKernel, pointer: str, base: str) -> list[str]:
    """Declare the pointers to the row `r`."""
    wide = [a for a in kernel.arguments if a in "xy"]
    found = [f"{pointer} {a}r = {base.format(a)} + r * dim;" for a in wide]
    return [
        *found,
        f"{pointer.replace('const ', '')} o = {base.format('out')} + r{'' if kernel.reduces else ' * dim'};",
    ]


def _cpp(kernel: RowKernel, body: list[str], style: Style) -> str:
    arguments = [f"auto {a} = args.tensor<const float>({n}){'' if a in 'xy' else '.data()'};"
                 for n, a in enumerate(kernel.arguments)]  # fmt: skip
    used = [f"using std::{f};" for f in _FUNCTIONS if any(f"{f}(" in line for line in body)]
    inside = [*_rows(kernel, "const float*", "{}.data()"), *body]
    lines = [
        *arguments, f"auto out = args.tensor<float>({len(kernel.arguments)});",
        "const long rows = x.shape(0), dim = x.shape(1);", "for (long r = 0; r < rows; ++r) {",
        *(f"  {line}" for line in inside), "}",
    ]  # fmt: skip
    real = "long double" if style == "slow" else "float"
    head = [
        f"// {kernel.description}",
        '#include "kernelwright.h"',
        "",
        "#include <cmath>",
        "",
        *used,
        f"using real = {real};",
        "",
    ]
    return (
        "\n".join(head)
        + f"\nKW_KERNEL({kernel.name}) {{\n"
        + textwrap.indent("\n".join(lines), "  ")
        + "\n}\n"
    )


def _opencl(kernel: RowKernel, body: list[str], style: Style) -> str:
    real = "double" if style == "slow" else "float"
    given = ", ".join(f"__global const float* {a}" for a in kernel.arguments)
    inside = [
        "const long r = get_global_id(0);", "if (r >= rows) return;",
        *_rows(kernel, "__global const float*", "{}"), *body,
    ]  # fmt: skip
    return (
        f"// {kernel.description}\n// launch: rows = x.shape[0]\n// launch: dim = x.shape[1]\n"
        f"// launch: local = 16\n// launch: global = cdiv(rows, 16) * 16\ntypedef {real} real;\n\n"
        f"__kernel void {kernel.name}({given}, long rows, long dim, __global float* out) {{\n"
        + textwrap.indent("\n".join(inside), "  ") + "\n}\n"
    )  # fmt: skip
