"""Random video instructions with what the PTX ISA's pseudocode gives on Python's whole numbers."""

from kernelwright.executor import Module, NotExecutedError
from kernelwright.executor._parser import parse
from kernelwright.executor._translate import translate

from .semantics import Case, clamp, ptx, read, signed

WORD = (1 << 32) - 1
PARTS = ("", ".b0", ".b1", ".b2", ".b3", ".h0", ".h1")
COMPARED = {
    "eq": int.__eq__, "ne": int.__ne__, "lt": int.__lt__, "le": int.__le__, "gt": int.__gt__, "ge": int.__ge__,
}  # fmt: skip


def part(u, kind, chosen):
    """Return the byte, half or word that `.b1` or the like names, as a number of a kind."""
    bits = {"": 32, "b": 8, "h": 16}[chosen[1:2]]
    at = bits * int(chosen[2:] or 0)
    return read(u >> at, f"{kind[0]}{bits}")


def operation(op, p, q, wraps=False):
    n = q & 31 if wraps else min(q, 32)
    return {
        "vadd": lambda: p + q, "vsub": lambda: p - q, "vabsdiff": lambda: abs(p - q), "vmin": lambda: min(p, q),
        "vmax": lambda: max(p, q), "vavrg": lambda: (p + q + (p + q >= 0)) >> 1,
        "vshl": lambda: signed(p << n, 34), "vshr": lambda: p >> n,
    }[op]()  # fmt: skip


def ended(v, c, into, merged, sat, second):
    """What follows the operation, as `optSaturate`, `optSecOp` and `optMerge` say."""
    bits = {"": 32, "b": 8, "h": 16}[merged[1:2]]
    v = clamp(v, f"{into[0]}{bits}") if sat else v
    third = read(c, into)
    if second:
        v = {"add": v + third, "min": min(v, third), "max": max(v, third)}[second]
    if not merged:
        return v & WORD
    at, mask = bits * int(merged[2:]), (1 << bits) - 1
    return (v & mask) << at | c & ~(mask << at) & WORD


def any_word_case(rng):
    op = rng.choice(["vadd", "vsub", "vabsdiff", "vmin", "vmax", "vset", "vshl", "vshr"])
    into, ka, kb = (rng.choice(["u32", "s32"]) for _ in range(3))
    a, b = rng.choice(PARTS), rng.choice(PARTS)
    second = rng.choice(["", "", "add", "min", "max"])
    merged = "" if second else rng.choice(PARTS)
    how, sat = rng.choice(list(COMPARED)), rng.random() < 0.5 or second in {"min", "max"}
    wraps = rng.random() < 0.5
    kb = "u32" if op in {"vshl", "vshr"} else kb
    into, sat = ("u32", False) if op == "vset" else (into, sat)
    types = f".{ka}.{kb}.{how}" if op == "vset" else f".{into}.{ka}.{kb}{'.sat' if sat else ''}"
    types += f".{'wrap' if wraps else 'clamp'}" if op in {"vshl", "vshr"} else ""
    types += f".{second}" if second else ""
    c = ", {c}" if second or merged else ""
    text = f"{op}{types} {{d}}{merged}, {{a}}{a}, {{b}}{b}{c};"

    def means(x, y, z=0):
        p, q = part(x, ka, a), part(y, kb, b)
        v = int(COMPARED[how](p, q)) if op == "vset" else operation(op, p, q, wraps)
        return ended(v, z, into, merged, sat, second)

    return Case(text, (32, 32, 32, *([32] if c else [])), means)


def any_product_case(rng):
    """vmad: the product or the third operand may be negated, or one be added."""
    into, ka, kb = (rng.choice(["u32", "s32"]) for _ in range(3))
    a, b = rng.choice(PARTS), rng.choice(PARTS)
    signs = rng.choice([("", "", ""), ("-", "", ""), ("", "-", ""), ("-", "-", ""), ("", "", "-")])
    one = rng.random() < 0.5 and signs == ("", "", "")
    sat, scale = rng.random() < 0.5, rng.choice([0, 7, 15])
    types = f"{into}.{ka}.{kb}{'.po' if one else ''}{'.sat' if sat else ''}{f'.shr{scale}' if scale else ''}"
    text = f"vmad.{types} {{d}}, {signs[0]}{{a}}{a}, {signs[1]}{{b}}{b}, {signs[2]}{{c}};"
    minus = signs[0] != signs[1]
    kind = "s32" if "s32" in {ka, kb} or minus or signs[2] else "u32"

    def means(x, y, z):
        v = part(x, ka, a) * part(y, kb, b)
        lsb = one or minus or bool(signs[2])
        v = ~v if minus else v
        v = (v + read(~z & WORD if signs[2] else z, kind) + lsb) >> scale
        return (clamp(v, kind) if sat else v) & WORD

    return Case(text, (32, 32, 32, 32), means)


def lane_video_case(rng):
    """The forms of 4 bytes and 2 halves, with chosen parts of both operands and of the result."""
    parts = rng.choice([2, 4])
    bits, letter = 32 // parts, "h" if parts == 2 else "b"
    op = rng.choice(["vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax", "vset"])
    into, ka, kb = (rng.choice(["u32", "s32"]) for _ in range(3))
    how, adds = rng.choice(list(COMPARED)), rng.random() < 0.3
    sat = rng.random() < 0.5 and not adds and op != "vset"
    picks = [rng.choice([None, [rng.randrange(2 * parts) for _ in range(parts)]]) for _ in range(2)]
    mask = rng.choice([None, sorted(rng.sample(range(parts), rng.randint(1, parts)), reverse=True)])
    names = ["" if p is None else f".{letter}{''.join(map(str, p))}" for p in (*picks, mask)]
    order = [
        list(range(n, n + parts))[::-1] if p is None else p for p, n in zip(picks, (0, parts), strict=True)
    ]
    into = "u32" if op == "vset" else into
    types = f".{ka}.{kb}.{how}" if op == "vset" else f".{into}.{ka}.{kb}{'.sat' if sat else ''}"
    types += ".add" if adds else ""
    text = f"{op}{parts}{types} {{d}}{names[2]}, {{a}}{names[0]}, {{b}}{names[1]}, {{c}};"

    def means(x, y, z):
        both, d = y << 32 | x, z if adds else 0
        for n in range(parts):
            p, q = (
                read(both >> o[parts - 1 - n] * bits, f"{k[0]}{bits}")
                for o, k in zip(order, (ka, kb), strict=True)
            )
            v = int(COMPARED[how](p, q)) if op == "vset" else operation(op, p, q)
            v = clamp(v, f"{into[0]}{bits}") if sat else v
            here = mask is None or n in mask
            if adds:
                d += v if here else 0
            else:
                d |= ((v if here else z >> n * bits) & ((1 << bits) - 1)) << n * bits
        return d & WORD

    return Case(text, (32, 32, 32, 32), means)


def is_executed(made):
    """Whether the executor takes an instruction, by translating a kernel of it, which is not built."""
    text = ptx([made])
    try:
        translate(parse(text), Module.load(text).layout, "fuzz")
    except NotExecutedError:
        return False
    return True


def _executed(draw):
    def case(rng):
        """One that is executed: of words, what a device contradicts is refused."""
        while not is_executed(made := draw(rng)):
            pass
        return made

    return case


word_video_case, product_video_case = _executed(any_word_case), _executed(any_product_case)
FAMILIES = (word_video_case, product_video_case, lane_video_case)
