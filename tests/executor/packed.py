"""More random instructions, with what they must give: halves in pairs, rarer ones on words, small formats."""

from fractions import Fraction

from . import semantics, video
from .reals import BF16, F16, F32, FORMATS, NAN, Format, add, extreme, fma, multiply, saturate
from .semantics import Case, clamp, read, signed

WORD = (1 << 32) - 1


def _pairs(kind, x, y, z=None):
    """Return PTX that packs operands in twos into x, y, z, and the types' names."""
    f = FORMATS[kind]
    packs = [
        f"mov.b{2 * f.bits} {n}, {{{{{p[0]}, {p[1]}}}}};" for n, p in zip("xyz", (x, y, z), strict=True) if p
    ]
    return f"{{{{ .reg .b{2 * f.bits} x, y, z; .reg .b{f.bits} l, h; " + " ".join(packs)


def pair_case(rng):
    """Arithmetic on two halves, or two floats, of which one is looked at."""
    kind = rng.choice(["f16", "bf16", "f16", "bf16", "f32"])
    f = FORMATS[kind]
    ops = ["add", "sub", "mul", "fma", *(() if kind == "f32" else ("min", "max", "neg", "abs", "fma.relu"))]
    op = rng.choice(ops)
    mode = rng.choice(["rn", "rz", "rm", "rp"]) if kind == "f32" else "rn"
    sat = rng.random() < 0.2 and kind == "f16" and op in {"add", "sub", "mul", "fma"}
    ftz = rng.random() < 0.3 and kind == "f32"
    nan = rng.random() < 0.5 and op in {"min", "max"}
    high = rng.random() < 0.5
    three, one = op.startswith("fma"), op in {"neg", "abs"}
    names = ("{a}", "{b}", "{c}") if three else ("{a}", "{b}")
    pack = _pairs(
        kind, names[:2], names[1:] if three else names[::-1], (names[2], names[0]) if three else None
    )
    head, *rest = op.split(".")
    rounding = "" if op in {"min", "max", "neg", "abs"} else f".{mode}"
    words = "".join(f".{m}" for m in (*(["ftz"] if ftz else []), *(["NaN"] if nan else []),
                                      *(["sat"] if sat else []), *rest))  # fmt: skip
    given = "x" if one else "x, y, z" if three else "x, y"
    d = "{d}"
    take = f"mov.b{2 * f.bits} {{{{l, h}}}}, x; mov.b{f.bits} {d}, {'h' if high else 'l'}; }}}}"
    text = f"{pack} {head}{rounding}{words}.{kind}x2 x, {given}; {take}"

    def means(*v):
        v = [f.flushed(u) for u in v] if ftz else list(v)
        v = [*v[1:], v[0]] if high else v
        r = {
            "add": lambda a, b: add(f, a, b, mode), "sub": lambda a, b: add(f, a, b ^ f.sign, mode),
            "mul": lambda a, b: multiply(f, a, b, mode), "fma": lambda a, b, c: fma(f, a, b, c, mode),
            "min": lambda a, b: extreme(f, a, b, False, nan), "max": lambda a, b: extreme(f, a, b, True, nan),
            "neg": lambda a, _: a ^ f.sign, "abs": lambda a, _: a & ~f.sign,
        }[head](*v)  # fmt: skip
        if ftz and r != NAN:
            r = f.flushed(r)
        if sat:
            return saturate(f, r)
        return 0 if rest and r != NAN and r & f.sign else r

    n = 3 if three else 2
    return Case(text, (f.bits, *[f.bits] * n), means, f, (f,) * n)


def word_case(rng):
    """Masks of bits, products of 24 bits, dot products of words and bytes, pairs of whole numbers."""
    op = rng.choice(
        [
            "bmsk",
            "szext",
            "fns",
            "mul24",
            "mad24",
            "dp2a",
            "pairs",
            "pairs",
            "testp",
            "slct",
            "set",
            "video",
            "video",
        ]
    )
    three, two = (32,) * 4, (32,) * 3
    if op in {"bmsk", "szext"}:
        mode = rng.choice(["clamp", "wrap"])
        kind = "b32" if op == "bmsk" else rng.choice(["u32", "s32"])
        n = rng.choice([0, 1, 5, 16, 31, 32, 33, 255, 1 << 31])

        def mask(a):
            if mode == "clamp" and a >= 32:
                return 0
            size = 32 if mode == "clamp" and n >= 32 else n & 31
            return sum(1 << i for i in range(a & 31, min((a & 31) + size, 32)))

        def extend(a):
            if mode == "clamp" and n >= 32:
                return a
            low = a & (1 << (n & 31)) - 1
            return (signed(low, n & 31) if kind == "s32" and n & 31 else low) & WORD

        if op == "bmsk" and rng.random() < 0.7:  # small starts are the ones that count
            return Case(f"{{{{ and.b32 {{d}}, {{a}}, 63; bmsk.{mode}.b32 {{d}}, {{d}}, {n}; }}}}", (32, 32),
                        lambda a: mask(a & 63))  # fmt: skip
        return Case(f"{op}.{mode}.{kind} {{d}}, {{a}}, {n};", (32, 32), mask if op == "bmsk" else extend)
    if op == "fns":
        base, offset = rng.randrange(32), rng.choice([0, 1, 2, 5, -1, -2, -7])

        def find(a):
            places = [base] if not offset else range(base, 32) if offset > 0 else range(base, -1, -1)
            held = [p for p in places if a >> p & 1]
            n = max(abs(offset) - 1, 0)
            return held[n] if n < len(held) else WORD

        return Case(f"fns.b32 {{d}}, {{a}}, {base}, {offset};", (32, 32), find)
    if op in {"mul24", "mad24"}:
        part, kind = rng.choice(["lo", "hi"]), rng.choice(["u32", "s32"])
        sat = op == "mad24" and part == "hi" and kind == "s32" and rng.random() < 0.5
        low = (lambda u: signed(u, 24)) if kind == "s32" else (lambda u: u & 0xFFFFFF)

        def product(a, b, c=0):
            p = low(a) * low(b) >> (16 if part == "hi" else 0)
            p = read(p & WORD, kind)
            return (clamp(p + read(c, kind), "s32") if sat else p + c) & WORD

        more = ", {c}" if op == "mad24" else ""
        return Case(
            f"{op}.{part}{'.sat' if sat else ''}.{kind} {{d}}, {{a}}, {{b}}{more};",
            three if more else two,
            product,
        )
    if op == "dp2a":
        part, ka, kb = rng.choice(["lo", "hi"]), rng.choice(["u32", "s32"]), rng.choice(["u32", "s32"])
        first = 0 if part == "lo" else 16

        def dot(a, b, c):
            pairs = ((read(a >> 16 * i, f"{ka[0]}16"), read(b >> first + 8 * i, f"{kb[0]}8")) for i in (0, 1))
            return c + sum(x * y for x, y in pairs) & WORD

        return Case(f"dp2a.{part}.{ka}.{kb} {{d}}, {{a}}, {{b}}, {{c}};", three, dot)
    return _compared(rng, op)


def _video(rng):
    """Bytes or halves of two words."""
    parts, what = (
        rng.choice([2, 4]),
        rng.choice(["vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax", "vset"]),
    )
    size = 32 // parts
    into, ka, kb = (rng.choice("us") for _ in range(3))
    adds = rng.random() < 0.5
    sat = not adds and what != "vset" and rng.random() < 0.5
    how = rng.choice(["lt", "ge", "eq"])
    f = {
        "vadd": int.__add__, "vsub": int.__sub__, "vavrg": lambda p, q: (p + q + (p + q >= 0)) >> 1, "vmin": min,
        "vabsdiff": lambda p, q: abs(p - q), "vmax": max,
        "vset": lambda p, q: int({"lt": p < q, "ge": p >= q, "eq": p == q}[how]),
    }[what]  # fmt: skip

    def means(a, b, c):
        each = [f(read(a >> at, f"{ka}{size}"), read(b >> at, f"{kb}{size}")) for at in range(0, 32, size)]
        if adds:
            return (c + sum(each)) & WORD
        each = [clamp(v, f"{into}{size}") if sat else v for v in each]
        return sum((v & (1 << size) - 1) << size * i for i, v in enumerate(each))

    kinds = f".{ka}32.{kb}32.{how}" if what == "vset" else f".{into}32.{ka}32.{kb}32"
    words = ".add" if adds else ".sat" if sat else ""
    return Case(f"{what}{parts}{kinds}{words} {{d}}, {{a}}, {{b}}, {{c}};", (32,) * 4, means)


def _compared(rng, op):
    if op == "video":
        return _video(rng)
    if op == "pairs":
        kind, what = rng.choice(["u16", "s16"]), rng.choice(["add", "min", "max"])
        relu = what in {"min", "max"} and kind == "s16" and rng.random() < 0.5
        f = {"add": int.__add__, "min": min, "max": max}[what]

        def both(a, b):
            halves = [f(read(a >> s, kind), read(b >> s, kind)) for s in (0, 16)]
            halves = [max(h, 0) if relu else h for h in halves]
            return halves[0] & 0xFFFF | (halves[1] & 0xFFFF) << 16

        words = ".relu" if relu else ""
        return Case(f"{what}{words}.{kind}x2 {{d}}, {{a}}, {{b}};", (32,) * 3, both)
    kind = rng.choice(["f32", "f64"])
    f = FORMATS[kind]
    if op == "testp":
        tests = {
            "finite": lambda u: not f.is_nan(u) and not f.is_infinite(u), "infinite": f.is_infinite,
            "number": lambda u: not f.is_nan(u), "notanumber": f.is_nan, "subnormal": f.is_subnormal,
            "normal": lambda u: 1 << f.fraction <= u & (f.sign - 1) < f.infinity or not u & (f.sign - 1),
        }  # fmt: skip
        what = rng.choice(list(tests))
        text = f"{{{{ .reg .pred q; testp.{what}.{kind} q, {{a}}; selp.b32 {{d}}, 1, 0, q; }}}}"
        return Case(text, (32, f.bits), lambda u: int(tests[what](u)), None, (f,))
    if op == "slct":
        return Case(
            "slct.b32.s32 {d}, {a}, {b}, {c};", (32,) * 4, lambda a, b, c: a if signed(c, 32) >= 0 else b
        )
    how, into = rng.choice(["lt", "ge", "eq"]), rng.choice(["u32", "f32"])
    test = {"lt": int.__lt__, "ge": int.__ge__, "eq": int.__eq__}[how]
    one = 0x3F800000 if into == "f32" else WORD
    return Case(
        f"set.{how}.{into}.s32 {{d}}, {{a}}, {{b}};",
        (32,) * 3,
        lambda a, b: one if test(signed(a, 32), signed(b, 32)) else 0,
    )


class Fp8(Format):
    """Rounded to nearest and to the greatest finite; e4m3 has no infinity, and NaN where that would be."""

    def encoded(self, f, u):
        """Return the bits for a float's."""
        if f.is_nan(u):
            return 0x7F
        most = 0x7E if self.fraction == 3 else 0x7B
        sign = 0x80 if u & f.sign else 0
        if f.is_infinite(u):
            return sign | most
        wide = Format(self.exponent + 1, self.fraction)  # where nothing overflows
        value = abs(f.value(u))
        greatest = Fraction(448) if self.fraction == 3 else Fraction(57344)
        rounded = wide.value(wide.rounded(value, "rn")) if value > 1 else None
        if rounded is not None and rounded >= greatest:
            return sign | most
        return sign | self.rounded(value, "rn")


E4M3, E5M2 = Fp8(4, 3), Fp8(5, 2)


def small_case(rng):
    """Conversions to pairs of halves and of bytes, and to tf32."""
    op = rng.choice(["pack", "fp8", "tf32"])
    high = rng.random() < 0.5
    if op == "tf32":
        mode = rng.choice(["rna", "rn", "rz"])
        tf32 = Format(8, 10)

        def narrow(u):
            return NAN if F32.is_nan(u) else u if F32.is_infinite(u) else tf32.rounded(
                F32.value(u), mode, negative_zero=bool(u & F32.sign)) << 13  # fmt: skip

        return Case(f"cvt.{mode}.tf32.f32 {{d}}, {{a}};", (32, 32), narrow, F32, (F32,))
    if op == "pack":
        kind, mode, relu = rng.choice(["f16", "bf16"]), rng.choice(["rn", "rz"]), rng.random() < 0.3
        f = F16 if kind == "f16" else BF16

        def half(a, b):
            u = a if high else b
            if F32.is_nan(u):
                return NAN
            if relu and u & F32.sign:  # minus zero becomes zero
                return 0
            sign = f.sign if u & F32.sign else 0
            return sign | f.infinity if F32.is_infinite(u) else f.rounded(F32.value(u), mode, bool(sign))

        text = (
            f"{{{{ .reg .b32 x; .reg .b16 l, h; cvt.{mode}{'.relu' if relu else ''}.{kind}x2.f32 x, {{a}}, {{b}}; "
            f"mov.b32 {{{{l, h}}}}, x; mov.b16 {{d}}, {'h' if high else 'l'}; }}}}"
        )
        return Case(text, (16, 32, 32), half, f, (F32, F32))
    name, f = rng.choice([("e4m3", E4M3), ("e5m2", E5M2)])
    return Case(
        f"cvt.rn.satfinite.{name}x2.f32 {{d}}, {{a}}, {{b}};",
        (16, 32, 32),
        lambda a, b: f.encoded(F32, a) << 8 | f.encoded(F32, b),
        None,
        (F32, F32),
    )


FAMILIES = (*semantics.FAMILIES, pair_case, word_case, small_case, *video.FAMILIES)


def case(rng):
    """Return a random instruction."""
    return rng.choice(FAMILIES)(rng)
