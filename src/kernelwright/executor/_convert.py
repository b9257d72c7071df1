"""cvt: between every two types."""

from ._arithmetic import Handler, flag
from ._ir import WIDTHS, Instruction
from ._writer import C_TYPES, Modifiers, Writer, refused

_REALS = {"f16", "bf16", "f32", "f64"}
_HALF = {"f16": "half", "bf16": "bfloat"}
_WHOLE = {"rni": "RN", "rzi": "RZ", "rmi": "RM", "rpi": "RP"}
_ROUND = {"rn": "RN", "rz": "RZ", "rm": "RM", "rp": "RP", "rna": "RNA"}
_SMALL = {"u16": 16, "s16": 16, "u8": 8, "s8": 8, "u4": 4, "s4": 4, "u2": 2, "s2": 2}
"""Bits of what `cvt.pack` packs."""
_TYPES = (*C_TYPES, "e4m3x2", "e5m2x2")
_FP8 = {"e4m3x2": "e4m3", "e5m2x2": "e5m2"}


def convert(w: Writer, i: Instruction) -> None:
    """cvt."""
    if i.modifiers[:2] == ("pack", "sat"):
        return _pack(w, i)
    kinds = [m for m in i.modifiers if m in _TYPES]
    if len(kinds) != 2 or i.modifiers[-1] != kinds[-1]:
        raise refused(i)
    into, of = kinds
    mods = Modifiers(i)
    mods.drop(kinds)
    how = mods.take(*_WHOLE, *_ROUND)
    options = {name: bool(mods.take(name)) for name in ("ftz", "sat", "relu", "satfinite")}
    mods.done()
    if into in _FP8 or of in _FP8:
        return _fp8(w, i, into, of, how, options)
    if into in {"f16x2", "bf16x2"} or len(i.operands) == 3:
        return _packed(w, i, into, of, how, options)
    if into == "tf32":
        if of != "f32" or how not in {"rna", "rn", "rz"} or options["ftz"] or options["sat"]:
            raise refused(i)
        if options["relu"] and how == "rna":
            raise refused(i)
        value = f"to_tf32({'relu(x)' if options['relu'] else 'x'}, {_ROUND[how]})"
        call = f"[](float x) {{ return {_kept_finite(value, 'tf32') if options['satfinite'] else value}; }}"
        return w.write(
            i.operands[0],
            f"map<uint32_t, float>({w.read(i.operands[1], 'f32')}, {call})",
            "b32",
        )
    if (
        into not in C_TYPES
        or of not in C_TYPES
        or {into, of} & {"b8", "b16", "b32", "b64", "f16x2", "bf16x2"}
    ):
        raise refused(i)
    if options["satfinite"] and (
        into not in _HALF or of != "f32" or how not in {"rn", "rz"} or options["sat"]
    ):
        raise refused(i)
    if into in _REALS:
        return _to_real(w, i, into, of, how, options)
    return _to_integer(w, i, into, of, how, options)


def _source(w: Writer, i: Instruction, of: str, ftz: bool) -> tuple[str, str]:
    """Return a floating operand as lanes of float or double, and which of them."""
    text = w.read(i.operands[1], of)
    if of in _HALF:
        return (
            f"map<float, uint16_t>({text}, [](uint16_t x) {{ return to_float({_HALF[of]}{{x}}); }})",
            "float",
        )
    c = C_TYPES[of]
    return (f"flushed<{c}>({text})" if ftz and of == "f32" else text), c


def _to_integer(w: Writer, i: Instruction, into: str, of: str, how: str, options: dict[str, bool]) -> None:
    c = C_TYPES[into]
    if of in _REALS:
        if how not in _WHOLE or options["relu"]:
            raise refused(i)
        text, real = _source(w, i, of, options["ftz"])
        return w.write(
            i.operands[0],
            f"map<{c}, {real}>({text}, []({real} x) {{ return to_int<{c}, {real}>(x, {_WHOLE[how]}); }})",
            into,
        )
    if how or options["ftz"] or options["relu"]:
        raise refused(i)
    source, own = w.read(i.operands[1], of), C_TYPES[of]
    if options["sat"]:
        return w.write(i.operands[0], f"map<{c}, {own}>({source}, clamp_int<{c}, {own}>)", into)
    return w.write(i.operands[0], f"convert<{c}, {own}>({source})", into)


def _to_real(w: Writer, i: Instruction, into: str, of: str, how: str, options: dict[str, bool]) -> None:
    dest, ftz, sat = i.operands[0], options["ftz"], options["sat"]
    if of not in _REALS:
        if how not in _ROUND or options["relu"]:
            raise refused(i)
        wide = "int64_t" if of[0] == "s" else "uint64_t"
        source, own = w.read(i.operands[1], of), C_TYPES[of]
        value = _from_integer(i, into, wide, how, sat)
        return w.write(dest, f"map<{C_TYPES[into]}, {own}>({source}, [](auto x) {{ return {value}; }})", into)
    text, real = _source(w, i, of, ftz and into != "f16")  # an H200 flushes nothing on the way to f16
    if how in _WHOLE:
        value = f"round_whole<{real}>(x, {_WHOLE[how]})"
    else:
        value = "x"
        narrows = WIDTHS[into] < WIDTHS[of] or {into, of} == {"f16", "bf16"}
        if narrows != bool(how) and not (into == of and not how) and not (of == "bf16" and how != "rna"):
            raise refused(i)  # what widens rounds nothing, and says so but for bf16
    if sat:
        value = f"saturate<{real}>({value})"
    if options["relu"]:
        value = f"relu({value})"
    value = _narrowed(into, real, value, _ROUND.get(how, "RN"))
    if options["satfinite"]:
        value = f"uint16_t({_kept_finite(value, into)})"
    if ftz and into == "f32":
        value = f"flush({value})"
    return w.write(dest, f"map<{C_TYPES[into]}, {real}>({text}, []({real} x) {{ return {value}; }})", into)


def _narrowed(into: str, real: str, value: str, how: str) -> str:
    if into in _HALF:
        if into == "bf16" and real == "float" and how == "RN":
            return f"bfloat_of({value}).u"
        return f"from_double<{_HALF[into]}>({value}, {how}).u"
    if into == "f32" and real == "double":
        return f"float({value})" if how == "RN" else f"float_of({value}, {how})"
    return f"{C_TYPES[into]}({value})"


def _from_integer(i: Instruction, into: str, wide: str, how: str, sat: bool) -> str:
    if into in _HALF:
        if WIDTHS[i.modifiers[-1]] > 4:
            return f"from_double<{_HALF[into]}>(real_to_odd<{wide}>({wide}(x)), {_ROUND[how]}).u"
        return f"from_double<{_HALF[into]}>({'saturate<double>' if sat else ''}(double(x)), {_ROUND[how]}).u"
    c = C_TYPES[into]
    value = f"{c}(x)" if how == "rn" else f"real_of<{c}>({wide}(x), {_ROUND[how]})"
    return f"saturate<{c}>({value})" if sat else value


def _packed(w: Writer, i: Instruction, into: str, of: str, how: str, options: dict[str, bool]) -> None:
    if into not in {"f16x2", "bf16x2"} or of != "f32" or len(i.operands) != 3 or how not in {"rn", "rz"}:
        raise refused(i)
    if options["sat"] or options["ftz"]:
        raise refused(i)
    dest, high, low = i.operands
    x = "relu(x)" if options["relu"] else "x"
    value = _narrowed(into[:-2], "float", x, _ROUND[how])
    if options["satfinite"]:
        value = _kept_finite(value, into[:-2])
    parts = [
        f"map<uint16_t, float>({w.read(s, 'f32')}, [](float x) {{ return uint16_t({value}); }})"
        for s in (low, high)
    ]
    w.write(dest, f"pack({parts[0]}, {parts[1]})", "b32")


def _kept_finite(bits: str, kind: str) -> str:
    """Return the bits of a number with the greatest finite one in place of infinity."""
    sign, infinity, unit = {
        "f16": (0x8000, 0x7C00, 1),
        "bf16": (0x8000, 0x7F80, 1),
        "tf32": (1 << 31, 0x7F800000, 0x2000),
    }[kind]
    return f"[](uint32_t u) {{ return (u & ~{sign}u) == {infinity}u ? u - {unit}u : u; }}({bits})"


def _pack(w: Writer, i: Instruction) -> None:
    """cvt.pack.sat: two whole numbers, below what the fourth operand has. Source: PTX ISA, "cvt.pack"."""
    into, *given = i.modifiers[2:]
    dest, *sources = i.operands
    bits = _SMALL.get(into, 0)
    if not bits or given != (["s32"] if bits == 16 else ["s32", "b32"]) or len(sources) != len(given) + 1:
        raise refused(i)
    low, high = (0, (1 << bits) - 1) if into[0] == "u" else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    clamped = f"(uint32_t(x < {low} ? {low} : x > {high} ? {high} : x) & {(1 << bits) - 1}u)"
    a, b = (
        f"map<uint32_t, int32_t>({w.read(s, 's32')}, [](int32_t x) {{ return {clamped}; }})"
        for s in sources[:2]
    )
    above = f" | ({w.read(sources[2], 'b32')} << {2 * bits})" if len(sources) > 2 else ""
    w.write(dest, f"({a} << {bits}) | {b}{above}", "b32")


def _fp8(w: Writer, i: Instruction, into: str, of: str, how: str, options: dict[str, bool]) -> None:
    if how != "rn" or options["sat"] or options["ftz"]:
        raise refused(i)
    relu = flag(options["relu"])
    dest, *sources = i.operands
    if into in _FP8 and of == "f32" and len(sources) == 2 and options["satfinite"]:
        high, low = (w.read(s, "f32") for s in sources)
        to = f"to_{_FP8[into]}"
        call = f"[](float h, float l) {{ return uint16_t({to}(h, {relu}) << 8 | {to}(l, {relu})); }}"
        return w.write(dest, f"map<uint16_t, float, float>({high}, {low}, {call})", "b16")
    if into in _FP8 and of == "f16x2" and len(sources) == 1 and options["satfinite"]:
        to = f"to_{_FP8[into]}"
        parts = [f"{to}(to_float(half{{uint16_t(x >> {s})}}), {relu})" for s in (16, 0)]
        call = f"[](uint32_t x) {{ return uint16_t({parts[0]} << 8 | {parts[1]}); }}"
        return w.write(dest, f"map<uint16_t, uint32_t>({w.read(sources[0], 'b32')}, {call})", "b16")
    if of in _FP8 and into == "f16x2" and len(sources) == 1 and not options["satfinite"]:
        x = "relu(of_{0}(uint8_t(x >> {1})))" if options["relu"] else "of_{0}(uint8_t(x >> {1}))"
        half = "uint32_t(from_double<half>({}).u)"
        high, low = (half.format(x.format(_FP8[of], s)) for s in (8, 0))
        return w.write(
            dest,
            f"map<uint32_t, uint16_t>({w.read(sources[0], 'b16')}, [](uint16_t x) {{ return {high} << 16 | {low}; }})",
            "b32",
        )
    raise refused(i)


HANDLERS: dict[str, Handler] = {"cvt": convert}
