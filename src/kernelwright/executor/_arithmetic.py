"""add, sub, mul, mad, fma, div, rem, min, max, abs, neg, sad, approximations: integers and all floats."""

from collections.abc import Callable

from ._ir import Instruction
from ._writer import C_TYPES, Modifiers, Writer, refused

ROUNDINGS = {"rn": "RN", "rz": "RZ", "rm": "RM", "rp": "RP", "": "RN"}
_HALVES = {"f16": "half", "bf16": "bfloat", "f16x2": "half", "bf16x2": "bfloat"}
_INTEGERS = {"u16", "s16", "u32", "s32", "u64", "s64"}
_WIDE = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}
Handler = Callable[[Writer, Instruction], None]


def flag(on: object) -> str:
    """Return a C++ truth value."""
    return "true" if on else "false"


def _halves(w: Writer, i: Instruction, kind: str, count: int, f: Callable[..., str]) -> None:
    """Apply `f` to 16-bit lanes, or to both halves of packed ones."""
    dest, *sources = i.operands
    if len(sources) != count:
        raise refused(i)
    if kind.endswith("x2"):
        values = [w.read(s, "b32") for s in sources]
        low, high = (f(*(f"{part}({v})" for v in values)) for part in ("low", "high"))
        w.write(dest, f"pack({low}, {high})", "b32")
    else:
        w.write(dest, f(*(w.read(s, "b16") for s in sources)), "b16")


def binary(w: Writer, i: Instruction) -> None:
    """add, sub, mul (float)."""
    mods = Modifiers(i)
    kind = mods.type()
    if kind in _INTEGERS:
        return _integer(w, i, mods, kind)
    rounding = mods.take("rn", "rz", "rm", "rp")
    ftz, sat = flag(mods.take("ftz")), flag(mods.take("sat"))
    if kind in _HALVES:
        if rounding not in {"", "rn"}:
            raise refused(i)
        mods.done()
        sign = {"add": "+", "sub": "-", "mul": "*"}[i.opcode]
        h = _HALVES[kind]
        call = f"[](double x, double y) {{ return x {sign} y; }}"
        return _halves(w, i, kind, 2, lambda a, b: f"half_binary<{h}, {ftz}, {sat}>({a}, {b}, {call})")
    if kind not in {"f32", "f64"}:
        raise refused(i)
    mods.done()
    dest, a, b = i.operands
    c = C_TYPES[kind]
    w.write(
        dest,
        f"{i.opcode}<{c}, {ROUNDINGS[rounding]}, {ftz}, {sat}>({w.read(a, kind)}, {w.read(b, kind)})",
        kind,
    )
    return None


def _integer(w: Writer, i: Instruction, mods: Modifiers, kind: str) -> None:
    dest, a, b = i.operands
    c = C_TYPES[kind]
    x, y = w.read(a, kind), w.read(b, kind)
    if i.opcode == "mul":
        part = mods.take("lo", "hi", "wide")
        mods.done()
        return w.write(dest, *_product(i, part, kind, x, y))
    carry = bool(mods.take("cc"))
    saturates = bool(mods.take("sat"))
    mods.done()
    if saturates:
        if kind != "s32":
            raise refused(i)
        return w.write(dest, f"map<{c}, {c}, {c}>({x}, {y}, {i.opcode}_sat<{c}>)", kind)
    if carry:
        return _with_carry(w, i, kind, "0")
    sign = "+" if i.opcode == "add" else "-"
    u = "b" + kind[1:]
    w.write(dest, f"{w.read(a, u)} {sign} {w.read(b, u)}", u)
    return None


def _product(i: Instruction, part: str, kind: str, x: str, y: str) -> tuple[str, str]:
    c = C_TYPES[kind]
    match part:
        case "wide" if kind in _WIDE:
            wide = _WIDE[kind]
            d = C_TYPES[wide]
            return f"(convert<{d}, {c}>({x}) * convert<{d}, {c}>({y}))", wide
        case "hi":
            return f"map<{c}, {c}, {c}>({x}, {y}, mul_hi<{c}>)", kind
        case "lo":
            u = C_TYPES["b" + kind[1:]]
            return f"(bits<V<{u}>>({x}) * bits<V<{u}>>({y}))", "b" + kind[1:]
    raise refused(i)


def _with_carry(w: Writer, i: Instruction, kind: str, carry_in: str) -> None:
    dest, a, b = i.operands
    u = "b" + kind[1:]
    out = "&cc" if "cc" in i.modifiers else "nullptr"
    name = "add_carry" if i.opcode.startswith("add") else "sub_borrow"
    w.write(dest, f"{name}<{C_TYPES[u]}>({w.read(a, u)}, {w.read(b, u)}, {carry_in}, {out}, {w.mask})", u)


def carried(w: Writer, i: Instruction) -> None:
    """addc, subc."""
    mods = Modifiers(i)
    kind = mods.type()
    mods.take("cc")
    mods.done()
    if kind not in {"u32", "s32", "u64", "s64"}:
        raise refused(i)
    _with_carry(w, i, kind, "cc")


def mad(w: Writer, i: Instruction) -> None:
    """mad, madc, and mad as fma of floats."""
    mods = Modifiers(i)
    kind = mods.type()
    if kind in {"f32", "f64"} and i.opcode == "mad":
        return _fma(w, i, mods, kind)
    if kind not in _INTEGERS:
        raise refused(i)
    part = mods.take("lo", "hi", "wide")
    carry_out, sat = mods.take("cc"), mods.take("sat")
    mods.done()
    dest, a, b, c = i.operands
    product, wide = _product(i, part, kind, w.read(a, kind), w.read(b, kind))
    u = "b" + wide[1:]
    value, addend = f"bits<V<{C_TYPES[u]}>>({product})", w.read(c, u)
    if sat:
        if kind != "s32" or part != "hi":
            raise refused(i)
        return w.write(
            dest, f"map<int32_t, int32_t, int32_t>({product}, {w.read(c, 's32')}, add_sat<int32_t>)", kind
        )
    if carry_out or i.opcode == "madc":
        carry_in = "cc" if i.opcode == "madc" else "0"
        out = "&cc" if carry_out else "nullptr"
        return w.write(dest, f"add_carry<{C_TYPES[u]}>({value}, {addend}, {carry_in}, {out}, {w.mask})", u)
    w.write(dest, f"{value} + {addend}", u)
    return None


def fma(w: Writer, i: Instruction) -> None:
    """fma of every float type."""
    mods = Modifiers(i)
    _fma(w, i, mods, mods.type())


def _fma(w: Writer, i: Instruction, mods: Modifiers, kind: str) -> None:
    rounding = mods.take("rn", "rz", "rm", "rp")
    ftz, sat, relu = mods.take("ftz"), mods.take("sat"), mods.take("relu")
    mods.done()
    if kind in _HALVES:
        if rounding != "rn":
            raise refused(i)
        call = f"half_fma<{_HALVES[kind]}, {flag(ftz)}, {flag(sat)}, {flag(relu)}>"
        return _halves(w, i, kind, 3, lambda a, b, c:
                       f"map<uint16_t, uint16_t, uint16_t, uint16_t>({a}, {b}, {c}, {call})")  # fmt: skip
    if kind not in {"f32", "f64"} or relu:
        raise refused(i)
    dest, *sources = i.operands
    values = ", ".join(w.read(s, kind) for s in sources)
    w.write(dest, f"fma<{C_TYPES[kind]}, {ROUNDINGS[rounding]}, {flag(ftz)}, {flag(sat)}>({values})", kind)
    return None


def divide(w: Writer, i: Instruction) -> None:
    """div, rem."""
    mods = Modifiers(i)
    kind = mods.type()
    dest, a, b = i.operands
    x, y, c = w.read(a, kind), w.read(b, kind), C_TYPES[kind]
    if kind in _INTEGERS:
        mods.done()
        return w.write(dest, f"map<{c}, {c}, {c}>({x}, {y}, {i.opcode}_int<{c}>)", kind)
    if kind not in {"f32", "f64"} or i.opcode == "rem":
        raise refused(i)
    rounding = mods.take("rn", "rz", "rm", "rp", "approx", "full")
    ftz = flag(mods.take("ftz"))
    mods.done()
    how = ROUNDINGS.get(rounding, "RN")
    w.write(dest, f"div<{c}, {how}, {ftz}, false>({x}, {y})", kind)
    return None


def extreme(w: Writer, i: Instruction) -> None:
    """min, max."""
    mods = Modifiers(i)
    kind = mods.type()
    if len(i.operands) != 3:
        raise refused(i)
    want_max = flag(i.opcode == "max")
    if kind in _INTEGERS:
        relu = mods.take("relu")
        mods.done()
        dest, a, b = i.operands
        c = C_TYPES[kind]
        value = f"{i.opcode}_int<{c}>({w.read(a, kind)}, {w.read(b, kind)})"
        if relu and kind != "s32":
            raise refused(i)
        return w.write(dest, f"max_int<{c}>({value}, zero<{c}>())" if relu else value, kind)
    ftz, nan = flag(mods.take("ftz")), flag(mods.take("NaN"))
    signs = mods.take("xorsign") and mods.take("abs")
    mods.done()
    if kind in _HALVES:
        call = f"half_extreme<{_HALVES[kind]}, {want_max}, {nan}, {ftz}>"
        infinity = "0x7c00" if kind.startswith("f16") else "0x7f80"

        def halves(a: str, b: str) -> str:
            plain = f"map<uint16_t, uint16_t, uint16_t>({{}}, {{}}, {call})"
            return _signed(a, b, plain, "uint16_t", infinity) if signs else plain.format(a, b)

        return _halves(w, i, kind, 2, halves)
    if kind not in {"f32", "f64"} or (signs and kind == "f64"):
        raise refused(i)
    dest, a, b = i.operands
    plain = f"extremes<{C_TYPES[kind]}, {want_max}, {nan}, {ftz}>({{}}, {{}})"
    if signs:
        plain = f"bits<b32>({plain.format('bits<V<float>>({})', 'bits<V<float>>({})')})"
        value = _signed(w.read(a, "b32"), w.read(b, "b32"), plain, "uint32_t", "0x7f800000")
        return w.write(dest, value, "b32")
    w.write(dest, plain.format(w.read(a, kind), w.read(b, kind)), kind)
    return None


def _signed(a: str, b: str, extreme: str, c: str, infinity: str) -> str:
    """Return an extreme of magnitudes under both signs' product; NaN has none. Source: PTX ISA, "min", `.xorsign`."""
    top = f"splat<{c}>({c}({c}(1) << (8 * sizeof({c}) - 1)))"
    magnitudes = extreme.format(f"(({a}) & ~{top})", f"(({b}) & ~{top})")
    call = f"[]({c} x, {c} s) {{ return {c}(x > {infinity} ? x : x | s); }}"
    return f"map<{c}, {c}, {c}>({magnitudes}, ((({a}) ^ ({b})) & {top}), {call})"


def sign(w: Writer, i: Instruction) -> None:
    """abs, neg."""
    mods = Modifiers(i)
    kind = mods.type()
    ftz = mods.take("ftz")
    mods.done()
    dest, a = i.operands
    if kind in _HALVES:
        if ftz and _HALVES[kind] != "half":
            raise refused(i)
        bit = "0x7fff" if i.opcode == "abs" else "0x8000"
        op = "&" if i.opcode == "abs" else "^"
        flushing = (
            "map<uint16_t, uint16_t>({}, [](uint16_t x) {{ return flush(half{{x}}).u; }})" if ftz else "{}"
        )
        return _halves(w, i, kind, 1, lambda x: f"({flushing.format(x)} {op} splat<uint16_t>({bit}))")
    c, x = C_TYPES[kind], w.read(a, kind)
    if kind in {"f32", "f64"}:
        u = unsigned_of(kind)
        mask = (
            f"{C_TYPES[u]}(~({C_TYPES[u]}(~{C_TYPES[u]}(0)) >> 1))"
            if i.opcode == "neg"
            else f"({C_TYPES[u]}(~{C_TYPES[u]}(0)) >> 1)"
        )
        op = "^" if i.opcode == "neg" else "&"
        return w.write(
            dest, f"(bits<V<{C_TYPES[u]}>>({flushed(x, ftz, c)}) {op} splat<{C_TYPES[u]}>({mask}))", u
        )
    if kind not in {"s16", "s32", "s64"}:
        raise refused(i)
    if i.opcode == "neg":
        u = unsigned_of(kind)
        return w.write(dest, f"zero<{C_TYPES[u]}>() - {w.read(a, u)}", u)
    w.write(
        dest,
        f"map<{c}, {c}>({x}, [](auto x) {{ return {c}(x < 0 ? 0 - {C_TYPES[unsigned_of(kind)]}(x) : x); }})",
        kind,
    )
    return None


def unsigned_of(kind: str) -> str:
    """Return the untyped bits of a type's width."""
    return "b" + kind.lstrip("bfsu")


def flushed(x: str, ftz: object, c: str) -> str:
    """Return a value with subnormals flushed if asked."""
    return f"flushed<{c}>({x})" if ftz else x


def sad(w: Writer, i: Instruction) -> None:
    """sad: c + |a - b|."""
    mods = Modifiers(i)
    kind = mods.type()
    mods.done()
    if kind not in _INTEGERS:
        raise refused(i)
    dest, a, b, c = i.operands
    t, u = C_TYPES[kind], unsigned_of(kind)
    call = f"[]({t} x, {t} y) {{ using U = {C_TYPES[u]}; return U(x < y ? U(y) - U(x) : U(x) - U(y)); }}"
    difference = f"map<{C_TYPES[u]}, {t}, {t}>({w.read(a, kind)}, {w.read(b, kind)}, {call})"
    w.write(dest, f"{difference} + {w.read(c, u)}", u)


def approximate(w: Writer, i: Instruction) -> None:
    """rcp, sqrt, rsqrt, sin, cos, ex2, lg2, tanh."""
    mods = Modifiers(i)
    kind = mods.type()
    dest, a = i.operands
    rounding = mods.take("approx", "rn", "rz", "rm", "rp")
    ftz = flag(mods.take("ftz"))
    mods.done()
    if kind in _HALVES and rounding == "approx" and i.opcode in {"ex2", "tanh"}:
        h = _HALVES[kind]
        value = f"close<{h}, {ftz}, false, false>({i.opcode}_approx(float(wide<{h}, {ftz}>(x))))"
        call = f"[](uint16_t x) {{ return {value}; }}"
        return _halves(w, i, kind, 1, lambda x: f"map<uint16_t, uint16_t>({x}, {call})")
    if kind not in {"f32", "f64"} or not rounding:
        raise refused(i)
    c, x = C_TYPES[kind], w.read(a, kind)
    if rounding != "approx":
        how = ROUNDINGS[rounding]
        if i.opcode == "rcp":
            return w.write(dest, f"div<{c}, {how}, {ftz}, false>(splat<{c}>(1), {x})", kind)
        if i.opcode != "sqrt":
            raise refused(i)
        call = "std::sqrt(x)" if how == "RN" else f"sqrt_rounded(x, {how})"
        return w.write(dest, f"approx<{c}, {ftz}>({x}, []({c} x) {{ return {call}; }})", kind)
    if kind == "f64" and (i.opcode not in {"rcp", "rsqrt"}):
        raise refused(i)
    how = "upper" if kind == "f64" and ftz == "true" else "approx"
    w.write(dest, f"approx<{c}, {ftz}>({x}, []({c} x) {{ return {i.opcode}_{how}(x); }})", kind)
    return None


def copy_sign(w: Writer, i: Instruction) -> None:
    """copysign: the sign of the first, the magnitude of the second."""
    mods = Modifiers(i)
    kind = mods.type()
    mods.done()
    if kind not in {"f32", "f64"}:
        raise refused(i)
    dest, a, b = i.operands
    u = unsigned_of(kind)
    c = C_TYPES[u]
    top = f"splat<{c}>({c}({c}(1) << {8 * (4 if kind == 'f32' else 8) - 1}))"
    w.write(dest, f"({w.read(a, u)} & {top}) | ({w.read(b, u)} & ~{top})", u)


HANDLERS: dict[str, Handler] = {
    "add": binary, "sub": binary, "mul": binary, "addc": carried, "subc": carried, "mad": mad, "madc": mad,
    "copysign": copy_sign, "fma": fma, "div": divide, "rem": divide,
    "min": extreme, "max": extreme, "abs": sign, "neg": sign, "sad": sad,
    **dict.fromkeys(("rcp", "sqrt", "rsqrt", "sin", "cos", "ex2", "lg2", "tanh"), approximate),
}  # fmt: skip
