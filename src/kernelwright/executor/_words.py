"""Rarer instructions on whole numbers: masks of bits, products of 24 bits, pairs of 16 bits; and testp."""

from ._arithmetic import Handler, flag
from ._ir import Instruction
from ._writer import C_TYPES, Modifiers, Writer, refused

PAIRS = ("u16x2", "s16x2")
_TESTS = {
    "finite": "std::isfinite(x)", "infinite": "std::isinf(x)", "number": "!std::isnan(x)",
    "notanumber": "std::isnan(x)", "normal": "std::isnormal(x) || x == 0",
    "subnormal": "std::fpclassify(x) == FP_SUBNORMAL",
}  # fmt: skip


def _map(w: Writer, i: Instruction, kind: str, call: str) -> None:
    """Apply a C++ function to each lane of operands that all are of one type, which the result is too."""
    dest, *sources = i.operands
    c = C_TYPES[kind]
    values = ", ".join(w.read(s, kind) for s in sources)
    w.write(dest, f"map<{', '.join([c] * (1 + len(sources)))}>({values}, {call})", kind)


def masks(w: Writer, i: Instruction) -> None:
    """bmsk, szext."""
    mods = Modifiers(i)
    kind, mode = mods.type(), mods.take("clamp", "wrap")
    mods.done()
    if not mode or len(i.operands) != 3 or kind not in ({"b32"} if i.opcode == "bmsk" else {"u32", "s32"}):
        raise refused(i)
    name = "bit_mask" if i.opcode == "bmsk" else f"extend_bits<{C_TYPES[kind]}>"
    _map(w, i, "b32", f"[](auto x, auto y) {{ return {name}(x, y, {flag(mode == 'clamp')}); }}")


def nth_set(w: Writer, i: Instruction) -> None:
    """fns."""
    if i.modifiers != ("b32",) or len(i.operands) != 4:
        raise refused(i)
    _map(w, i, "b32", "nth_set")


def products(w: Writer, i: Instruction) -> None:
    """mul24, mad24."""
    mods = Modifiers(i)
    kind, part, sat = mods.type(), mods.take("lo", "hi"), mods.take("sat")
    mods.done()
    adds = i.opcode == "mad24"
    if kind not in {"u32", "s32"} or not part or (sat and (kind, part, adds) != ("s32", "hi", True)):
        raise refused(i)
    c = C_TYPES[kind]
    product = f"product24<{c}>(x, y) >> {0 if part == 'lo' else 16}"
    if not adds:
        return _map(w, i, kind, f"[]({c} x, {c} y) {{ return {c}({product}); }}")
    total = f"add_sat<int32_t>({c}({product}), z)" if sat else f"{c}(uint32_t({product}) + uint32_t(z))"
    return _map(w, i, kind, f"[]({c} x, {c} y, {c} z) {{ return {total}; }}")


def dot(w: Writer, i: Instruction) -> None:
    """dp2a: two words of 16 bits by two of the four bytes."""
    part, *kinds = i.modifiers
    if part not in {"lo", "hi"} or len(kinds) != 2 or not {*kinds} <= {"u32", "s32"}:
        raise refused(i)
    a, b = ("uint" if k == "u32" else "int" for k in kinds)
    shift = 0 if part == "lo" else 16
    _map(w, i, "b32", f"[](auto x, auto y, auto z) {{ return dot2<{a}16_t, {b}8_t>(x, y >> {shift}, z); }}")


def pairs(w: Writer, i: Instruction) -> None:
    """add, sub, min, max of two words of 16 bits."""
    mods = Modifiers(i)
    kind, sat, relu = mods.type(), mods.take("sat"), mods.take("relu")
    mods.done()
    c = "uint16_t" if kind == "u16x2" else "int16_t"
    sums = i.opcode in {"add", "sub"}
    if (
        (sat and not sums)
        or (relu and (sums or kind == "u16x2"))
        or i.opcode not in {"add", "sub", "min", "max"}
    ):
        raise refused(i)
    each = {
        "add": f"add_sat<{c}>(x, y)" if sat else "x + y", "sub": f"sub_sat<{c}>(x, y)" if sat else "x - y",
        "min": "x < y ? x : y", "max": "x > y ? x : y",
    }[i.opcode]  # fmt: skip
    if relu:
        each = f"relu<{c}>({each})"
    call = f"[]({c} x, {c} y) {{ return {c}({each}); }}"
    _map(w, i, "b32", f"[](uint32_t x, uint32_t y) {{ return each_half<{c}>(x, y, {call}); }}")


def test(w: Writer, i: Instruction) -> None:
    """testp."""
    mods = Modifiers(i)
    kind, what = mods.type(), mods.take(*_TESTS)
    mods.done()
    if kind not in {"f32", "f64"} or not what:
        raise refused(i)
    dest, a = i.operands
    c = C_TYPES[kind]
    value = f"map<uint32_t, {c}>({w.read(a, kind)}, []({c} x) {{ return uint32_t({_TESTS[what]}); }})"
    w.write(dest, f"ne<uint32_t>({value}, zero<uint32_t>())", "pred")


HANDLERS: dict[str, Handler] = {
    "bmsk": masks, "szext": masks, "fns": nth_set, "mul24": products, "mad24": products, "dp2a": dot, "testp": test,
}  # fmt: skip
