"""mma.sync: dense and sparse products of one warp, of every shape and type of sm_70 to sm_90."""

from ._arithmetic import Handler, flag
from ._ir import Immediate, Instruction, Operand, Vector
from ._writer import Writer, refused

_SHAPES = {
    ("m16n8k16", "f16"): (4, 2), ("m16n8k16", "bf16"): (4, 2), ("m16n8k8", "f16"): (2, 1), ("m16n8k8", "bf16"): (2, 1),
    ("m16n8k8", "tf32"): (4, 2), ("m16n8k4", "tf32"): (2, 1),
    ("m16n8k32", "e4m3"): (4, 2), ("m16n8k32", "e5m2"): (4, 2),
    ("m16n8k16", "e4m3"): (2, 1), ("m16n8k16", "e5m2"): (2, 1),
    ("m16n8k32", "s8"): (4, 2), ("m16n8k32", "u8"): (4, 2), ("m16n8k16", "s8"): (2, 1), ("m16n8k16", "u8"): (2, 1),
    **{("m16n8k64", k): (4, 2) for k in ("s4", "u4")}, **{("m16n8k32", k): (2, 1) for k in ("s4", "u4")},
    **{("m8n8k32", k): (1, 1) for k in ("s4", "u4")},
    ("m16n8k256", "b1"): (4, 2), ("m16n8k128", "b1"): (2, 1), ("m8n8k128", "b1"): (1, 1),
    ("m8n8k16", "s8"): (1, 1), ("m8n8k16", "u8"): (1, 1), ("m8n8k4", "f64"): (1, 1), ("m16n8k4", "f64"): (2, 1),
    ("m16n8k8", "f64"): (4, 2), ("m16n8k16", "f64"): (8, 4),
}  # fmt: skip
"""Registers of a lane that hold its part of A and of B."""
_SPARSE = {
    **{(s, k): (n, c) for k in ("f16", "bf16") for s, n, c in (("m16n8k16", 2, 4), ("m16n8k32", 4, 2))},
    ("m16n8k8", "tf32"): (2, 4), ("m16n8k16", "tf32"): (4, 2),
    **{(s, k): (n, c) for k in ("s8", "u8") for s, n, c in (("m16n8k32", 2, 2), ("m16n8k64", 4, 1))},
    **{(s, k): (n, c) for k in ("s4", "u4") for s, n, c in (("m16n8k64", 2, 2), ("m16n8k128", 4, 1))},
    ("m16n8k64", "e4m3"): (4, 1), ("m16n8k64", "e5m2"): (4, 1),
}  # fmt: skip
"""The same of sparse products, where A and B have as many, and how many sparsity selectors there are."""
_WHOLE = {"s8", "u8", "s4", "u4", "b1"}
_MIXED = ({"s8", "u8"}, {"s4", "u4"}, {"e4m3", "e5m2"})


def matrix(w: Writer, i: Instruction) -> None:
    """mma.sync, mma.sp.sync."""
    if i.modifiers[:1] in {("sp",), ("sp::ordered_metadata",)}:
        return _sparse(w, i)
    if i.modifiers[2:3] == ("m8n8k4",) and "f64" not in i.modifiers:
        return _four(w, i)
    return _dense(w, i)


def _fragment(w: Writer, i: Instruction, operand: Operand, count: int, kind: str = "b32") -> str:
    items = operand.items if isinstance(operand, Vector) else (operand,)
    if len(items) != count:
        raise refused(i)
    return ", ".join(w.read(item, kind) for item in items)


def _fragments(w: Writer, i: Instruction, counts: tuple[int, int, int, int], kind: str = "b32") -> None:
    """Write the fragments of A, B and C, and room for D."""
    for letter, operand, count in zip("abc", i.operands[1:4], counts, strict=False):
        w.emit(f"const {kind} f{letter}[] = {{{_fragment(w, i, operand, count, kind)}}};")
    w.emit(f"{kind} fd[{counts[3]}];")


def _results(w: Writer, i: Instruction, count: int, kind: str = "b32") -> None:
    items = i.operands[0].items if isinstance(i.operands[0], Vector) else (i.operands[0],)
    if len(items) != count:
        raise refused(i)
    for n, item in enumerate(items):
        w.write(item, f"fd[{n}]", kind)


def _dense(w: Writer, i: Instruction) -> None:
    mods = list(i.modifiers)
    rounding = mods.pop() if "f64" in mods and mods[-1] in {"rn", "rz", "rm", "rp"} else "rn"
    shape, saturates = mods[2] if len(mods) > 2 else "", "satfinite" in mods
    bits = mods[-2] if mods[-1:] == ["popc"] else ""
    if (
        mods[:2] != ["sync", "aligned"]
        or mods[3:5] != ["row", "col"]
        or len(mods) - saturates - 2 * bool(bits) != 9
    ):
        raise refused(i)
    into, ka, kb, of = mods[5 + saturates : 9 + saturates]
    counts = _SHAPES.get((shape, ka))
    mixed = ka == kb or any({ka, kb} <= kinds for kinds in _MIXED)
    if counts is None or not mixed or (bits in {"xor", "and"}) != (ka == "b1") or len(i.operands) != 4:
        raise refused(i)
    rows, k = int(shape[1:].partition("n")[0]), int(shape.rpartition("k")[2])
    kind = "b64" if ka == "f64" else "b32"
    call, accumulators = "", rows // 4
    if ka == "f64":
        call = f"mma_f64({rows}, {k}, {rounding.upper()}, {{}})"
    elif ka in _WHOLE:
        left, right = (f"{bits}_b1".upper(),) * 2 if bits else (ka.upper(), kb.upper())
        call = f"mma_s32({left}, {right}, {rows}, {k}, {flag(saturates)}, {{}})"
    elif (into, of) in {("f32", "f32"), ("f16", "f16")} and ka in {"e4m3", "e5m2"}:
        call = f"mma_f8({ka.upper()}, {kb.upper()}, {k}, {flag(into == 'f16')}, {{}})"
        accumulators = 2 if into == "f16" else 4
    elif (into, of) == ("f32", "f32"):
        call = f"mma_f32(w, {ka.upper()}, {k}, {{}})"
    elif (into, of, ka) == ("f16", "f16", "f16"):
        call, accumulators = f"mma_f16(w, {k}, {{}})", 2
    results = "f64" if ka == "f64" else "s32" if ka in _WHOLE else into
    if not call or (into, of) != (results, results) or (saturates and (ka not in _WHOLE or bits)):
        raise refused(i)
    _fragments(w, i, (*counts, accumulators, accumulators), kind)
    w.emit(call.format("fa, fb, fc, fd") + ";")
    _results(w, i, accumulators, kind)


def _four(w: Writer, i: Instruction) -> None:
    """m8n8k4 of halves: four products, with either order of A and of B."""
    head, orders, kinds = i.modifiers[:3], i.modifiers[3:5], i.modifiers[5:]
    if head != ("sync", "aligned", "m8n8k4") or not {*orders} <= {"row", "col"} or len(kinds) != 4:
        raise refused(i)
    into, ka, kb, of = kinds
    if (ka, kb) != ("f16", "f16") or (into, of) not in {("f16", "f16"), ("f32", "f16"), ("f32", "f32")}:
        raise refused(i)
    counts = tuple(4 if kind == "f16" else 8 for kind in (of, into))
    _fragments(w, i, (2, 2, counts[0], counts[1]))
    flags = ", ".join(flag(x) for x in (orders[0] == "col", orders[1] == "row", of == "f16", into == "f16"))
    w.emit(f"mma_four({flags}, fa, fb, fc, fd);")
    _results(w, i, counts[1])


def _sparse(w: Writer, i: Instruction) -> None:
    """mma.sp, mma.sp::ordered_metadata."""
    mods = list(i.modifiers[1:])
    shape, saturates = mods[2] if len(mods) > 2 else "", "satfinite" in mods
    if mods[:2] != ["sync", "aligned"] or mods[3:5] != ["row", "col"] or len(mods) - saturates != 9:
        raise refused(i)
    into, ka, kb, of = mods[5 + saturates : 9 + saturates]
    count, selectors = _SPARSE.get((shape, ka), (0, 0))
    mixed = ka == kb or any({ka, kb} <= kinds for kinds in _MIXED)
    sums = {"s32"} if ka in _WHOLE else {"f16", "f32"} if ka == "f16" else {"f32"}
    if not count or not mixed or into != of or into not in sums or (saturates and into != "s32"):
        raise refused(i)
    if len(i.operands) != 6:
        raise refused(i)
    metadata, selector = i.operands[4:]
    if not isinstance(selector, Immediate) or not 0 <= selector.value < selectors:
        raise refused(i, f"its sparsity selector is none of 0 to {selectors - 1}")
    held = 2 if into == "f16" else 4
    _fragments(w, i, (count, count, held, held))
    given = f"{ka.upper()}, {kb.upper()}, {into.upper()}, {shape.rpartition('k')[2]}, {selector.value}"
    flags = f"{flag('ordered' in i.modifiers[0])}, {flag(saturates)}"
    w.emit(f"mma_sparse(w, {w.site(i)}, {given}, {flags}, fa, fb, fc, {w.read(metadata, 'b32')}, fd);")
    _results(w, i, held)


HANDLERS: dict[str, Handler] = {"mma": matrix}
