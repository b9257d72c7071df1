"""Fragments of matrices as the lanes of a warp hold them, written from the tables of the PTX ISA."""

import numpy as np

HEAD = ".version 8.7\n.target sm_90a\n.address_size 64\n.visible .entry k("
LANE = np.arange(32)
GROUP, WITHIN = LANE // 4, LANE % 4
BITS = {"f64": 64, "tf32": 32, "f32": 32, "s32": 32, "f16": 16, "bf16": 16, "s4": 4, "u4": 4, "b1": 1}
"""Bits of an element; bytes for what is not named."""


def lanes(parameters, registers, body, loads):
    """Return a kernel in which each lane's `%at<n>` points to its own bytes of parameter n."""
    names = ", ".join(f".param .u64 p{n}" for n in range(parameters))
    places = "".join(
        f"ld.param.u64 %at{n}, [p{n}]; mad.wide.u32 %at{n}, %lane, {loads[n]}, %at{n};\n"
        for n in range(parameters)
    )
    return (
        f"{HEAD}{names}) {{\n.reg .b64 %at<{parameters}>;\n.reg .b32 %lane;\n{registers}\n"
        f"mov.u32 %lane, %tid.x;\n{places}{body}\nret;\n}}\n"
    )


def names(letter, count):
    """Return the registers of a fragment in braces."""
    return "{" + ", ".join(f"%{letter}{n}" for n in range(count)) + "}"


def words(bits, kind):
    """Pack the last axis of whole numbers, an element's bits each, into registers; the first is lowest."""
    size = BITS.get(kind, 8)
    wide = np.uint64 if size == 64 else np.uint32
    each = 8 * np.dtype(wide).itemsize // size
    parts = bits.astype(np.uint64).reshape(*bits.shape[:-1], -1, each) & np.uint64((1 << size) - 1)
    return (
        (parts << (np.uint64(size) * np.arange(each, dtype=np.uint64))).sum(-1, dtype=np.uint64).astype(wide)
    )


def left(bits, kind):
    """Return each lane's registers of a matrix of 8 or 16 rows: A, or what is kept of a sparse one."""
    each, halves = max(1, 32 // BITS.get(kind, 8)), len(bits) // 8
    count = bits.shape[1] * halves // (4 * each)
    at = [(GROUP + 8 * (r % halves), each * WITHIN + 4 * each * (r // halves)) for r in range(count)]
    cells = [np.stack([bits[row, column + x] for x in range(each)], -1) for row, column in at]
    return np.ascontiguousarray(np.stack([words(c, kind)[:, 0] for c in cells], 1))


def right(bits, kind):
    """Return each lane's registers of a matrix of 8 columns: B."""
    return left(np.ascontiguousarray(bits.T), kind)


def sums(c):
    """Return each lane's registers of an accumulator of 8 or 16 rows."""
    return np.ascontiguousarray(
        np.stack([c[GROUP + 8 * (r // 2), 2 * WITHIN + r % 2] for r in range(len(c) // 4)], 1)
    )
