"""`aten`: operators of torch, each in several dtypes and layouts, from a table that torch's own OpInfo gave.

`python -m benchmarks.aten_rows` makes the table; `docs/suites-own.md` names what was left out, and why.
"""

from importlib.resources import files

from ...tasks.inputs.regimes import REGIMES, SPECIAL
from ._row import Row, Size
from ._written import Written

COLUMNS = ("group", "name", "forms", "arguments", "sizes", "call")
"""Of the table: `forms` are `dtype:layout`; a size is a number, or a range `low..high/step`."""
_LAPACK = ("norm_nuc", "pinverse", "svd")
"""Operators outside the group `linalg` that LAPACK computes."""
_FINITE = tuple(regime for regime in REGIMES if regime != SPECIAL)
"""Value regimes of what LAPACK computes: on NaN it may print errors, loop, or end the process."""


class Aten(Written):
    """The suite of operators."""

    name = "aten"
    layout = ("aten.json",)
    title = "Operators of torch in several dtypes and layouts, at sizes drawn by a seed"

    def rows(self) -> tuple[Row, ...]:
        """Return every operator in every form."""
        lines = (files("kernelwright.suites.own") / "aten.tsv").read_text().splitlines()[1:]
        return tuple(row for line in lines for row in of_line(line))


def of_line(line: str) -> list[Row]:
    """Return the rows of a line of the table, one for each form.

    Example:
        >>> row, = of_line("tensor\\tadd\\tint32:strided\\tx0=dtype[n]; x1=dtype[n]\\tn=8..16\\ttorch.add(x0, x1)")
        >>> row.name, dict(row.arguments)
        ('add_int32_strided', {'x0': 'dtype[n] strided', 'x1': 'dtype[n] strided'})
    """
    given = dict(zip(COLUMNS, line.split("\t"), strict=True))
    declared = dict(part.split("=", 1) for part in given["arguments"].split("; "))
    sizes = dict(part.split("=") for part in given["sizes"].split())
    *before, last = given["call"].split("; ")
    body = "".join(f"    {line}\n" for line in (*before, f"return {last}"))
    found = []
    for form in given["forms"].split():
        dtype, layout = form.split(":")
        word = "" if layout == "contiguous" else f" {layout}"
        arguments = {k: v + word if v.startswith("dtype[") else v for k, v in declared.items()}
        found.append(
            Row(
                name=f"{given['name']}_{dtype}" + (f"_{layout}" if word else ""), group=given["group"],
                code=f"def _({', '.join(declared)}):\n{body}", arguments=arguments,
                sizes={**{k: _size(v) for k, v in sizes.items()}, "dtype": dtype},
                fixed=tuple(k for k, v in sizes.items() if ".." not in v),
                description=f"`{last}` in {dtype}, {layout}.",
                regimes=_FINITE if given["group"] == "linalg" or given["name"] in _LAPACK else None,
            )
        )  # fmt: skip
    return found


def _size(text: str) -> Size:
    ends, _, step = text.partition("/")
    return tuple(map(int, (*ends.split(".."), *([step] if step else [])))) if ".." in ends else int(ends)
