"""What each operation does, one function each, chosen by the meanings of the instruction set."""

from typing import Any

import numpy as np

from ._description import Description
from ._machine import Handler, Machine
from ._memory import Fault

X = dict[str, Any]


def handlers_of(description: Description) -> dict[str, Handler]:
    """Return the function of each operation by its canonical name."""
    s = description.semantics
    chosen = dict(_HANDLERS)
    if s.subtract == "b-a":
        chosen["sub"] = lambda m, x: m.set_scalar(x["d"], m.scalar(x["b"]) - m.scalar(x["a"]))
        chosen["vsub"] = lambda m, x: m.set_vector(x["d"], m.vector(x["b"]) - m.vector(x["a"]))
    if s.divide == "b/a":
        chosen["vdiv"] = lambda m, x: m.set_vector(x["d"], m.vector(x["b"]) / m.vector(x["a"]))
    if s.compare == "b>a":
        chosen["vgt"] = lambda m, x: m.set_vector(x["d"], m.vector(x["b"]) > m.vector(x["a"]))
    return chosen


def _branch(holds: bool, x: X) -> int | None:
    return int(x["l"]) if holds else None


def _jump(_: Machine, x: X) -> int:
    return int(x["l"])


def _halt(_: Machine, __: X) -> int:
    return -1


def _mwait(m: Machine, _: X) -> None:
    m.multiplying.clear()


def _setvl(m: Machine, x: X) -> None:
    length = m.scalar(x["a"])
    if length < 1:
        raise Fault("value", f"the vector length is set to {length}; expected at least 1")
    m.vl = min(length, m.description.lanes)


def _lds(m: Machine, x: X) -> None:
    value = float(m.memory.load(m.address(x["a"]), 1)[0])
    if not abs(value) < 2**31:
        raise Fault("value", f"{value} cannot be cut to a whole number of 32 bits")
    m.set_scalar(x["d"], int(value))


def _rup(m: Machine, x: X) -> None:
    m.set_scalar(x["d"], -(-m.scalar(x["a"]) // x["i"]) * x["i"])


def _vlds(m: Machine, x: X) -> None:
    stride = m.words(m.scalar(x["s"]), "stride")
    m.set_vector(x["d"], m.memory.load_apart(m.address(x["a"]), stride, m.vl))


def _vsts(m: Machine, x: X) -> None:
    stride = m.words(m.scalar(x["s"]), "stride")
    m.memory.store_apart(m.address(x["a"]), stride, m.vector(x["x"]).copy())


def _vfma(m: Machine, x: X) -> None:
    m.set_vector(x["d"], m.vector(x["d"]) + m.vector(x["a"]) * m.vector(x["b"]))


def _vexp(m: Machine, x: X) -> None:
    m.set_vector(x["d"], np.exp(m.vector(x["a"]).astype(np.float64)).astype(np.float32))


def _vrsum(m: Machine, x: X) -> None:
    lanes = np.zeros(m.description.lanes, np.float32)
    lanes[: m.vl] = m.vector(x["a"])
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = lanes[:half] + lanes[half:]
    m.set_reduced(x["d"], lanes[0])


def _vspl(m: Machine, x: X) -> None:
    m.set_vector(x["d"], m.vector(x["a"], 1)[0])


def _mld(m: Machine, x: X) -> None:
    rows, columns, starts = m.tile_rows(x)
    tile = np.zeros((m.description.tile, m.description.tile), np.float32)
    for i, at in zip(range(rows), starts, strict=True):
        tile[i, :columns] = m.memory.load(at, columns)
    m.set_tile(x["d"], tile)


def _mst(m: Machine, x: X) -> None:
    rows, columns, starts = m.tile_rows(x)
    tile = m.tile(x["x"])
    for i, at in zip(range(rows), starts, strict=True):
        m.memory.store(at, tile[i, :columns])


def _mma(m: Machine, x: X) -> None:
    total, a, b = m.tile(x["d"], adding=True), m.tile(x["a"]), m.tile(x["b"])
    if x["d"] in (x["a"], x["b"]):
        raise Fault("matrix", "the tile to which products are added is one of their factors")
    which = m.description.semantics.mma
    a, b = (a.T if which == "ATB" else a), (b.T if which == "ABT" else b)
    for k in range(m.description.tile):
        total += a[:, k : k + 1] * b[k]
    m.multiplying.add(x["d"])


def _dstride(m: Machine, x: X) -> None:
    m.strides[x["q"]] = (m.words(m.scalar(x["a"]), "stride"), m.words(m.scalar(x["b"]), "stride"))


_HANDLERS: dict[str, Handler] = {
    "li": lambda m, x: m.set_scalar(x["d"], x["i"]),
    "add": lambda m, x: m.set_scalar(x["d"], m.scalar(x["a"]) + m.scalar(x["b"])),
    "addi": lambda m, x: m.set_scalar(x["d"], m.scalar(x["a"]) + x["i"]),
    "sub": lambda m, x: m.set_scalar(x["d"], m.scalar(x["a"]) - m.scalar(x["b"])),
    "mul": lambda m, x: m.set_scalar(x["d"], m.scalar(x["a"]) * m.scalar(x["b"])),
    "min": lambda m, x: m.set_scalar(x["d"], min(m.scalar(x["a"]), m.scalar(x["b"]))),
    "rup": _rup,
    "blt": lambda m, x: _branch(m.scalar(x["a"]) < m.scalar(x["b"]), x),
    "bge": lambda m, x: _branch(m.scalar(x["a"]) >= m.scalar(x["b"]), x),
    "jmp": _jump,
    "halt": _halt,
    "lds": _lds,
    "setvl": _setvl,
    "vld": lambda m, x: m.set_vector(x["d"], m.memory.load(m.aligned(x["a"]), m.vl)),
    "vlds": _vlds,
    "vbc": lambda m, x: m.set_vector(x["d"], m.memory.load(m.address(x["a"]), 1)[0]),
    "vst": lambda m, x: m.memory.store(m.aligned(x["a"]), m.vector(x["x"])),
    "vsts": _vsts,
    "vst1": lambda m, x: m.memory.store(m.address(x["a"]), m.vector(x["x"], 1)),
    "vimm": lambda m, x: m.set_vector(x["d"], x["f"]),
    "vcvt": lambda m, x: m.set_vector(x["d"], np.float32(m.scalar(x["a"]))),
    "viota": lambda m, x: m.set_vector(x["d"], np.arange(m.vl, dtype=np.float32)),
    "vspl": _vspl,
    "vmov": lambda m, x: m.set_vector(x["d"], m.vector(x["a"])),
    "vadd": lambda m, x: m.set_vector(x["d"], m.vector(x["a"]) + m.vector(x["b"])),
    "vsub": lambda m, x: m.set_vector(x["d"], m.vector(x["a"]) - m.vector(x["b"])),
    "vmul": lambda m, x: m.set_vector(x["d"], m.vector(x["a"]) * m.vector(x["b"])),
    "vdiv": lambda m, x: m.set_vector(x["d"], m.vector(x["a"]) / m.vector(x["b"])),
    "vmax": lambda m, x: m.set_vector(x["d"], np.maximum(m.vector(x["a"]), m.vector(x["b"]))),
    "vmin": lambda m, x: m.set_vector(x["d"], np.minimum(m.vector(x["a"]), m.vector(x["b"]))),
    "vgt": lambda m, x: m.set_vector(x["d"], m.vector(x["a"]) > m.vector(x["b"])),
    "vfma": _vfma,
    "vexp": _vexp,
    "vsqrt": lambda m, x: m.set_vector(x["d"], np.sqrt(m.vector(x["a"]))),
    "vrsum": _vrsum,
    "vrmax": lambda m, x: m.set_reduced(x["d"], m.vector(x["a"]).max()),
    "mshape": lambda m, x: m.set_shape(m.scalar(x["a"]), m.scalar(x["b"])),
    "mzero": lambda m, x: m.set_tile(x["d"], 0),
    "mld": _mld,
    "mst": _mst,
    "mma": _mma,
    "mtr": lambda m, x: m.set_tile(x["d"], m.tile(x["a"]).T.copy()),
    "mwait": _mwait,
    "dshape": lambda m, x: m.set_queue_shape(x["q"], m.scalar(x["a"]), m.scalar(x["b"])),
    "dstride": _dstride,
    "din": lambda m, x: m.memory.start(x["q"], m.plan(x, inward=True)),
    "dout": lambda m, x: m.memory.start(x["q"], m.plan(x, inward=False)),
    "dwait": lambda m, x: m.wait(x["q"], x["i"]),
}
