"""Instructions of sm_100: tensor memory, and products whose sums lie there (tcgen05), of one block or of two."""

from ._arithmetic import Handler, flag
from ._ir import Address, Immediate, Instruction, Operand, Vector
from ._writer import Modifiers, Writer, refused

_KINDS = {"kind::f16": 0, "kind::tf32": 1, "kind::f8f6f4": 2, "kind::i8": 3}
_SHAPES = {
    "32x32b": ("T32X32", 1),
    "16x32bx2": ("T16X32X2", 1),
    "16x128b": ("T16X128", 2),
    "16x256b": ("T16X256", 4),
}
"""How the lanes of a warp lie in tensor memory, and the registers of each lane for `.x1`."""
_NOTHING = {
    "fence::before_thread_sync",
    "fence::after_thread_sync",
    "relinquish_alloc_permit",
    "wait::ld",
    "wait::st",
}
_COLLECTOR = r"collector::a::(fill|use|lastuse|discard)"


def tensor(w: Writer, i: Instruction) -> None:
    """tcgen05.alloc, dealloc, ld, st, mma, commit, and what orders them."""
    mods = Modifiers(i)
    what = mods.take(*_NOTHING, "alloc", "dealloc", "ld", "st", "mma", "commit")
    pair = not mods.take("cta_group::1") and bool(mods.take("cta_group::2"))
    mods.drop(("sync", "aligned"))
    if what in _NOTHING:
        return mods.done()
    w.headers.add("tcgen05.h")
    if what in {"alloc", "dealloc"}:
        return _columns(w, i, mods, what, pair)
    if what in {"ld", "st"}:
        return _move(w, i, mods, what)
    if what == "commit":
        return _commit(w, i, mods)
    if what == "mma":
        return _multiply(w, i, mods, pair)
    raise refused(i)


def _commit(w: Writer, i: Instruction, mods: Modifiers) -> None:
    many = bool(mods.take("multicast::cluster"))
    if mods.type() != "b64" or not mods.take("mbarrier::arrive::one") or len(i.operands) != 1 + many:
        raise refused(i)
    mods.drop(("shared::cluster",))
    mods.done()
    blocks = f"convert<uint32_t, uint16_t>({w.read(i.operands[1], 'b16')})" if many else "zero<uint32_t>()"
    w.emit(f"tensor_commit(w, {w.mask}, {w.address(i.operands[0])}, {flag(many)}, {blocks}, {w.site(i)});")


def _columns(w: Writer, i: Instruction, mods: Modifiers, what: str, pair: bool) -> None:
    kind, shared = mods.type(), mods.take("shared::cta")
    mods.done()
    place, count = i.operands
    if kind != "b32":
        raise refused(i)
    if what == "dealloc":
        return w.emit(
            f"tensor_free(w, {w.mask}, {w.read(place, 'b32')}, {w.read(count, 'b32')}, {w.site(i)});"
        )
    w.smallest["shared"] = min(w.smallest["shared"], 4)
    space = "SHARED" if shared else "GENERIC"
    return w.emit(
        f"tensor_alloc(w, {w.mask}, {w.address(place)}, {space}, {w.read(count, 'b32')}, {flag(pair)}, {w.site(i)});"
    )


def _move(w: Writer, i: Instruction, mods: Modifiers, what: str) -> None:
    kind, shape = mods.type(), mods.take(*_SHAPES)
    repeats = mods.take(*(f"x{1 << n}" for n in range(8)))
    mods.done()
    if kind != "b32" or not shape or not repeats:
        raise refused(i)
    name, each = _SHAPES[shape]
    count = each * int(repeats[1:])
    operands = list(i.operands)
    registers = operands.pop(0) if what == "ld" else operands.pop()
    items: tuple[Operand, ...] = registers.items if isinstance(registers, Vector) else (registers,)
    split = operands.pop() if shape == "16x32bx2" else Immediate(0)
    (address,) = operands
    if len(items) != count or not isinstance(split, Immediate):
        raise refused(i)
    how = f"{w.address(address)}, {name}, {count}, {split.value}, {w.site(i)}"
    if what == "st":
        w.emit(f"const b32 cells[] = {{{', '.join(w.read(x, 'b32') for x in items)}}};")
        return w.emit(f"tensor_store_cells(w, {w.mask}, {how}, cells);")
    w.emit(f"b32 cells[{count}];")
    w.emit(f"tensor_load_cells(w, {w.mask}, {how}, cells);")
    for number, item in enumerate(items):
        w.write(item, f"cells[{number}]", "b32")
    return None


def _multiply(w: Writer, i: Instruction, mods: Modifiers, pair: bool) -> None:
    kind = mods.take(*_KINDS)
    mods.drop_matching(_COLLECTOR)
    mods.done()
    if not kind or len(i.operands) != 5:
        raise refused(i, "masked lanes and scaled sums among its operands" if kind else "")
    to, a, b, how, keeps = i.operands
    from_tensor = isinstance(a, Address)
    w.smallest["shared"] = min(w.smallest["shared"], 16)
    of_a = w.address(a) if from_tensor else w.read(a, "b64")
    what = f"{_KINDS[kind]}, {flag(pair)}, {w.address(to)}, {flag(from_tensor)}, {of_a}"
    given = f"{what}, {w.read(b, 'b64')}, {w.read(how, 'b32')}"
    return w.emit(f"tensor_multiply(w, {w.mask}, {given}, {w.predicate(keeps)}, {w.site(i)});")


HANDLERS: dict[str, Handler] = {"tcgen05": tensor}
