"""Registers of 128 bits, `.b128`: moves, accesses, exchanges; and discard, which leaves 128 bytes unknown."""

from ._arithmetic import Handler, flag
from ._ir import Address, Immediate, Instruction, Operand, Register, Sink, Symbol, Vector
from ._writer import Modifiers, Writer, refused

HEADER = "wide.h"
"""What the C++ of functions with such registers includes."""


def _read(w: Writer, i: Instruction, operand: Operand) -> str:
    """Return a register of 128 bits, or two of 64 side by side, as C++."""
    if isinstance(operand, Vector) and len(operand.items) == 2:
        return f"b128{{{', '.join(w.read(item, 'b64') for item in operand.items)}}}"
    if w.kind(operand) != "b128":
        raise refused(i)
    assert isinstance(operand, Register)
    return w.name(operand.name)


def _write(w: Writer, i: Instruction, dest: Operand, value: str) -> None:
    if isinstance(dest, Sink):
        return
    if isinstance(dest, Vector) and len(dest.items) == 2:
        w.emit(f"const b128 whole = {value};")
        for item, half in zip(dest.items, ("low", "high"), strict=True):
            w.write(item, f"whole.{half}", "b64")
        return
    if w.kind(dest) != "b128":
        raise refused(i)
    assert isinstance(dest, Register)
    w.emit(f"keep({w.name(dest.name)}, {w.mask}, {value});")


def move(w: Writer, i: Instruction) -> None:
    """mov.b128."""
    w.headers.add(HEADER)
    dest, source = i.operands
    if isinstance(dest, Vector) and isinstance(source, Vector):
        raise refused(i)
    _write(w, i, dest, _read(w, i, source))


def load(w: Writer, i: Instruction, space: str, order: str) -> None:
    """ld.b128."""
    w.headers.add(HEADER)
    dest, address = i.operands
    if not isinstance(address, Address):
        raise refused(i)
    if space == "PARAM" and isinstance(address.base, Symbol):
        name, at = address.base.name, address.base.offset + address.offset
        size = next((p.size for p in w.function.parameters if p.name == name), 0)
        if not w.function.is_entry or at < 0 or at + 16 > size:
            raise refused(i)
        halves = [f"parameter<uint64_t>(w, {w.parameters[name] + at + half})" for half in (0, 8)]
        return _write(w, i, dest, f"b128{{{', '.join(halves)}}}")
    w.emit("b64 got[2];")
    given = f"w, {w.mask}, {w.address(address)}, {space}, {order}, {w.site(i)}, got"
    _access(w, order, f"load<uint64_t, 2>({given});")
    return _write(w, i, dest, "(b128{got[0], got[1]})")


def store(w: Writer, i: Instruction, space: str, order: str) -> None:
    """st.b128."""
    w.headers.add(HEADER)
    address, source = i.operands
    if not isinstance(address, Address) or space == "PARAM":
        raise refused(i)
    w.emit(f"const b128 whole = {_read(w, i, source)};")
    w.emit("const b64 put[2] = {whole.low, whole.high};")
    given = f"w, {w.mask}, {w.address(address)}, {space}, {order}, {w.site(i)}, put"
    _access(w, order, f"store<uint64_t, 2>({given});")


def atomic(w: Writer, i: Instruction, operands: tuple[Operand, ...], op: str, how: str) -> None:
    """atom.exch.b128, atom.cas.b128."""
    w.headers.add(HEADER)
    dest, address, a, *rest = operands
    if i.opcode != "atom" or op not in {"exch", "cas"}:
        raise refused(i)
    w.emit("b128 old;")
    given = ", ".join(_read(w, i, operand) for operand in (a, *(rest or [a])))
    w.emit(f"exchange_wide(w, {w.mask}, {w.address(address)}, {how}, {flag(op == 'cas')}, {given}, &old);")
    _write(w, i, dest, "old")


def discard(w: Writer, i: Instruction) -> None:
    """discard.L2: what stood there is unknown."""
    mods = Modifiers(i)
    mods.take("global")
    level = mods.take("L2")
    mods.done()
    address, size = i.operands
    if not level or not isinstance(size, Immediate) or size.value != 128:
        raise refused(i)
    w.headers.add(HEADER)
    w.smallest["global"] = min(w.smallest["global"], 16)
    w.emit(f"discard(w, {w.mask}, {w.address(address)}, {w.site(i)});")


def _access(w: Writer, order: str, call: str) -> None:
    """Write an access that nobody else writes amid, where its order says that it is seen whole."""
    whole = order not in {"WEAK", "FROZEN"}
    w.emit(f"hold_wide(); {call} free_wide();" if whole else call)


HANDLERS: dict[str, Handler] = {"discard": discard}
