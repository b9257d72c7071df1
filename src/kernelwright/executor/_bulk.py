"""Bulk copies and clusters (sm_90): cp.async.bulk, tensor maps, reductions, mapa, the cluster's barrier."""

from ._arithmetic import Handler, flag
from ._ir import WIDTHS, Address, Immediate, Instruction, Operand, Symbol, Vector
from ._layout import PARAM_BASE
from ._writer import C_TYPES, Modifiers, Writer, refused

_HINT = "L2::cache_hint"
_SHARED = ("shared::cluster", "shared::cta")
_COMPLETES = "mbarrier::complete_tx::bytes"
_OPS = ("add", "min", "max", "and", "or", "xor", "inc", "dec")
_TYPES = {
    "u32": 2,
    "b32": 2,
    "s32": 3,
    "u64": 4,
    "b64": 4,
    "s64": 5,
    "f16": 6,
    "f32": 7,
    "f64": 9,
    "bf16": 10,
}
"""Types of reductions by the numbers of `tensormap.replace`."""
_ASYNC_TYPES = {"add": "u32 s32 u64", "min": "u32 s32", "max": "u32 s32", "inc": "u32", "dec": "u32"}
"""What is added to shared memory of a cluster, by the operation; bits otherwise."""
_FIELDS = (
    "global_address", "rank", "elemtype", "interleave_layout", "swizzle_mode", "fill_mode", "box_dim", "global_dim",
    "global_stride", "element_stride",
)  # fmt: skip


def bulk(w: Writer, i: Instruction) -> None:
    """cp.async.bulk and cp.reduce.async.bulk, with or without a tensor map, and their groups."""
    mods = Modifiers(i)
    reduces = bool(mods.take("reduce"))
    if not mods.take("async") or not mods.take("bulk"):
        raise refused(i)
    if mods.take("commit_group"):
        mods.done()
        return w.emit(f"bulk_commit(w, {w.mask});")
    if mods.take("wait_group"):
        only_read = flag(bool(mods.take("read")))
        mods.done()
        if not isinstance(i.operands[0], Immediate):
            raise refused(i)
        return w.emit(f"bulk_wait(w, {w.mask}, {i.operands[0].value}, {only_read});")
    if mods.take("prefetch"):
        return None
    rank = 0
    if mods.take("tensor"):
        rank = int((mods.take("1d", "2d", "3d", "4d", "5d") or "0d")[0])
        if not rank:
            raise refused(i)
    if mods.take("bulk_group"):
        return _out(w, i, mods, rank, reduces)
    if not mods.take(_COMPLETES) or (reduces and rank):
        raise refused(i)
    return _reduced_in(w, i, mods) if reduces else _in(w, i, mods, rank)


def _reduced_in(w: Writer, i: Instruction, mods: Modifiers) -> None:
    """Out of a block's shared memory into the cluster's, added to what is there, with an mbarrier that is told."""
    kind, op = mods.type(), mods.take(*_OPS)
    spaces = mods.take("shared::cluster") and mods.take("shared::cta")
    mods.done()
    to, of, size, barrier = i.operands
    if not spaces or not op or kind not in _ASYNC_TYPES.get(op, "b32").split():
        raise refused(i)
    w.headers.add("wide.h")
    w.smallest["shared"] = min(w.smallest["shared"], 4)
    given = f"{w.address(to)}, {w.address(of)}, {w.read(size, 'b32')}, {w.address(barrier)}"
    w.emit(f"bulk_reduce(w, {w.mask}, {given}, {op.upper()}, {_TYPES[kind]}, {w.site(i)});")


def _in(w: Writer, i: Instruction, mods: Modifiers, rank: int) -> None:
    """Into shared memory, with an mbarrier that is told."""
    many, hinted = bool(mods.take("multicast::cluster")), bool(mods.take(_HINT))
    im2col = _is_im2col(i, mods, rank, "im2col")
    spaces = [m for m in i.modifiers if m in {*_SHARED, "global"}]
    mods.drop((*_SHARED, "global"))
    mods.done()
    if len(spaces) != 2 or spaces[0] == "global" or (rank and spaces[1] != "global"):
        raise refused(i)
    to, of, *rest = i.operands
    size: Operand = Immediate(0) if rank else rest.pop(0)
    offsets = rest.pop(1) if im2col and len(rest) > 1 else Vector(())
    if len(rest) != 1 + many + hinted or spaces[1] == "shared::cluster":
        raise refused(i)
    ctas = f"convert<uint32_t, uint16_t>({w.read(rest[1], 'b16')})" if many else "zero<uint32_t>()"
    tail = f"{w.address(rest[0])}, {flag(many)}, {ctas}, {w.site(i)}"
    _saw(w)
    if rank:
        if not isinstance(offsets, Vector) or len(offsets.items) != (rank - 2 if im2col else 0):
            raise refused(i)
        more = [f"convert<uint32_t, uint16_t>({w.read(item, 'b16')})" for item in offsets.items]
        place, how = _map(w, i, of, rank, more), f"{rank}, {flag(im2col)}, {w.address(to)}"
        return w.emit(f"tensor_load(w, {w.mask}, {how}, {place}, at, {tail});")
    space = "GLOBAL" if spaces[1] == "global" else "SHARED"
    how = f"{w.address(to)}, {w.address(of)}, {space}, {w.read(size, 'b32')}"
    return w.emit(f"bulk_load(w, {w.mask}, {how}, {tail});")


def _out(w: Writer, i: Instruction, mods: Modifiers, rank: int, reduces: bool) -> None:
    """Out of shared memory to global, in a group that is waited for."""
    hinted = bool(mods.take(_HINT))
    op = mods.take(*_OPS) if reduces else ""
    kind = mods.take(*_TYPES) if reduces and not rank else ""
    mods.take("noftz")
    im2col = _is_im2col(i, mods, rank, "im2col_no_offs")
    if not mods.take("global") or not mods.take("shared::cta") or reduces != bool(op):
        raise refused(i)
    mods.done()
    to, of, *rest = i.operands
    number = op.upper() if op else "-1"
    _saw(w)
    if len(rest) != (0 if rank else 1) + hinted or (reduces and not rank and not kind):
        raise refused(i)
    if rank:
        place = _map(w, i, to, rank, ["zero<uint32_t>()"] * (rank - 2) if im2col else [])
        how = f"{w.address(of)}, {number}, {w.site(i)}"
        return w.emit(f"tensor_store(w, {w.mask}, {rank}, {flag(im2col)}, {place}, at, {how});")
    how = f"{w.address(to)}, {w.address(of)}, {w.read(rest[0], 'b32')}, {number}, {_TYPES.get(kind, -1)}"
    return w.emit(f"bulk_store(w, {w.mask}, {how}, {w.site(i)});")


def _of_cluster(i: Instruction) -> tuple[Modifiers, str]:
    """Take what st.async and red.async have in common; return what is left, and the type."""
    mods = Modifiers(i)
    kind = mods.type()
    if not (mods.take("async") and mods.take("shared::cluster") and mods.take(_COMPLETES)):
        raise refused(i)
    mods.drop(("weak", "relaxed", "cluster"))
    return mods, kind


def store_async(w: Writer, i: Instruction) -> None:
    """st.async."""
    mods, kind = _of_cluster(i)
    count = int((mods.take("v2", "v4") or "v1")[1:])
    mods.done()
    to, source, barrier = i.operands
    items = source.items if isinstance(source, Vector) else (source,)
    each = WIDTHS[kind] // 4
    if len(items) != count or each not in {1, 2} or count * each > 4:
        raise refused(i)
    words = [w.read(item, "b32") for item in items]
    if each == 2:
        wide = [w.read(item, "b64") for item in items]
        words = [f"convert<uint32_t, uint64_t>({x} >> {shift})" for x in wide for shift in (0, 32)]
    w.smallest["shared"] = min(w.smallest["shared"], 4)
    w.emit(f"const b32 put[] = {{{', '.join(words)}}};")
    given = f"{w.address(to)}, {w.address(barrier)}, {len(words)}, put, {w.site(i)}"
    w.emit(f"store_async(w, {w.mask}, {given});")


def reduce_async(w: Writer, i: Instruction) -> None:
    """red.async."""
    mods, kind = _of_cluster(i)
    op = mods.take(*_OPS)
    mods.done()
    to, source, barrier = i.operands
    if not op or kind not in _ASYNC_TYPES.get(op, "b32").split():
        raise refused(i)
    w.smallest["shared"] = min(w.smallest["shared"], 4)
    c, site, value = C_TYPES[kind], w.site(i), w.read(source, kind)
    how = f"CLUSTER, RELAXED, {site}, {op.upper()}, {value}, {value}, nullptr"
    w.emit(f"atomic<{c}>(w, {w.mask}, {w.address(to)}, {how});")
    w.emit(f"reduced_async(w, {w.mask}, {w.address(barrier)}, {WIDTHS[kind]}, {site});")


def _is_im2col(i: Instruction, mods: Modifiers, rank: int, name: str) -> bool:
    """Tell whether columns of pixels are copied: of three to five dimensions."""
    asked = rank > 0 and mods.take("tile", name) == name
    if asked and rank < 3:
        raise refused(i)
    return asked


def _saw(w: Writer) -> None:
    for name in ("shared", "global"):
        w.smallest[name] = min(w.smallest[name], 16)


def _generic(w: Writer, operand: Operand) -> str:
    """Return a generic address; a parameter's name stands for its place in the window of parameters."""
    if isinstance(operand, Address) and isinstance(operand.base, Symbol):
        space, at = w.place(operand.base.name)
        if space == "param":
            return f"splat<uint64_t>({PARAM_BASE + at + operand.base.offset + operand.offset}ull)"
    return w.address(operand)


def _map(w: Writer, i: Instruction, operand: Operand, rank: int, offsets: list[str]) -> str:
    """Write the coordinates, and offsets behind them; return the map's address."""
    if not isinstance(operand, Address) or len(operand.coordinates) != rank:
        raise refused(i)
    w.emit(f"const b32 at[] = {{{', '.join([w.read(c, 'b32') for c in operand.coordinates] + offsets)}}};")
    return _generic(w, Address(operand.base, operand.offset))


def map_address(w: Writer, i: Instruction) -> None:
    """mapa, getctarank."""
    mods = Modifiers(i)
    kind = mods.type()
    shared = bool(mods.take("shared::cluster"))
    mods.done()
    dest, place, *rest = i.operands
    if kind not in {"u32", "u64"} or len(rest) != (i.opcode == "mapa"):
        raise refused(i)
    wide = kind if i.opcode == "mapa" or shared else "u64"
    address = (
        f"convert<uint64_t, uint32_t>({w.read(place, 'b32')})" if wide == "u32" else w.read(place, "b64")
    )
    if i.opcode == "getctarank":
        return w.write(dest, f"rank_of(w, {address})", "b32")
    mapped = f"map_address(w, {address}, {w.read(rest[0], 'b32')}, {flag(not shared)})"
    return w.write(
        dest, mapped if kind == "u64" else f"convert<uint32_t, uint64_t>({mapped})", f"b{kind[1:]}"
    )


def cluster_barrier(w: Writer, i: Instruction) -> None:
    """barrier.cluster.arrive, barrier.cluster.wait."""
    mods = Modifiers(i)
    mods.take("cluster")
    arrives, aligned = mods.take("arrive", "wait"), bool(mods.take("aligned"))
    order = mods.take("release", "relaxed") if arrives == "arrive" else mods.take("acquire")
    mods.done()
    if not arrives or i.operands:
        raise refused(i)
    w.emit(f"cluster_{arrives}(w, m, {flag(order != 'relaxed')}, {flag(aligned)}, {w.site(i)});")


def tensor_map(w: Writer, i: Instruction) -> None:
    """tensormap.replace, tensormap.cp_fenceproxy."""
    mods = Modifiers(i)
    if mods.take("cp_fenceproxy"):
        mods.drop(
            (
                "global",
                "shared::cta",
                "tensormap::generic",
                "release",
                "cta",
                "cluster",
                "gpu",
                "sys",
                "sync",
                "aligned",
            )
        )
        mods.done()
        to, of, *_ = i.operands
        return w.emit(f"map_copy(w, {w.mask}, {w.address(to)}, {w.address(of)}, {w.site(i)});")
    kind = mods.type() if i.modifiers[-1] in {"b32", "b64"} else ""
    size = mods.take("b1024")
    space = mods.take("global", "shared::cta")
    field = mods.take(*_FIELDS)
    if not (mods.take("replace") and mods.take("tile") and size and kind and field):
        raise refused(i)
    mods.done()
    place, *rest = i.operands
    number = rest.pop(0) if field in _FIELDS[6:] else Immediate(0)
    if len(rest) != 1 or not isinstance(number, Immediate):
        raise refused(i)
    value = (
        w.read(rest[0], "b64") if kind == "b64" else f"convert<uint64_t, uint32_t>({w.read(rest[0], 'b32')})"
    )
    where = {"global": "GLOBAL", "shared::cta": "SHARED"}.get(space, "GENERIC")
    spot = f"{where}, {_FIELDS.index(field)}, {number.value}"
    return w.emit(f"map_replace(w, {w.mask}, {w.address(place)}, {spot}, {value}, {w.site(i)});")


def launches(w: Writer, i: Instruction) -> None:  # noqa: ARG001
    """griddepcontrol: an earlier launch has ended before the next begins."""
    if i.modifiers not in {("wait",), ("launch_dependents",)}:
        raise refused(i)


HANDLERS: dict[str, Handler] = {
    "mapa": map_address, "getctarank": map_address, "tensormap": tensor_map, "griddepcontrol": launches,
}  # fmt: skip
