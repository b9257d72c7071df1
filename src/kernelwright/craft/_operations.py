"""The operations of the tile accelerator in the terms that the manual, the assembler and the simulator share.

Each has roles for its operands, a unit and its costs. How an instruction set spells and orders them is in a
`Description`; what they mean where sets differ is in its `Semantics`.
"""

from dataclasses import dataclass
from typing import Literal

Class = Literal["s", "v", "m", "q", "int", "float", "label"]
"""What an operand is: a scalar, vector, tile register, a queue, a number, a place in the program."""
Access = Literal["r", "w", "rw", ""]
"""Whether a register is read, written or both."""


@dataclass(frozen=True)
class Role:
    """One operand of an operation."""

    name: str
    """Its name in the meaning: `d`, `a`, `b` ..."""
    cls: Class
    """What it is."""
    access: Access = "r"
    """What happens to it."""


@dataclass(frozen=True)
class Kind:
    """One operation, whatever it is called."""

    name: str
    """Its canonical name, by which programs of this package refer to it."""
    roles: tuple[Role, ...]
    """Its operands in canonical order."""
    unit: str
    """The unit that executes it: scalar, vector, reduce, memory, matrix, dma, control."""
    latency: int
    """Cycles from issue until its result can be read."""
    busy: int
    """Cycles for which the unit takes no other instruction."""
    meaning: str
    """What it does, in terms of its operands."""


def _roles(text: str) -> tuple[Role, ...]:
    """Read `d:v:w a:v b:v`."""
    found = []
    for word in text.split():
        name, cls, *access = word.split(":")
        register = cls in {"s", "v", "m"}
        found.append(Role(name, cls, (access[0] if access else "r") if register else ""))  # type: ignore[arg-type]
    return tuple(found)


_TABLE: tuple[tuple[str, str, str, int, int, str], ...] = (
    ("li", "d:s:w i:int", "scalar", 1, 1, "{d} = {i}"),
    ("add", "d:s:w a:s b:s", "scalar", 1, 1, "{d} = {a} + {b}"),
    ("addi", "d:s:w a:s i:int", "scalar", 1, 1, "{d} = {a} + {i}"),
    ("sub", "d:s:w a:s b:s", "scalar", 1, 1, "{sub}"),
    ("mul", "d:s:w a:s b:s", "scalar", 3, 1, "{d} = {a} * {b}"),
    ("min", "d:s:w a:s b:s", "scalar", 1, 1, "{d} = the smaller of {a} and {b}"),
    ("rup", "d:s:w a:s i:int", "scalar", 1, 1, "{d} = {a} rounded up to a multiple of {i}, {i} > 0"),
    ("blt", "a:s b:s l:label", "control", 1, 1, "go to {l} if {a} < {b}"),
    ("bge", "a:s b:s l:label", "control", 1, 1, "go to {l} if {a} >= {b}"),
    ("jmp", "l:label", "control", 1, 1, "go to {l}"),
    ("halt", "", "control", 1, 1, "end the program; every DMA transfer must have been waited for"),
    ("lds", "d:s:w a:s", "memory", 4, 1, "{d} = the word at scratchpad address {a}, cut to a whole number"),
    ("setvl", "a:s", "scalar", 1, 1, "the vector length becomes the smaller of {a} and {VL}; {a} must be at least 1"),
    ("vld", "d:v:w a:s", "memory", 3, 1, "{d} = consecutive words from scratchpad address {a}, which must be aligned"),
    ("vlds", "d:v:w a:s s:s", "memory", 6, 4, "{d} = words at {a}, {a} + {s}, {a} + 2*{s} ...; no alignment needed"),
    ("vbc", "d:v:w a:s", "memory", 3, 1, "every lane of {d} = the one word at {a}; no alignment needed"),
    ("vst", "x:v a:s", "memory", 1, 1, "the lanes of {x} go to consecutive words from {a}, which must be aligned"),
    ("vsts", "x:v a:s s:s", "memory", 1, 4, "the lanes of {x} go to {a}, {a} + {s} ...; no alignment needed"),
    ("vst1", "x:v a:s", "memory", 1, 1, "lane 0 of {x} goes to the word at {a}; no alignment needed"),
    ("vimm", "d:v:w f:float", "vector", 2, 1, "every lane of {d} = {f}"),
    ("vcvt", "d:v:w a:s", "vector", 2, 1, "every lane of {d} = the whole number {a}, rounded to float32"),
    ("viota", "d:v:w", "vector", 2, 1, "lane i of {d} = i"),
    ("vspl", "d:v:w a:v", "vector", 3, 1, "every lane of {d} = lane 0 of {a}"),
    ("vmov", "d:v:w a:v", "vector", 2, 1, "{d} = {a}"),
    ("vadd", "d:v:w a:v b:v", "vector", 4, 1, "{d} = {a} + {b}"),
    ("vsub", "d:v:w a:v b:v", "vector", 4, 1, "{sub}"),
    ("vmul", "d:v:w a:v b:v", "vector", 4, 1, "{d} = {a} * {b}"),
    ("vdiv", "d:v:w a:v b:v", "vector", 14, 6, "{div}"),
    ("vmax", "d:v:w a:v b:v", "vector", 2, 1, "{d} = the larger of {a} and {b}"),
    ("vmin", "d:v:w a:v b:v", "vector", 2, 1, "{d} = the smaller of {a} and {b}"),
    ("vgt", "d:v:w a:v b:v", "vector", 2, 1, "{gt}"),
    ("vfma", "d:v:rw a:v b:v", "vector", 4, 1, "{d} = {d} + {a} * {b}; product and sum are each rounded"),
    ("vexp", "d:v:w a:v", "vector", 12, 4, "{d} = e to the power {a}, in float64, rounded once"),
    ("vsqrt", "d:v:w a:v", "vector", 12, 6, "{d} = the square root of {a}"),
    ("vrsum", "d:v:w a:v", "reduce", 8, 4, "{reduce} the sum of the lanes of {a}, in this order: lane i takes lane "
     "i + h, for h = {half}, ... 2, 1, where lanes past the vector length count as 0"),
    ("vrmax", "d:v:w a:v", "reduce", 8, 4, "{reduce} the largest lane of {a}"),
    ("mshape", "a:s b:s", "scalar", 1, 1, "later tile loads and stores move {a} rows of {b} words, 1 to {T} each"),
    ("mzero", "d:m:w", "matrix", 2, 1, "{d} = zeros"),
    ("mld", "d:m:w a:s s:s", "memory", 10, 8, "row i of {d} = words from {a} + i*{s}, aligned; the rest of {d} = 0"),
    ("mst", "x:m a:s s:s", "memory", 1, 8, "row i of {x} goes to words from {a} + i*{s}, aligned"),
    ("mma", "d:m:rw a:m b:m", "matrix", 16, 8, "{mma}"),
    ("mtr", "d:m:w a:m", "matrix", 8, 8, "{d} = {a} transposed"),
    ("mwait", "", "control", 1, 1, "wait until the results of all instructions on tiles (table *Tiles*) are ready"),
    ("dshape", "q:q a:s b:s", "scalar", 1, 1, "later transfers of {q} move {a} rows of {b} words, at least 1 each"),
    ("dstride", "q:q a:s b:s", "scalar", 1, 1,
     "rows of later transfers of {q} begin {a} apart in memory and {b} apart in the scratchpad"),
    ("din", "q:q a:s b:s", "dma", 1, 1, "start a transfer of {q} to scratchpad address {a} from memory address {b}"),
    ("dout", "q:q a:s b:s", "dma", 1, 1, "start a transfer of {q} from scratchpad address {a} to memory address {b}"),
    ("dwait", "q:q i:int", "control", 1, 1, "{wait}"),
)  # fmt: skip

KINDS: dict[str, Kind] = {
    name: Kind(name, _roles(roles), unit, latency, busy, meaning)
    for name, roles, unit, latency, busy, meaning in _TABLE
}
"""Every operation by its canonical name."""
