"""Instructions at which threads meet: barriers, fences, shuffles, votes, matches, reductions, matrices."""

from ._accesses import SCOPES
from ._arithmetic import Handler, flag
from ._bulk import cluster_barrier
from ._ir import Immediate, Instruction, Operand, Pair, Register, Vector
from ._writer import C_TYPES, Modifiers, Writer, both, refused

_BARRIERS = ("cta", "aligned")


def meets(i: Instruction) -> str | None:
    """Name the lanes that must come to an instruction together; see `blocks_of`."""
    if i.opcode in {"mma", "ldmatrix", "stmatrix", "wmma", "wgmma", "movmatrix"}:
        return "all"
    if i.opcode in {"bar", "barrier"}:
        if i.modifiers[:1] == ("warp",):
            return _key(i.operands[0]) if i.operands else None
        return "all"
    if i.opcode in {"shfl", "vote", "match", "redux", "elect"} and "sync" in i.modifiers:
        return _key(i.operands[-1])
    return None


def _key(mask: Operand) -> str:
    if isinstance(mask, Immediate) and mask.value & 0xFFFFFFFF == 0xFFFFFFFF:
        return "all"
    return str(mask)


def names(w: Writer, i: Instruction) -> str:
    """Return the lanes that each lane names at an instruction, as C++; nothing where every lane names all."""
    return "" if meets(i) in {None, "all"} else w.read(i.operands[-1], "b32")


def named(w: Writer, i: Instruction) -> str:
    """Return the lanes that an instruction names, as C++: those that are here all name the same."""
    text = names(w, i)
    return f"first<uint32_t>(m, {text})" if text else "~Mask(0)"


def barrier(w: Writer, i: Instruction) -> None:
    """bar.sync, bar.arrive, bar.red, bar.warp.sync, barrier."""
    if i.modifiers[:1] == ("cluster",):
        return cluster_barrier(w, i)
    mods = Modifiers(i)
    if mods.take("warp"):
        mods.take("sync")
        mods.done()
        return w.emit(f"sync_lanes(w, m, {named(w, i)}, {w.site(i)});")
    kind = mods.type() if "red" in i.modifiers else ""
    what = mods.take("sync", "arrive", "red")
    op = mods.take("popc", "and", "or")
    mods.drop(_BARRIERS)
    mods.done()
    by_itself = i.opcode == "barrier" and "aligned" not in i.modifiers
    if what in {"sync", "arrive"} and not op:
        operands = [_uniform(w, o) for o in i.operands]
        if len(operands) == 1:
            operands.append("0")
        waits = "true" if what == "sync" else "false"
        others = "f.rest & f.stuck" if by_itself else "0"
        return w.emit(f"barrier(w, m, {operands[0]}, {operands[1]}, {waits}, {w.site(i)}, {others});")
    if what != "red" or not op or (kind == "pred") == (op == "popc"):
        raise refused(i)
    dest, which, *rest = i.operands
    threads = _uniform(w, rest[0]) if len(rest) == 2 else "0"
    if by_itself:  # a warp waits as one here
        w.emit(f"if (f.rest & f.stuck) stop(w, 6, {w.site(i)});")
    w.emit("uint32_t count = 0;")
    given = f"{_uniform(w, which)}, {threads}, RED_{op.upper()}, {w.predicate(rest[-1])}"
    w.emit(f"const Mask r = barrier_reduce(w, m, {given}, &count, {w.site(i)});")
    w.write(dest, "splat<uint32_t>(count)" if op == "popc" else "r", "b32" if op == "popc" else "pred")
    return None


def _uniform(w: Writer, operand: Operand) -> str:
    if isinstance(operand, Immediate):
        return f"{operand.value}u"
    return f"first<uint32_t>(m, {w.read(operand, 'b32')})"


def fence(w: Writer, i: Instruction) -> None:
    """membar, fence."""
    mods = Modifiers(i)
    if mods.take("proxy"):
        if mods.take("tensormap::generic"):
            mods.drop((*SCOPES, "acquire", "release"))
        elif mods.take("async"):
            mods.take("global", "shared::cta", "shared::cluster")
            w.emit("proxy_fence(w);")
        elif not mods.take("alias", "async::generic"):
            raise refused(i)
        mods.drop(
            (*SCOPES, "acquire", "release", "sync_restrict::shared::cta", "sync_restrict::shared::cluster")
        )
        return mods.done()
    if mods.take("mbarrier_init"):
        mods.drop((*SCOPES, "release"))
        mods.done()
        return w.emit("fence(w);")  # a relaxed arrival at the cluster's barrier tells of the start
    near = flag(bool(mods.take("cta")))
    mods.drop((*SCOPES, "gl"))
    mods.take("sc", "acq_rel", "acquire", "release")
    mods.take("sync_restrict::shared::cta", "sync_restrict::shared::cluster")
    mods.done()
    w.has_fences = True
    return w.emit(f"fence(w, {near});")


def shuffle(w: Writer, i: Instruction) -> None:
    """shfl.sync."""
    mods = Modifiers(i)
    how = {"up": "UP", "down": "DOWN", "bfly": "BFLY", "idx": "IDX"}.get(
        mods.take("up", "down", "bfly", "idx")
    )
    if not mods.take("sync") or mods.type() != "b32" or how is None:
        raise refused(i)
    mods.done()
    dest, a, b, c, _ = i.operands
    dest, second = both(dest)
    values = ", ".join(w.read(o, "b32") for o in (a, b, c))
    _check(w, i)
    w.emit("Mask valid;")
    w.emit(f"const b32 moved = shuffle(w, {how}, m, {values}, &valid, {w.site(i)});")
    w.write(dest, "moved", "b32")
    w.write(second, "valid", "pred")


def _check(w: Writer, i: Instruction) -> None:
    """Report lanes that the mask does not name, and named lanes that are not there."""
    text = named(w, i)
    site = w.site(i)
    w.emit(f"{{ const Mask named = {text}; if (m & ~named) fail(w, 9, {site}, m & ~named); "
           f"if (named & w->alive & ~m) fail(w, 10, {site}, named & w->alive & ~m); }}")  # fmt: skip


def vote(w: Writer, i: Instruction) -> None:
    """vote.sync."""
    mods = Modifiers(i)
    kind = mods.type()
    how = mods.take("all", "any", "uni", "ballot")
    if not mods.take("sync") or not how or (kind == "b32") != (how == "ballot"):
        raise refused(i)
    mods.done()
    dest, a, _ = i.operands
    _check(w, i)
    if how == "ballot":
        return w.write(dest, f"splat<uint32_t>(m & {w.predicate(a)})", "b32")
    return w.write(dest, f"vote({how.upper()}, m, {w.predicate(a)})", "pred")


def match(w: Writer, i: Instruction) -> None:
    """match.any.sync, match.all.sync."""
    mods = Modifiers(i)
    kind, how = mods.type(), mods.take("any", "all")
    if not mods.take("sync") or kind not in {"b32", "b64"}:
        raise refused(i)
    mods.done()
    dest, a, _ = i.operands
    _check(w, i)
    value = w.read(a, kind)
    if kind == "b32":
        value = f"convert<uint64_t, uint32_t>({value})"
    if how == "any":
        return w.write(dest, f"match_any(m, {value})", "b32")
    dest, second = both(dest)
    w.emit("Mask all;")
    w.emit(f"const b32 same = match_all(m, {value}, &all);")
    w.write(dest, "same", "b32")
    w.write(second, "all", "pred")
    return None


def reduce(w: Writer, i: Instruction) -> None:
    """redux.sync."""
    mods = Modifiers(i)
    kind = mods.type()
    op = mods.take("add", "min", "max", "and", "or", "xor")
    nan, magnitude = mods.take("NaN"), mods.take("abs")
    if not mods.take("sync") or magnitude or (kind == "f32" and op not in {"min", "max"}):
        raise refused(i)
    mods.done()
    c = C_TYPES.get(kind, "")
    calls = {"add": f"{c}(uint32_t(x) + uint32_t(y))", "min": "x < y ? x : y", "max": "x > y ? x : y",
             "and": "x & y", "or": "x | y", "xor": "x ^ y"}  # fmt: skip
    call = calls.get(op, "")
    if kind == "f32":
        call = f"extreme<{'true' if op == 'max' else 'false'}, {'true' if nan else 'false'}, float>(x, y)"
    elif kind not in {"u32", "s32", "b32"} or not call or nan:
        raise refused(i)
    dest, a, _ = i.operands
    _check(w, i)
    w.write(dest, f"reduce<{c}>(m, {w.read(a, kind)}, []({c} x, {c} y) {{ return {call}; }})", kind)


def elect(w: Writer, i: Instruction) -> None:
    """elect.sync, activemask."""
    if i.opcode == "activemask":
        return w.write(i.operands[0], f"splat<uint32_t>({w.mask})", "b32")
    dest = i.operands[0]
    if i.modifiers != ("sync",) or not isinstance(dest, Pair):
        raise refused(i)
    _check(w, i)
    w.write(dest.first, "splat<uint32_t>(first_lane(m))", "b32")
    w.write(dest.second, "(m & -m)", "pred")
    return None


def wait(w: Writer, i: Instruction) -> None:  # noqa: ARG001
    """nanosleep: lets others go on."""
    w.emit("look(w, true);")


def matrix_memory(w: Writer, i: Instruction) -> None:
    """ldmatrix, stmatrix."""
    mods = Modifiers(i)
    if not mods.take("sync") or not mods.take("aligned") or not mods.take("m8n8") or mods.type() != "b16":
        raise refused(i)
    count = int((mods.take("x1", "x2", "x4") or "x0")[1:])
    turned = "true" if mods.take("trans") else "false"
    mods.take("shared", "shared::cta")
    mods.done()
    loads = i.opcode == "ldmatrix"
    data, address = i.operands if loads else i.operands[::-1]
    items = data.items if isinstance(data, Vector) else (data,)
    if len(items) != count or not all(isinstance(x, Register) for x in items):
        raise refused(i)
    w.smallest["shared"] = min(w.smallest["shared"], 16)
    head = f"w, m, {w.address(address)}, {count}, {turned}, {w.site(i)}"
    if loads:
        w.emit(f"b32 tiles[{count}];")
        w.emit(f"load_matrix({head}, tiles);")
        for n, item in enumerate(items):
            w.write(item, f"tiles[{n}]", "b32")
    else:
        w.emit(f"const b32 tiles[] = {{{', '.join(w.read(x, 'b32') for x in items)}}};")
        w.emit(f"store_matrix({head}, tiles);")


def turn(w: Writer, i: Instruction) -> None:
    """movmatrix."""
    if i.modifiers != ("sync", "aligned", "m8n8", "trans", "b16"):
        raise refused(i)
    w.write(i.operands[0], f"turned({w.read(i.operands[1], 'b32')})", "b32")


HANDLERS: dict[str, Handler] = {
    "bar": barrier, "barrier": barrier, "membar": fence, "fence": fence, "shfl": shuffle, "vote": vote,
    "match": match, "redux": reduce, "elect": elect, "activemask": elect, "nanosleep": wait,
    "ldmatrix": matrix_memory, "stmatrix": matrix_memory, "movmatrix": turn,
}  # fmt: skip
