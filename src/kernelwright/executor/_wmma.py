"""wmma: load, multiply and store matrices in pieces whose layout over the lanes the ISA leaves open."""

from ._arithmetic import Handler, flag
from ._ir import Address, Instruction, Operand, Vector
from ._writer import Modifiers, Writer, refused

_SPACES = {"global": "GLOBAL", "shared": "SHARED", "shared::cta": "SHARED", "": "GENERIC"}
_REGISTERS = {
    ("m16n16k16", "f16"): (8, 8), ("m32n8k16", "f16"): (8, 8), ("m8n32k16", "f16"): (8, 8),
    ("m16n16k16", "bf16"): (4, 4), ("m32n8k16", "bf16"): (8, 2), ("m8n32k16", "bf16"): (2, 8),
    ("m16n16k16", "s8"): (2, 2), ("m32n8k16", "s8"): (4, 1), ("m8n32k16", "s8"): (1, 4),
    ("m16n16k16", "u8"): (2, 2), ("m32n8k16", "u8"): (4, 1), ("m8n32k16", "u8"): (1, 4),
    ("m16n16k8", "tf32"): (4, 4), ("m8n8k4", "f64"): (1, 1),
    ("m8n8k32", "s4"): (1, 1), ("m8n8k32", "u4"): (1, 1), ("m8n8k128", "b1"): (1, 1),
}  # fmt: skip
"""Registers of a lane that hold its part of A and of B."""
_SUMS = {
    "f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "f64": ("f64",),
    **dict.fromkeys(("s8", "u8", "s4", "u4", "b1"), ("s32",)),
}  # fmt: skip
_BYTES = {"f16": 2, "bf16": 2, "s8": 1, "u8": 1, "f64": 8}
_OF_A_WORD = {"s4": 8, "u4": 8, "b1": 32}
"""Elements narrower than a byte lie in words, along the rows of A and the columns of B."""


def matrix(w: Writer, i: Instruction) -> None:
    """wmma.load, wmma.store, wmma.mma."""
    what = i.modifiers[0] if i.modifiers else ""
    (_multiply if what == "mma" else _move)(w, i)


def _numbers(shape: str) -> tuple[int, int, int]:
    m, _, rest = shape[1:].partition("n")
    n, _, k = rest.partition("k")
    return int(m), int(n), int(k)


def _held(shape: str, kind: str, part: str) -> int:
    """Return the registers of a lane's part of a matrix; 0 where the ISA has no such matrix."""
    if part in {"a", "b"}:
        return _REGISTERS.get((shape, kind), (0, 0))["ab".index(part)]
    known = any(s == shape and kind in _SUMS[k] for s, k in _REGISTERS)
    small = shape.startswith("m8n8k") and kind == "s32"
    return {"f16": 4, "f32": 8, "s32": 2 if small else 8, "f64": 2}.get(kind, 0) if known else 0


def _items(i: Instruction, operand: Operand, count: int) -> tuple[Operand, ...]:
    items = operand.items if isinstance(operand, Vector) else (operand,)
    if len(items) != count:
        raise refused(i)
    return items


def _move(w: Writer, i: Instruction) -> None:
    mods = Modifiers(i)
    loads, part = mods.take("load", "store") == "load", mods.take("a", "b", "c", "d")
    kind = mods.take(*_OF_A_WORD) or mods.type()
    shape = mods.take(*(s for s, _ in _REGISTERS))
    order, space = mods.take("row", "col"), mods.take(*(s for s in _SPACES if s))
    together = mods.take("sync") and mods.take("aligned")
    mods.done()
    held = _held(shape, kind, part)
    if not (together and order and held) or loads == (part == "d"):
        raise refused(i)
    (data, address, *rest) = i.operands if loads else (i.operands[1], i.operands[0], *i.operands[2:])
    items = _items(i, data, held)
    packed = _OF_A_WORD.get(kind, 1)
    if (
        not isinstance(address, Address)
        or len(rest) > 1
        or (packed > 1 and order != {"a": "row", "b": "col"}[part])
    ):
        raise refused(i)
    m, n, k = _numbers(shape)
    rows, columns = (8, k // packed) if packed > 1 else {"a": (m, k), "b": (k, n)}.get(part, (m, n))
    if packed > 1:
        kind, order = "s32", "row"
    width = _BYTES.get(kind, 4)
    for name in ("shared", "global"):
        if space in {name, f"{name}::cta", ""}:
            w.smallest[name] = min(w.smallest[name], width)
    given = f"first<uint32_t>(m, {w.read(rest[0], 'b32')}) / {packed}" if rest else ""
    stride = given or str(columns if order == "row" else rows)
    register = "b64" if width == 8 else "b32"
    where = (
        f"{kind.upper()}, {rows}, {columns}, first<uint64_t>(m, {w.address(address)}), {_SPACES[space]}, {stride}, "
        f"{flag(order == 'col')}"
    )
    if loads:
        w.emit(f"{register} piece[{held}];")
        w.emit(f"wmma_load(w, m, {where}, {held * max(4, width) // width}, {w.site(i)}, piece);")
        for number, item in enumerate(items):
            w.write(item, f"piece[{number}]", register)
    else:
        w.emit(f"const {register} piece[] = {{{', '.join(w.read(x, register) for x in items)}}};")
        w.emit(f"wmma_store(w, m, {where}, {w.site(i)}, piece);")


def _multiply(w: Writer, i: Instruction) -> None:
    bits = i.modifiers[1] if i.modifiers[2:3] == ("popc",) else ""
    mods = list(i.modifiers[3 if bits else 1 :])
    if mods[:2] != ["sync", "aligned"]:
        raise refused(i)
    mods = mods[2:]
    saturates = mods[-1:] == ["satfinite"] and bool(mods.pop())
    if mods[-1:] == ["rn"]:
        mods.pop()
    if len(mods) < 5 or any(order not in {"row", "col"} for order in mods[:2]):
        raise refused(i)
    shape, kinds = mods[2], mods[3:]
    into, ka, kb, of = kinds if len(kinds) == 4 else (kinds[0], "f16", "f16", kinds[-1])
    counts = _REGISTERS.get((shape, ka))
    if len(kinds) not in {2, 4} or counts is None or ka != kb or not {into, of} <= {*_SUMS[ka]}:
        raise refused(i)
    if (saturates and (into != "s32" or bits)) or (bits in {"xor", "and"}) != (ka == "b1"):
        raise refused(i)
    if ka in _OF_A_WORD and mods[:2] != ["row", "col"]:
        raise refused(i)
    register = "b64" if ka == "f64" else "b32"
    dest, *given = i.operands
    sizes = (*counts, _held(shape, of, "c"))
    for letter, operand, count in zip("abc", given, sizes, strict=True):
        values = ", ".join(w.read(x, register) for x in _items(i, operand, count))
        w.emit(f"const {register} f{letter}[] = {{{values}}};")
    items = _items(i, dest, _held(shape, into, "d"))
    w.emit(f"{register} fd[{len(items)}];")
    numbers = ", ".join(map(str, _numbers(shape)))
    types = f"{f'{bits}_b1'.upper() if bits else ka.upper()}, {into.upper()}, {of.upper()}"
    w.emit(f"wmma_multiply(w, {types}, {numbers}, {flag(saturates)}, fa, fb, fc, fd);")
    for number, item in enumerate(items):
        w.write(item, f"fd[{number}]", register)


HANDLERS: dict[str, Handler] = {"wmma": matrix}
