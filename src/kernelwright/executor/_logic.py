"""Bits, comparisons, selection and moves."""

from ._arithmetic import Handler, flag, unsigned_of
from ._ir import WIDTHS, Address, Immediate, Instruction, Operand, Register, Symbol, Vector
from ._layout import LOCAL_BASE, PARAM_BASE, SHARED_BASE
from ._wide import move as wide_move
from ._writer import C_TYPES, Modifiers, Writer, both, refused

_COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge"}
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_BITS = {"b16", "b32", "b64"}


def logic(w: Writer, i: Instruction) -> None:
    """and, or, xor, not, cnot."""
    mods = Modifiers(i)
    kind = mods.type()
    mods.done()
    dest, *sources = i.operands
    sign = {"and": "&", "or": "|", "xor": "^", "not": "~", "cnot": ""}[i.opcode]
    if kind == "pred":
        values = [w.predicate(s) for s in sources]
        return w.write(
            dest, f"~({values[0]})" if i.opcode == "not" else f" {sign} ".join(f"({v})" for v in values), kind
        )
    if kind not in _BITS:
        raise refused(i)
    values = [w.read(s, kind) for s in sources]
    if i.opcode == "cnot":
        c = C_TYPES[kind]
        return w.write(dest, f"map<{c}, {c}>({values[0]}, [](auto x) {{ return {c}(x == 0); }})", kind)
    w.write(dest, f"~{values[0]}" if i.opcode == "not" else f"{values[0]} {sign} {values[1]}", kind)
    return None


def shift(w: Writer, i: Instruction) -> None:
    """shl, shr."""
    mods = Modifiers(i)
    kind = mods.type()
    mods.done()
    if kind not in C_TYPES or kind[0] == "f" or WIDTHS[kind] < 2:
        raise refused(i)
    dest, a, n = i.operands
    w.write(dest, f"{i.opcode}<{C_TYPES[kind]}>({w.read(a, kind)}, {w.read(n, 'b32')})", kind)


def funnel(w: Writer, i: Instruction) -> None:
    """shf."""
    mods = Modifiers(i)
    kind, side, mode = mods.type(), mods.take("l", "r"), mods.take("clamp", "wrap")
    mods.done()
    if kind != "b32" or not side or not mode:
        raise refused(i)
    dest, a, b, n = i.operands
    amount = "z & 31" if mode == "wrap" else "z"
    name = "funnel_left" if side == "l" else "funnel_right"
    values = ", ".join(w.read(s, "b32") for s in (a, b, n))
    call = f"[](auto x, auto y, auto z) {{ return {name}(x, y, {amount}); }}"
    w.write(
        dest,
        f"map<uint32_t, uint32_t, uint32_t, uint32_t>({values}, {call})",
        "b32",
    )


def one_word(w: Writer, i: Instruction) -> None:
    """popc, clz, brev, bfind: one operand, a count or a word."""
    mods = Modifiers(i)
    kind = mods.type()
    shiftamt = flag(mods.take("shiftamt"))
    mods.done()
    dest, a = i.operands
    c = C_TYPES[kind]
    calls = {
        "popc": ("uint32_t", "count_bits(x)"), "clz": ("uint32_t", f"leading_zeros<{c}>(x)"),
        "brev": (c, f"bit_reverse<{c}>(x)"), "bfind": ("uint32_t", f"find_top<{c}>(x, {shiftamt})"),
    }  # fmt: skip
    result, call = calls[i.opcode]
    value = f"map<{result}, {c}>({w.read(a, kind)}, []({c} x) {{ return {result}({call}); }})"
    w.write(dest, value, kind if i.opcode == "brev" else "b32")


def fields(w: Writer, i: Instruction) -> None:
    """bfe, bfi."""
    mods = Modifiers(i)
    kind = mods.type()
    mods.done()
    c = C_TYPES[kind]
    if i.opcode == "bfe":
        dest, a, at, size = i.operands
        values = f"{w.read(a, kind)}, {w.read(at, 'b32')}, {w.read(size, 'b32')}"
        return w.write(dest, f"map<{c}, {c}, uint32_t, uint32_t>({values}, bit_extract<{c}>)", kind)
    dest, a, b, at, size = i.operands
    packed = f"({w.read(at, 'b32')} & splat<uint32_t>(255)) | (({w.read(size, 'b32')} & splat<uint32_t>(255)) << 8)"
    values = f"{w.read(a, kind)}, {w.read(b, kind)}, {packed}"
    call = f"[](auto x, auto y, uint32_t z) {{ return bit_insert<{c}>(x, y, z & 255, z >> 8); }}"
    return w.write(dest, f"map<{c}, {c}, {c}, uint32_t>({values}, {call})", kind)


def logic3(w: Writer, i: Instruction) -> None:
    """lop3."""
    joined = i.modifiers[0] if i.modifiers in {("or", "b32"), ("and", "b32")} else ""
    dest, a, b, c, table, *with_ = i.operands
    if (
        i.modifiers[bool(joined) :] != ("b32",)
        or not isinstance(table, Immediate)
        or len(with_) != bool(joined)
    ):
        raise refused(i)
    values = ", ".join(w.read(s, "b32") for s in (a, b, c))
    dest, is_some = both(dest)
    w.emit(f"const b32 word = logic3<b32>({values}, {table.value});")
    if joined:
        sign = "|" if joined == "or" else "&"
        w.emit(f"const Mask some = ne<uint32_t>(word, zero<uint32_t>()) {sign} {w.predicate(with_[0])};")
        w.write(is_some, "some", "pred")
    w.write(dest, "word", "b32")


_BYTES = {
    "f4e": (0x3210, 0x4321, 0x5432, 0x6543), "b4e": (0x5670, 0x6701, 0x7012, 0x0123),
    "rc8": (0x0000, 0x1111, 0x2222, 0x3333), "ecl": (0x3210, 0x3211, 0x3222, 0x3333),
    "ecr": (0x0000, 0x1110, 0x2210, 0x3210), "rc16": (0x1010, 0x3232, 0x1010, 0x3232),
}  # fmt: skip
"""The selectors that a mode of prmt stands for, by the third operand's two lowest bits."""


def permute(w: Writer, i: Instruction) -> None:
    """prmt. Source: PTX ISA, "prmt", the table of its modes."""
    kind, *mode = i.modifiers
    if kind != "b32" or len(mode) > 1:
        raise refused(i)
    dest, *sources = i.operands
    values = ", ".join(w.read(s, "b32") for s in sources)
    call = "permute_bytes"
    if mode:
        bytes_of = ", ".join(map(str, _BYTES[mode[0]]))
        chosen = f"const uint32_t s[] = {{{bytes_of}}}; return permute_bytes(x, y, s[z & 3]);"
        call = f"[](uint32_t x, uint32_t y, uint32_t z) {{ {chosen} }}"
    w.write(dest, f"map<uint32_t, uint32_t, uint32_t, uint32_t>({values}, {call})", "b32")


def dot(w: Writer, i: Instruction) -> None:
    """dp4a."""
    kinds = i.modifiers
    if len(kinds) != 2 or not {*kinds} <= {"u32", "s32"}:
        raise refused(i)
    a, b = ("uint8_t" if k == "u32" else "int8_t" for k in kinds)
    dest, *sources = i.operands
    values = ", ".join(w.read(s, "b32") for s in sources)
    w.write(dest, f"map<uint32_t, uint32_t, uint32_t, uint32_t>({values}, dot4<{a}, {b}>)", "b32")


def compared(
    w: Writer, i: Instruction, how: str, kind: str, operands: tuple[Operand, Operand], ftz: object
) -> str:
    """Return a comparison as a mask."""
    return _compared(i, how, kind, (w.read(operands[0], kind), w.read(operands[1], kind)), ftz)


def halves_compared(
    w: Writer, i: Instruction, how: str, kind: str, operands: tuple[Operand, Operand], ftz: object
) -> tuple[str, str]:
    """Return the comparisons of the lower and of the upper halves, as masks."""
    words = [w.read(o, "b32") for o in operands]
    low, high = (
        _compared(i, how, kind.removesuffix("x2"), (narrow(words[0], shift), narrow(words[1], shift)), ftz)
        for shift in (0, 16)
    )
    return low, high


def narrow(word: str, shift: int) -> str:
    """Return half of a word."""
    return f"convert<uint16_t, uint32_t>(({word}) >> {shift})"


def _compared(i: Instruction, how: str, kind: str, operands: tuple[str, str], ftz: object) -> str:
    a, b = operands
    c = C_TYPES[kind]
    if kind in {"f16", "bf16"}:
        h = "half" if kind == "f16" else "bfloat"
        a, b = (
            f"map<float, uint16_t>({x}, [](uint16_t x) {{ return to_float({'flush' if ftz else ''}({h}{{x}})); }})"
            for x in (a, b)
        )
        c = "float"
    elif ftz:
        a, b = f"flushed<{c}>({a})", f"flushed<{c}>({b})"
    real = kind in {"f32", "f64", "f16", "bf16"}
    either = f"(is_nan<{c}>({a}) | is_nan<{c}>({b}))"
    if how in _COMPARISONS:
        text = f"{how}<{c}>({a}, {b})"
        return f"({text} & ~{either})" if real and how == "ne" else text
    if how in _UNSIGNED and kind[0] == "u":
        return f"{_UNSIGNED[how]}<{c}>({a}, {b})"
    if real and how == "num":
        return f"~{either}"
    if real and how == "nan":
        return either
    if real and how[-1] == "u" and how[:-1] in _COMPARISONS:
        return f"({how[:-1]}<{c}>({a}, {b}) | {either})"
    raise refused(i)


def set_predicate(w: Writer, i: Instruction) -> None:
    """setp."""
    mods = Modifiers(i)
    kind = mods.type()
    if not i.modifiers:
        raise refused(i)
    how = mods.take(i.modifiers[0])
    ftz, joined = mods.take("ftz"), mods.take("and", "or", "xor")
    mods.done()
    dest, a, b, *rest = i.operands
    dest, second = both(dest)
    if bool(rest) != bool(joined):
        raise refused(i)
    if kind in {"f16x2", "bf16x2"}:
        for number, half in enumerate(halves_compared(w, i, how, kind, (a, b), ftz)):
            w.emit(f"const Mask is{number} = {half};")
        sign = {"and": "&", "or": "|", "xor": "^"}.get(joined)
        with_ = f" {sign} {w.predicate(rest[0])}" if sign else ""
        w.emit(f"const Mask low = is0{with_}, high = is1{with_};")
        w.write(dest, "low", "pred")
        return w.write(second, "high", "pred")
    w.emit(f"const Mask is = {compared(w, i, how, kind, (a, b), ftz)};")
    if joined:
        sign = {"and": "&", "or": "|", "xor": "^"}[joined]
        w.emit(f"const Mask with = {w.predicate(rest[0])};")
        w.write(dest, f"(is {sign} with)", "pred")
        w.write(second, f"(~is {sign} with)", "pred")
    else:
        w.write(dest, "is", "pred")
        w.write(second, "~is", "pred")
    return None


def set_word(w: Writer, i: Instruction) -> None:
    """set: a comparison as all ones or 1.0, of pairs of halves in each half."""
    mods = Modifiers(i)
    kind, how = mods.type(), mods.take(i.modifiers[0])
    into, ftz, joined = mods.take(*_ONES), mods.take("ftz"), mods.take("and", "or", "xor")
    mods.done()
    pairs = kind in {"f16x2", "bf16x2"}
    halves = {"f16": {"f16", "bf16", "u16", "s16"}, "bf16": {"bf16", "u16", "s16"}}.get(
        kind, {"f16", "bf16", "f32"}
    )
    if into not in {"u32", "s32"} | ({kind} if pairs else halves) or len(i.operands) != 3 + bool(joined):
        raise refused(i)
    if ftz and (kind not in {"f16", "f16x2", "f32"} or into == "bf16"):
        raise refused(i)
    dest, a, b, *rest = i.operands
    sign = {"and": "&", "or": "|", "xor": "^"}.get(joined)
    with_ = f" {sign} {w.predicate(rest[0])}" if sign else ""
    if pairs:
        low, high = (
            f"pick(({half}){with_}, splat<uint32_t>({(_ONES[into] & 0xFFFF) << shift}u), zero<uint32_t>())"
            for half, shift in zip(halves_compared(w, i, how, kind, (a, b), ftz), (0, 16), strict=True)
        )
        return w.write(dest, f"{low} | {high}", "b32")
    u = unsigned_of(into)
    c, mask = C_TYPES[u], f"({compared(w, i, how, kind, (a, b), ftz)}){with_}"
    w.write(dest, f"pick({mask}, splat<{c}>({c}({_ONES[into]}u)), zero<{c}>())", u)
    return None


_ONES = {
    **dict.fromkeys(("u32", "s32"), 0xFFFFFFFF), **dict.fromkeys(("u16", "s16"), 0xFFFF), "f32": 0x3F800000,
    **dict.fromkeys(("f16", "f16x2"), 0x3C00), **dict.fromkeys(("bf16", "bf16x2"), 0x3F80),
}  # fmt: skip
"""What a comparison that holds gives, by the type of its result."""


def select(w: Writer, i: Instruction) -> None:
    """selp, slct."""
    mods = Modifiers(i)
    kind = mods.type()
    dest, a, b, which = i.operands
    if i.opcode == "slct":
        into, ftz = mods.take(*C_TYPES), mods.take("ftz")
        mods.done()
        if kind not in {"s32", "f32"} or not into or (ftz and kind == "s32"):
            raise refused(i)
        c = C_TYPES[kind]
        sign = f"flushed<{c}>({w.read(which, kind)})" if ftz else w.read(which, kind)
        mask, kind = f"ge<{c}>({sign}, zero<{c}>())", into
    else:
        mods.done()
        mask = w.predicate(which)
    if kind not in C_TYPES:
        raise refused(i)
    u = unsigned_of(kind) if kind not in {"f16x2", "bf16x2"} else "b32"
    w.write(dest, f"pick({mask}, {w.read(a, u)}, {w.read(b, u)})", u)


def move(w: Writer, i: Instruction) -> None:
    """mov: values, addresses, packing and unpacking."""
    mods = Modifiers(i)
    kind = mods.type()
    mods.done()
    if kind == "b128":
        return wide_move(w, i)
    dest, source = i.operands
    if kind == "pred":
        return w.write(dest, w.predicate(source), kind)
    if isinstance(source, Vector):
        return w.write(dest, _packed(w, i, source, kind), unsigned_of(kind))
    if isinstance(dest, Vector):
        return _unpack(w, i, dest, source, kind)
    if isinstance(source, Address):
        raise refused(i)
    if isinstance(source, Symbol) and WIDTHS[kind] < 4:
        raise refused(i)
    u = unsigned_of(kind)
    keeps = (isinstance(source, Immediate) and source.float_bytes) or (
        kind in {"f32", "f64"} and isinstance(source, Immediate)
    )
    return w.write(dest, w.read(source, kind) if keeps else w.read(source, u), kind if keeps else u)


def _packed(w: Writer, i: Instruction, source: Vector, kind: str) -> str:
    width = WIDTHS[kind]
    each = width // len(source.items)
    if each * len(source.items) != width or each == 0:
        raise refused(i)
    u, part = C_TYPES[unsigned_of(kind)], f"b{8 * each}"
    pieces = [
        f"(convert<{u}, {C_TYPES[part]}>({w.read(s, part)}) << {8 * each * n})"
        for n, s in enumerate(source.items)
    ]
    return " | ".join(pieces)


def _unpack(w: Writer, i: Instruction, dest: Vector, source: Operand, kind: str) -> None:
    each = WIDTHS[kind] // len(dest.items)
    if each * len(dest.items) != WIDTHS[kind] or each == 0:
        raise refused(i)
    u, part = unsigned_of(kind), f"b{8 * each}"
    w.emit(f"const V<{C_TYPES[u]}> whole = {w.read(source, u)};")
    for n, item in enumerate(dest.items):
        w.write(item, f"convert<{C_TYPES[part]}, {C_TYPES[u]}>(whole >> {8 * each * n})", part)


_WINDOWS = {
    **dict.fromkeys(("shared", "shared::cta", "shared::cluster"), SHARED_BASE), "local": LOCAL_BASE,
    **dict.fromkeys(("param", "param::entry"), PARAM_BASE),
}  # fmt: skip
"""Where the window of each space begins, of those that have one."""


def to_address(w: Writer, i: Instruction) -> None:
    """cvta: between generic addresses and those of a space."""
    mods = Modifiers(i)
    kind, to = mods.type(), mods.take("to")
    space = mods.take("global", "const", *_WINDOWS)
    mods.done()
    if kind != "u64" or not space:
        raise refused(i)
    dest, source = i.operands
    base = _WINDOWS.get(space, 0)
    sign = "-" if to else "+"
    w.write(dest, f"{w.read(source, 'u64')} {sign} splat<uint64_t>({base}ull)", "u64")


def in_space(w: Writer, i: Instruction) -> None:
    """isspacep."""
    dest, source = i.operands
    space = i.modifiers[0] if len(i.modifiers) == 1 else ""
    value = w.read(source, "u64")
    if space in _WINDOWS:
        w.emit(f"const b64 offset = {value} - splat<uint64_t>({_WINDOWS[space]}ull);")
        if space in {"shared", "shared::cta"}:  # the block's own, under either of its addresses
            whole = "splat<uint64_t>(1ull << 24)"
            w.emit("const b64 named = offset - splat<uint64_t>(uint64_t(w->cluster_rank + 1) << 24);")
            return w.write(dest, f"(lt<uint64_t>(offset, {whole}) | lt<uint64_t>(named, {whole}))", "pred")
        return w.write(dest, "lt<uint64_t>(offset, splat<uint64_t>(WINDOW))", "pred")
    if space not in {"global", "const"}:
        raise refused(i)
    at = "splat<uint64_t>({}ull)".format
    within = [f"lt<uint64_t>({value} - {at(start)}, {at(size)})" for start, size in w.layout.constants()]
    constant = f"({' | '.join(within or ['Mask(0)'])})"
    if space == "const":
        return w.write(dest, constant, "pred")
    return w.write(dest, f"lt<uint64_t>({value}, splat<uint64_t>({PARAM_BASE}ull)) & ~{constant}", "pred")


def is_negated(operand: Operand) -> bool:
    """Tell whether an operand is `!p`."""
    return isinstance(operand, Register) and operand.negated


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(("and", "or", "xor", "not", "cnot"), logic), "shl": shift, "shr": shift, "shf": funnel,
    **dict.fromkeys(("popc", "clz", "brev", "bfind"), one_word), "bfe": fields, "bfi": fields, "lop3": logic3,
    "prmt": permute, "dp4a": dot, "setp": set_predicate, "set": set_word, "selp": select, "slct": select,
    "mov": move, "cvta": to_address, "isspacep": in_space,
}  # fmt: skip
