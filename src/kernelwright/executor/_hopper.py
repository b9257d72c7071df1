"""Instructions of sm_90 and later: wgmma, mbarrier, pairs of f32."""

import re

from ._accesses import SCOPES
from ._arithmetic import ROUNDINGS, Handler, flag
from ._ir import Address, Immediate, Instruction, Operand, Register, Sink, Vector
from ._writer import Modifiers, Writer, refused

_DEPTH = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32, "b1": 256}
_BYTES = {"s8", "u8"}
_WHOLE = {*_BYTES, "b1"}


def warpgroup(w: Writer, i: Instruction) -> None:
    """wgmma.mma_async, mma_async.sp, fence, commit_group, wait_group."""
    if i.modifiers == ("fence", "sync", "aligned"):
        return None
    if i.modifiers == ("commit_group", "sync", "aligned"):
        return w.emit("wgmma_commit(w);")
    if i.modifiers == ("wait_group", "sync", "aligned") and isinstance(i.operands[0], Immediate):
        return w.emit(f"wgmma_wait(w, {i.operands[0].value});")
    return _product(w, i)


def _product(w: Writer, i: Instruction) -> None:
    mods = list(i.modifiers)
    sparse = mods[1:2] == ["sp"] and bool(mods.pop(1))
    saturates = "satfinite" in mods
    mods = [m for m in mods if m != "satfinite"]
    if mods[-2:] == ["and", "popc"] and "b1" in mods:
        del mods[-2:]
    if mods[:3] != ["mma_async", "sync", "aligned"] or len(mods) != 7:
        raise refused(i)
    shape, into, ka, kb = mods[3:]
    found = re.fullmatch(r"m64n(\d+)k(\d+)", shape)
    depth = _DEPTH.get(ka, 0) * (2 if sparse else 1)
    whole, mixed = (
        ka in _WHOLE,
        ka == kb or any({ka, kb} <= kinds for kinds in ({"s8", "u8"}, {"e4m3", "e5m2"})),
    )
    sums = {"s32"} if whole else {"f32"} if ka in {"bf16", "tf32"} else {"f16", "f32"}
    if (
        found is None
        or into not in sums
        or not mixed
        or depth != int(found[2])
        or (saturates and ka not in _BYTES)
    ):
        raise refused(i)
    if (sparse and ka == "b1") or ("popc" in i.modifiers) != (ka == "b1"):
        raise refused(i)
    n = int(found[1])
    if not 8 <= n <= 256 or n % (16 if whole and n > 32 else 8):
        raise refused(i)
    dest, a, b, *rest = i.operands
    metadata = _metadata(w, i, [rest.pop(0) for _ in range(2)], ka) if sparse else ("nullptr", 0)
    numbers = [o.value for o in rest[1:] if isinstance(o, Immediate)]
    in_registers, turns = isinstance(a, Vector), ka in {"f16", "bf16"}
    wanted = 0 if whole else 2 + (0 if not turns else 1 if in_registers else 2)
    items = dest.items if isinstance(dest, Vector) else (dest,)
    if (
        len(numbers) != len(rest) - 1
        or len(numbers) != wanted
        or len(items) != n // (4 if into == "f16" else 2)
    ):
        raise refused(i)
    turn_a, turn_b = (0, 0) if not turns else (0, numbers[2]) if in_registers else (numbers[2], numbers[3])
    negative = not whole and (numbers[0] < 0) != (numbers[1] < 0)
    kinds = ", ".join("AND_B1" if kind == "b1" else kind.upper() for kind in (ka, kb, into))
    flags = ", ".join(flag(x) for x in (turn_a, turn_b, negative, saturates))
    w.smallest["shared"] = min(w.smallest["shared"], 16)
    w.emit(f"b32 fd[] = {{{', '.join(w.read(x, 'b32') for x in items)}}};")
    first, at_a = _left(w, i, a)
    w.emit(f"const WarpgroupProduct shape{{{kinds}, {n}, {found[2]}, {flags}, {metadata[1]}}};")
    given = f"{first}, {at_a}, first<uint64_t>(m, {w.read(b, 'b64')}), {metadata[0]}, {w.predicate(rest[0])}"
    w.emit(f"wgmma(w, {w.site(i)}, shape, {given}, fd);")
    for number, item in enumerate(items):
        w.write(item, f"fd[{number}]", "b32")


def _left(w: Writer, i: Instruction, a: Operand) -> tuple[str, str]:
    """Return A's registers and its descriptor as C++; one of them is none."""
    if not isinstance(a, Vector):
        return "nullptr", f"first<uint64_t>(m, {w.read(a, 'b64')})"
    if len(a.items) != 4:
        raise refused(i)
    w.emit(f"const b32 fa[] = {{{', '.join(w.read(x, 'b32') for x in a.items)}}};")
    return "fa", "0"


def _metadata(w: Writer, i: Instruction, given: list[Operand], ka: str) -> tuple[str, int]:
    """Return the metadata of a sparse A as C++, and the selector of the lanes that hold them."""
    words, selector = given
    most = 1 if ka in _BYTES | {"e4m3", "e5m2"} else 2
    if not isinstance(selector, Immediate) or not 0 <= selector.value < most:
        raise refused(i, f"its sparsity selector is none of 0 to {most - 1}")
    w.emit(f"const b32 metadata = {w.read(words, 'b32')};")
    return "&metadata", selector.value


def mbarrier(w: Writer, i: Instruction) -> None:
    """mbarrier.init, inval, arrive, expect_tx, complete_tx, test_wait, try_wait."""
    mods = Modifiers(i)
    if mods.type() != "b64":
        raise refused(i)
    if mods.take("pending_count"):
        mods.done()
        return w.write(i.operands[0], f"mbarrier_pending({w.read(i.operands[1], 'b64')})", "b32")
    drops, fewer = bool(mods.take("arrive_drop")), mods.take("noComplete")
    what = (
        "arrive"
        if drops
        else mods.take("init", "inval", "arrive", "expect_tx", "complete_tx", "test_wait", "try_wait")
    )
    if fewer and (what != "arrive" or "expect_tx" in i.modifiers):
        raise refused(i)
    expects, parity = what == "expect_tx" or bool(mods.take("expect_tx")), mods.take("parity")
    mods.drop((*SCOPES, "shared", "shared::cta", "shared::cluster", "release", "acquire", "relaxed"))
    mods.done()
    w.smallest["shared"] = min(w.smallest["shared"], 8)
    operands = list(i.operands)
    dest: Operand = Sink()
    if what in {"arrive", "test_wait", "try_wait"} and isinstance(operands[0], Register | Sink):
        dest = operands.pop(0)
    address = operands.pop(0)
    if not isinstance(address, Address):
        raise refused(i)
    at = w.address(address)
    if what == "inval":
        return
    if what == "init":
        return w.emit(f"mbarrier_init(w, {w.mask}, {at}, {w.read(operands[0], 'b32')}, {w.site(i)});")
    if what in {"test_wait", "try_wait"}:
        token = (
            f"convert<uint64_t, uint32_t>({w.read(operands[0], 'b32')})"
            if parity
            else w.read(operands[0], "b64")
        )
        w.emit(f"const Mask over = mbarrier_test(w, {w.mask}, {at}, {token}, {flag(parity)}, {w.site(i)});")
        return w.write(dest, "over", "pred")
    if what == "complete_tx":
        amount, count = f"(zero<uint32_t>() - {w.read(operands[0], 'b32')})", "zero<uint32_t>()"
    elif expects:
        amount, count = w.read(operands[0], "b32"), "splat<uint32_t>(1)"
    else:
        amount, count = "zero<uint32_t>()", w.read(operands[0], "b32") if operands else "splat<uint32_t>(1)"
    how = "DROPS" if drops else "ARRIVES" if what == "arrive" else "STAYS"
    w.emit(f"const b64 token = mbarrier_arrive(w, {w.mask}, {at}, {count}, {amount}, {how}, {w.site(i)});")
    w.write(dest, "token", "b64")
    return None


def pairs(w: Writer, i: Instruction) -> None:
    """add, sub, mul, fma of f32x2."""
    mods = Modifiers(i)
    mods.type()
    if i.opcode not in {"add", "sub", "mul", "fma"}:
        raise refused(i)
    rounding, ftz = mods.take("rn", "rz", "rm", "rp"), flag(mods.take("ftz"))
    mods.done()
    dest, *sources = i.operands
    halves = []
    for shift in (0, 32):
        values = ", ".join(
            f"as<float, uint32_t>(convert<uint32_t, uint64_t>({w.read(s, 'b64')} >> {shift}))"
            for s in sources
        )
        halves.append(
            f"convert<uint64_t, uint32_t>(bits<b32>({i.opcode}<float, {ROUNDINGS[rounding]}, {ftz}, false>({values})))"
        )
    w.write(dest, f"{halves[0]} | ({halves[1]} << 32)", "b64")


def registers(w: Writer, i: Instruction) -> None:  # noqa: ARG001
    """setmaxnreg: how many registers a warp may use changes nothing that is computed."""
    if i.modifiers not in {("inc", "sync", "aligned", "u32"), ("dec", "sync", "aligned", "u32")}:
        raise refused(i)


HANDLERS: dict[str, Handler] = {"setmaxnreg": registers, "wgmma": warpgroup, "mbarrier": mbarrier}
