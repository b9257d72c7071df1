"""Random instructions with what each must give, computed on Python's whole numbers and fractions.

A `Case` is one instruction: its PTX, the widths of its operands, and its meaning on bits.
"""

from collections.abc import Callable
from dataclasses import dataclass

from . import reals
from .reals import FORMATS, NAN


@dataclass(frozen=True)
class Case:
    text: str
    """With {d} for the result and {a}, {b}, {c} for operands."""
    widths: tuple[int, ...]
    """Bits of the result, then of each operand."""
    means: Callable[..., "int | str"]
    format: "reals.Format | None" = None
    """The format of the result, where every NaN is as good."""
    operand_formats: tuple["reals.Format | None", ...] = ()


def signed(u, bits):
    u &= (1 << bits) - 1
    return u - (1 << bits) if u >> (bits - 1) else u


def read(u, kind):
    bits = int(kind[1:])
    return signed(u, bits) if kind[0] == "s" else u & ((1 << bits) - 1)


def clamp(v, kind):
    bits = int(kind[1:])
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)
    return min(max(v, low), high)


def quotient(a, b):
    return (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)


def integer_case(rng):
    kind = rng.choice(["u16", "s16", "u32", "s32", "u64", "s64"])
    bits, mask = int(kind[1:]), (1 << int(kind[1:])) - 1

    def case(text, f, n, width=bits):
        return Case(
            text, (width, *[bits] * n), lambda *v: f(*(read(x, kind) for x in v)) & ((1 << width) - 1)
        )

    op = rng.choice(["add", "sub", "mul.lo", "mul.hi", "mul.wide", "mad.lo", "mad.hi", "min", "max", "div", "rem",
                     "sad", "abs", "neg", "add.sat", "sub.sat", "mad.wide"])  # fmt: skip
    if op in {"mul.wide", "mad.wide"} and bits == 64:
        op = "mul.hi"
    if op in {"abs", "neg"}:
        kind = "s" + kind[1:]
        return case(f"{op}.{kind} {{d}}, {{a}};", abs if op == "abs" else lambda a: -a, 1)
    if op.endswith(".sat"):
        kind, bits, mask = "s32", 32, (1 << 32) - 1
        f = {"add.sat": lambda a, b: clamp(a + b, "s32"), "sub.sat": lambda a, b: clamp(a - b, "s32")}[op]
        means = lambda a, b: f(read(a, "s32"), read(b, "s32")) & mask  # noqa: E731
        return Case(f"{op}.s32 {{d}}, {{a}}, {{b}};", (32, 32, 32), means)
    if op == "mul.wide":
        return case(f"{op}.{kind} {{d}}, {{a}}, {{b}};", lambda a, b: a * b, 2, 2 * bits)
    if op == "mad.wide":
        text = f"{op}.{kind} {{d}}, {{a}}, {{b}}, {{c}};"
        wide = (1 << 2 * bits) - 1
        return Case(
            text, (2 * bits, bits, bits, 2 * bits), lambda a, b, c: read(a, kind) * read(b, kind) + c & wide
        )
    if op in {"mad.lo", "mad.hi", "sad"}:
        f = {"mad.lo": lambda a, b, c: a * b + c, "mad.hi": lambda a, b, c: (a * b >> bits) + c,
             "sad": lambda a, b, c: c + abs(a - b)}[op]  # fmt: skip
        return case(f"{op}.{kind} {{d}}, {{a}}, {{b}}, {{c}};", f, 3)
    f = {
        "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul.lo": lambda a, b: a * b,
        "mul.hi": lambda a, b: a * b >> bits, "min": min, "max": max,
        "div": lambda a, b: quotient(a, b) if b else -1, "rem": lambda a, b: a - b * quotient(a, b) if b else -1,
    }[op]  # fmt: skip
    return case(f"{op}.{kind} {{d}}, {{a}}, {{b}};", f, 2)


def bits_case(rng):
    bits = rng.choice([32, 64])
    mask = (1 << bits) - 1
    op = rng.choice(["and", "or", "xor", "not", "cnot", "shl", "shr", "popc", "clz", "brev", "bfind", "bfe", "bfi",
                     "lop3", "prmt", "shf", "dp4a", "selp", "carry"])  # fmt: skip
    if op in {"and", "or", "xor"}:
        f = {"and": int.__and__, "or": int.__or__, "xor": int.__xor__}[op]
        return Case(f"{op}.b{bits} {{d}}, {{a}}, {{b}};", (bits, bits, bits), f)
    if op in {"not", "cnot"}:
        f = (lambda a: ~a & mask) if op == "not" else (lambda a: int(a == 0))
        return Case(f"{op}.b{bits} {{d}}, {{a}};", (bits, bits), f)
    if op in {"shl", "shr"}:
        kind = rng.choice(["u", "s", "b"]) if op == "shr" else "b"
        n = rng.choice([0, 1, 7, bits - 1, bits, bits + 1, 255, 1 << 31])
        by = min(n, 99)
        f = {"shl": lambda a: a << by & mask, "shr": lambda a: read(a, f"{kind}{bits}") >> by & mask}[op]
        return Case(f"{op}.{kind}{bits} {{d}}, {{a}}, {n};", (bits, bits), f)
    if op in {"popc", "clz", "brev"}:
        turn = lambda a: int(f"{a:0{bits}b}"[::-1], 2)  # noqa: E731
        f = {"popc": int.bit_count, "clz": lambda a: bits - a.bit_length(), "brev": turn}[op]
        return Case(f"{op}.b{bits} {{d}}, {{a}};", (bits if op == "brev" else 32, bits), f)
    if op == "bfind":
        kind, shifted = rng.choice(["u", "s"]), rng.choice(["", ".shiftamt"])

        def find(a):
            v = read(a, f"{kind}{bits}")
            top = (v if v >= 0 else ~v).bit_length() - 1
            return 0xFFFFFFFF if top < 0 else bits - 1 - top if shifted else top

        return Case(f"bfind{shifted}.{kind}{bits} {{d}}, {{a}};", (32, bits), find)
    if op == "bfe":
        kind, at, size = rng.choice(["u", "s"]), rng.randrange(0, 80), rng.randrange(0, 80)

        def extract(a):
            if size == 0:
                return 0
            top = min(at + size - 1, bits - 1)
            fill = (a >> top) & 1 if kind == "s" else 0
            kept = [(a >> (at + i)) & 1 if at + i < bits and i < size else fill for i in range(bits)]
            return sum(bit << i for i, bit in enumerate(kept))

        return Case(f"bfe.{kind}{bits} {{d}}, {{a}}, {at}, {size};", (bits, bits), extract)
    if op == "bfi":
        at, size = rng.randrange(0, 80), rng.randrange(0, 80)

        def insert(a, b):
            for i in range(size):
                if at + i < bits:
                    b = b & ~(1 << (at + i)) | ((a >> i) & 1) << (at + i)
            return b

        return Case(f"bfi.b{bits} {{d}}, {{a}}, {{b}}, {at}, {size};", (bits, bits, bits), insert)
    return _word_case(rng, op)


def _word_case(rng, op):
    mask = (1 << 32) - 1
    if op == "lop3":
        table = rng.randrange(256)

        def look_up(a, b, c):
            places = ((a >> i & 1) << 2 | (b >> i & 1) << 1 | c >> i & 1 for i in range(32))
            return sum((table >> place & 1) << i for i, place in enumerate(places))

        return Case(f"lop3.b32 {{d}}, {{a}}, {{b}}, {{c}}, {table};", (32, 32, 32, 32), look_up)
    if op == "prmt":
        mode = rng.choice(["", "", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16"])
        if mode:
            place = {
                "f4e": lambda n, i: n + i, "b4e": lambda n, i: (n - i) % 8, "rc8": lambda n, i: n, "ecl": max,
                "ecr": min, "rc16": lambda n, i: n % 2 * 2 + i % 2,
            }[mode]  # fmt: skip

            def take(a, b, c):
                both = (b << 32 | a).to_bytes(8, "little")
                return int.from_bytes((both[place(c & 3, i)] for i in range(4)), "little")

            return Case(f"prmt.b32.{mode} {{d}}, {{a}}, {{b}}, {{c}};", (32, 32, 32, 32), take)

        def permute(a, b, c):
            both, r = (b << 32 | a).to_bytes(8, "little"), 0
            for i in range(4):
                s = c >> (4 * i) & 15
                byte = both[s & 7]
                r |= ((0xFF if byte & 0x80 else 0) if s & 8 else byte) << (8 * i)
            return r

        return Case("prmt.b32 {d}, {a}, {b}, {c};", (32, 32, 32, 32), permute)
    if op == "shf":
        side, mode, n = (
            rng.choice("lr"),
            rng.choice(["clamp", "wrap"]),
            rng.choice([0, 1, 13, 31, 32, 33, 64, 1000]),
        )
        by = n & 31 if mode == "wrap" else min(n, 32)
        left, right = (
            (lambda a, b: (b << 32 | a) << by >> 32 & mask),
            (lambda a, b: (b << 32 | a) >> by & mask),
        )
        f = left if side == "l" else right
        return Case(f"shf.{side}.{mode}.b32 {{d}}, {{a}}, {{b}}, {n};", (32, 32, 32), f)
    if op == "dp4a":
        ka, kb = rng.choice(["u32", "s32"]), rng.choice(["u32", "s32"])

        def dot(a, b, c):
            return (
                c + sum(read(a >> 8 * i, f"{ka[0]}8") * read(b >> 8 * i, f"{kb[0]}8") for i in range(4))
                & mask
            )

        return Case(f"dp4a.{ka}.{kb} {{d}}, {{a}}, {{b}}, {{c}};", (32, 32, 32, 32), dot)
    if op == "carry":
        first, second = rng.choice([("add.cc.u32", "addc.u32"), ("sub.cc.u32", "subc.u32")])
        sign = 1 if first.startswith("add") else -1
        text = f"{{{{ .reg .b32 x; {first} x, {{a}}, {{b}}; {second} {{d}}, {{a}}, {{c}}; }}}}"
        f = lambda a, b, c: ((a | a << 32) + sign * (b | c << 32)) >> 32 & mask  # noqa: E731
        return Case(text, (32, 32, 32, 32), f)
    how = rng.choice(["lt", "eq", "ge", "ne"])
    f = {"lt": int.__lt__, "eq": int.__eq__, "ge": int.__ge__, "ne": int.__ne__}[how]
    text = f"{{{{ .reg .pred q; setp.{how}.s32 q, {{a}}, {{b}}; selp.b32 {{d}}, {{b}}, {{c}}, q; }}}}"
    return Case(text, (32, 32, 32, 32), lambda a, b, c: b if f(signed(a, 32), signed(b, 32)) else c)


def real_case(rng):
    kind = rng.choice(["f32", "f32", "f64", "f16", "bf16"])
    f = FORMATS[kind]
    mode = rng.choice(["rn", "rz", "rm", "rp"]) if kind in {"f32", "f64"} else "rn"
    ftz = rng.random() < 0.3 and kind == "f32"
    sat = rng.random() < 0.2 and kind in {"f32", "f16"}
    op = rng.choice(["add", "sub", "mul", "fma", "div", "sqrt", "rcp", "min", "max", "neg", "abs"])
    if op in {"div", "sqrt", "rcp"} and kind in {"f16", "bf16"}:
        op = "fma"
    sat = sat and op in {"add", "sub", "mul", "fma"}
    n = {"fma": 3, "sqrt": 1, "rcp": 1, "neg": 1, "abs": 1}.get(op, 2)
    if op in {"neg", "abs"}:
        means = (lambda a: a ^ f.sign) if op == "neg" else (lambda a: a & ~f.sign)
        return Case(f"{op}.{kind} {{d}}, {{a}};", (f.bits, f.bits), means, f, (f,))
    if op in {"min", "max"}:
        nan, signs = rng.random() < 0.5 and kind != "f64", rng.random() < 0.4 and kind != "f64"
        words = f"{'.ftz' if ftz else ''}{'.NaN' if nan else ''}{'.xorsign.abs' if signs else ''}"
        text = f"{op}{words}.{kind} {{d}}, {{a}}, {{b}};"

        def base(a, b):
            if not signs:
                return reals.extreme(f, a, b, op == "max", nan)
            r = reals.extreme(f, a & ~f.sign, b & ~f.sign, op == "max", nan)
            return r if r == NAN else r | (a ^ b) & f.sign
    else:
        operands = ", ".join("{" + x + "}" for x in "abc"[:n])
        text = f"{op}.{mode}{'.ftz' if ftz else ''}{'.sat' if sat else ''}.{kind} {{d}}, {operands};"
        base = {
            "add": lambda a, b: reals.add(f, a, b, mode), "sub": lambda a, b: reals.add(f, a, b ^ f.sign, mode),
            "mul": lambda a, b: reals.multiply(f, a, b, mode), "fma": lambda a, b, c: reals.fma(f, a, b, c, mode),
            "div": lambda a, b: reals.divide(f, a, b, mode), "sqrt": lambda a: reals.root(f, a, mode),
            "rcp": lambda a: reals.divide(f, f.bias << f.fraction, a, mode),
        }[op]  # fmt: skip

    def means(*values):
        r = base(*(f.flushed(v) if ftz else v for v in values))
        if ftz and r != NAN:
            r = f.flushed(r)
        return reals.saturate(f, r) if sat else r

    return Case(text, (f.bits, *[f.bits] * n), means, f, (f,) * n)


def convert_case(rng):
    into, of = rng.choice(["real", "integer"]), rng.choice(["real", "integer"])
    integers = ["u16", "s16", "u32", "s32", "u64", "s64"]
    if into == of == "integer":
        a, d, sat = rng.choice(integers), rng.choice(integers), rng.random() < 0.5
        bits = int(d[1:])
        sat = sat and not (
            clamp(-1 << 63, a) >= clamp(-1 << 63, d) and clamp(1 << 64, a) <= clamp(1 << 64, d)
        )
        f = (lambda v: clamp(read(v, a), d)) if sat else (lambda v: read(v, a))
        text = f"cvt{'.sat' if sat else ''}.{d}.{a} {{d}}, {{a}};"
        return Case(text, (bits, int(a[1:])), lambda v: f(v) & ((1 << bits) - 1))
    if into == "integer":
        a, d, mode = (
            rng.choice(["f16", "f32", "f64"]),
            rng.choice(integers),
            rng.choice(["rni", "rzi", "rmi", "rpi"]),
        )
        f, bits = FORMATS[a], int(d[1:])

        def whole(u):
            if f.is_nan(u):
                return 1 << (bits - 1) if bits == 64 or a == "f64" else 0
            if f.is_infinite(u):
                return clamp((-1 if u & f.sign else 1) << 200, d) & ((1 << bits) - 1)
            v = f.value(u)
            n = {"rni": round, "rzi": int, "rmi": lambda v: v.__floor__(), "rpi": lambda v: v.__ceil__()}[
                mode
            ](v)
            return clamp(n, d) & ((1 << bits) - 1)

        return Case(f"cvt.{mode}.{d}.{a} {{d}}, {{a}};", (bits, f.bits), whole, None, (f,))
    mode = rng.choice(["rn", "rz", "rm", "rp"])
    if of == "integer":
        a, d = rng.choice(integers), rng.choice(["f16", "f32", "f64"])
        mode = "rn" if d == "f16" else mode
        f = FORMATS[d]
        means = lambda v: f.rounded(reals.Fraction(read(v, a)), mode)  # noqa: E731
        return Case(f"cvt.{mode}.{d}.{a} {{d}}, {{a}};", (f.bits, int(a[1:])), means, f)
    a, d = rng.choice([("f64", "f32"), ("f32", "f16"), ("f32", "bf16"), ("f64", "f16"), ("f16", "f32"), ("f16", "f64"),
                       ("f32", "f64"), ("bf16", "f32")])  # fmt: skip
    fa, fd = FORMATS[a], FORMATS[d]
    narrows = fd.bits < fa.bits
    mode = mode if (a, d) == ("f64", "f32") else rng.choice(["rn", "rz"]) if a == "f32" else "rn"

    def convert(u):
        if fa.is_nan(u):
            return NAN
        sign = fd.sign if u & fa.sign else 0
        return (
            sign | fd.infinity
            if fa.is_infinite(u)
            else fd.rounded(fa.value(u), mode, negative_zero=bool(sign))
        )

    return Case(
        f"cvt{'.' + mode if narrows else ''}.{d}.{a} {{d}}, {{a}};", (fd.bits, fa.bits), convert, fd, (fa,)
    )


def compare_case(rng):
    kind = rng.choice(["f32", "f64", "u32", "s32", "s64", "u16"])
    real = kind in FORMATS
    unordered = ["equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"] if real else []
    how = rng.choice(["eq", "ne", "lt", "le", "gt", "ge", *unordered])
    bits = FORMATS[kind].bits if real else int(kind[1:])
    plain = {"eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
             "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b}  # fmt: skip

    def means(a, b):
        if not real:
            return int(plain[how](read(a, kind), read(b, kind)))
        f = FORMATS[kind]
        unordered = f.is_nan(a) or f.is_nan(b)
        if how in {"num", "nan"}:
            return int(unordered == (how == "nan"))
        if unordered:
            return int(len(how) == 3)
        infinite = 1 << 5000
        x, y = ((-infinite if u & f.sign else infinite) if f.is_infinite(u) else f.value(u) for u in (a, b))
        return int(plain[how[:2]](x, y))

    f = FORMATS.get(kind)
    text = f"{{{{ .reg .pred q; setp.{how}.{kind} q, {{a}}, {{b}}; selp.b32 {{d}}, 1, 0, q; }}}}"
    return Case(text, (32, bits, bits), means, None, (f, f))


FAMILIES = (integer_case, bits_case, real_case, real_case, convert_case, compare_case)


def value(rng, bits, f=None):
    """Return random bits, corners more often than chance would have them."""
    pick = rng.random()
    if f is not None and pick < 0.5:
        one, quiet = f.bias << f.fraction, f.infinity | 1 << (f.fraction - 1)
        special = [0, 1, (1 << f.fraction) - 1, 1 << f.fraction, one, one + 1, (f.bias - 1) << f.fraction]
        special += [f.infinity - 1, f.infinity, quiet]
        return rng.choice(special) | rng.choice([0, f.sign])
    if f is not None and pick < 0.8:  # near one: sums and products that round
        e = f.bias + rng.randrange(-min(f.bias - 1, 30), min(f.bias - 1, 30))
        return e << f.fraction | rng.getrandbits(f.fraction) | rng.choice([0, f.sign])
    if pick < 0.3:
        return rng.choice([0, 1, (1 << bits) - 1, 1 << (bits - 1), (1 << (bits - 1)) - 1, 2, 0xFF])
    return rng.getrandbits(bits)


def ptx(cases, lanes=32):
    """Return a kernel that runs each case on every lane: in[case][operand][lane] → out[case][lane], 64 bits each."""
    step = 8 * lanes
    lines = [
        ".version 8.6", ".target sm_100", ".address_size 64",
        ".visible .entry fuzz(.param .u64 given, .param .u64 got)", "{", ".reg .b64 %in, %out, %x, %lane;",
        ".reg .b32 %t;", "ld.param.u64 %in, [given];", "ld.param.u64 %out, [got];", "mov.u32 %t, %tid.x;",
        "mul.wide.u32 %lane, %t, 8;", "add.u64 %in, %in, %lane;", "add.u64 %out, %out, %lane;",
    ]  # fmt: skip
    for n, c in enumerate(cases):
        lines.append("{")
        names = {}
        for k, width in enumerate(c.widths):
            names["dabc"[k]] = f"%v{k}"
            lines.append(f".reg .b{width} %v{k};")
            if k:
                lines.append(f"ld.global.b64 %x, [%in+{(3 * n + k - 1) * step}];")
                lines.append(f"mov.b64 %v{k}, %x;" if width == 64 else f"cvt.u{width}.u64 %v{k}, %x;")
        lines.append(c.text.format(**names))
        width = c.widths[0]
        lines.append("mov.b64 %x, %v0;" if width == 64 else f"cvt.u64.u{width} %x, %v0;")
        lines.append(f"st.global.b64 [%out+{n * step}], %x;")
        lines.append("}")
    return "\n".join([*lines, "ret;", "}"])
