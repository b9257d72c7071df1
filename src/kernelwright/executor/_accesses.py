"""ld, st, atom, red, cp.async, prefetch: instructions that go to memory."""

from ._arithmetic import Handler, flag, unsigned_of
from ._bulk import bulk, reduce_async, store_async
from ._ir import WIDTHS, Address, Immediate, Instruction, Operand, Register, Sink, Symbol, Vector
from ._wide import atomic as wide_atomic
from ._wide import load as wide_load
from ._wide import store as wide_store
from ._writer import C_TYPES, Modifiers, Writer, refused

_SPACES = {
    "global": "GLOBAL", "const": "GLOBAL", "shared": "SHARED", "shared::cta": "SHARED", "shared::cluster": "CLUSTER",
    "local": "LOCAL", "param": "PARAM", "param::entry": "PARAM", "param::func": "PARAM", "": "GENERIC",
}  # fmt: skip
_CACHES = ("ca", "cg", "cs", "lu", "cv", "nc", "wb", "wt", "weak")
_ATOMIC_TYPES = {
    "add": "u32 s32 u64 f32 f64", "min": "u32 s32 u64 s64", "max": "u32 s32 u64 s64", "cas": "b16 b32 b64",
    "inc": "u32", "dec": "u32",
}  # fmt: skip
_PARTS_OPS = {"f32": ("add",), **dict.fromkeys(("f16", "bf16", "f16x2", "bf16x2"), ("add", "min", "max"))}
"""What atomics of several elements do, by the type of one."""
_HINTS = r"L1::\w+|L2::\w+"
SCOPES = ("cta", "gpu", "sys", "cluster")
_ORDERS = {"volatile": "RELAXED", "relaxed": "RELAXED", "acquire": "ACQUIRE", "release": "RELEASE",
           "acq_rel": "BOTH"}  # fmt: skip


def _order(w: Writer, mods: Modifiers, *names: str) -> str:
    """Return the order of an access, as C++: `near` where its scope is the block, nothing where none is written."""
    order = mods.take(*names)
    is_near = bool(mods.take("cta"))
    mods.drop(SCOPES)
    if order in {"acquire", "release", "acq_rel"}:
        w.has_fences = True
    if not order and not is_near:
        return ""
    name = _ORDERS[order or "relaxed"]
    return f"near({name})" if is_near else name


def _saw(w: Writer, space: str, size: int) -> None:
    """Remember the smallest access to each space: it sets the grain of race detection."""
    for name in {
        "SHARED": ("shared",),
        "CLUSTER": ("shared",),
        "GLOBAL": ("global",),
        "GENERIC": ("shared", "global"),
    }.get(space, ()):
        w.smallest[name] = min(w.smallest[name], size)


def _access(w: Writer, i: Instruction) -> tuple[str, str, str, int, str]:
    """Read the modifiers of ld and st: space, order, type, elements, space as written."""
    mods = Modifiers(i)
    kind = mods.type()
    order = _order(w, mods, "volatile", "relaxed", "acquire" if i.opcode == "ld" else "release")
    mods.take("mmio")
    written = mods.take(*(s for s in _SPACES if s))
    count = int((mods.take("v2", "v4", "v8") or "v1")[1:])
    frozen = mods.take("nc")
    mods.drop(_CACHES)
    mods.drop_matching(_HINTS)
    mods.done()
    if kind not in C_TYPES and (kind, count) != ("b128", 1):
        raise refused(i)
    return _SPACES[written], order or ("FROZEN" if frozen else "WEAK"), kind, count, written


def load(w: Writer, i: Instruction) -> None:
    """ld."""
    space, order, kind, count, _ = _access(w, i)
    if kind == "b128":
        return wide_load(w, i, space, order)
    dest, address = i.operands[0], i.operands[1]
    items: tuple[Operand, ...] = dest.items if isinstance(dest, Vector) else (dest,)
    if len(items) != count or not isinstance(address, Address):
        raise refused(i)
    if space == "PARAM" and isinstance(address.base, Symbol):
        return _parameter(w, i, items, kind, address)
    u = C_TYPES[unsigned_of(kind)] if kind not in {"f16x2", "bf16x2"} else "uint32_t"
    _saw(w, space, WIDTHS[kind] * count)
    w.emit(f"V<{u}> got[{count}];")
    w.emit(f"load<{u}, {count}>(w, {w.mask}, {w.address(address)}, {space}, {order}, {w.site(i)}, got);")
    for n, item in enumerate(items):
        w.write(item, f"bits<V<{C_TYPES[kind]}>>(got[{n}])", kind)
    return None


def _parameter(w: Writer, i: Instruction, items: tuple[Operand, ...], kind: str, address: Address) -> None:
    assert isinstance(address.base, Symbol)
    c, width = C_TYPES[kind], WIDTHS[kind]
    name, start = address.base.name, address.base.offset + address.offset
    for n, item in enumerate(items):
        at = start + n * width
        if w.function.is_entry and name in w.parameters:
            size = next(p.size for p in w.function.parameters if p.name == name)
            if at < 0 or at + width > size:
                raise refused(i, f"{width} bytes at {at} of a parameter of {size}")
            w.write(item, f"parameter<{c}>(w, {w.parameters[name] + at})", kind)
        else:
            w.write(item, f"get<{c}>({w.bytes_variable(name)}, {at})", kind)


def store(w: Writer, i: Instruction) -> None:
    """st."""
    if "async" in i.modifiers:
        return store_async(w, i)
    space, order, kind, count, _ = _access(w, i)
    if kind == "b128":
        return wide_store(w, i, space, order)
    address, source = i.operands[0], i.operands[1]
    items: tuple[Operand, ...] = source.items if isinstance(source, Vector) else (source,)
    if len(items) != count or not isinstance(address, Address):
        raise refused(i)
    c = C_TYPES[kind]
    if space == "PARAM":
        if not isinstance(address.base, Symbol):
            raise refused(i)
        for n, item in enumerate(items):
            at = address.base.offset + address.offset + n * WIDTHS[kind]
            w.emit(f"put<{c}>({w.bytes_variable(address.base.name)}, {at}, {w.mask}, {w.read(item, kind)});")
        return
    u = C_TYPES[unsigned_of(kind)] if kind not in {"f16x2", "bf16x2"} else "uint32_t"
    _saw(w, space, WIDTHS[kind] * count)
    values = ", ".join(f"bits<V<{u}>>({w.read(item, kind)})" for item in items)
    w.emit(f"const V<{u}> put[{count}] = {{{values}}};")
    w.emit(f"store<{u}, {count}>(w, {w.mask}, {w.address(address)}, {space}, {order}, {w.site(i)}, put);")


_OF_VECTORS = ("f32", "f16", "bf16", "f16x2", "bf16x2")


def atomic(w: Writer, i: Instruction) -> None:
    """atom, red."""
    if "async" in i.modifiers:
        return reduce_async(w, i)
    mods = Modifiers(i)
    # The ISA's own examples have the type of vectors before the operation: `red.global.v2.f32.add`.
    kind = mods.take(*_OF_VECTORS) if i.modifiers[-1] in {"add", "min", "max", "noftz"} else mods.type()
    order = _order(w, mods, "relaxed", "acquire", "release", "acq_rel")
    space = _SPACES[mods.take("global", "shared", "shared::cta", "shared::cluster")]
    op = mods.take("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec")
    noftz, parts = mods.take("noftz"), mods.take("v2", "v4", "v8")
    hinted = "L2::cache_hint" in i.modifiers
    mods.drop_matching(_HINTS)
    mods.done()
    operands = i.operands if i.opcode == "atom" else (Sink(), *i.operands)
    if hinted:
        operands = operands[:-1]
    dest, address, a = operands[:3]
    if (
        not op
        or not kind
        or (isinstance(a, Vector) and kind != "b128") != bool(parts)
        or (len(operands) > 3) != (op == "cas")
    ):
        raise refused(i)
    order = order or "RELAXED"
    _saw(w, space, WIDTHS[kind])
    if kind == "b128":
        return wide_atomic(w, i, operands, op, f"{space}, {order}, {w.site(i)}")
    if isinstance(a, Vector):
        return _atomic_parts(
            w, i, kind, op, (dest, address, a), f"{space}, {order}, {w.site(i)}, {op.upper()}"
        )
    head = f"w, {w.mask}, {w.address(address)}, {space}, {order}, {w.site(i)}, {op.upper()}"
    if kind in {"f16", "bf16", "f16x2", "bf16x2"}:
        if op != "add" or not noftz:
            raise refused(i)
        u = "b16" if WIDTHS[kind] == 2 else "b32"
        w.emit(f"{u} old;")
        w.emit(
            f"atomic_half<{C_TYPES[u]}>({head}, {'true' if kind[0] == 'b' else 'false'}, {w.read(a, u)}, &old);"
        )
        return w.write(dest, "old", u)
    if kind not in _ATOMIC_TYPES.get(op, "b32 b64").split() or noftz:
        raise refused(i)
    b = w.read(operands[3], kind) if op == "cas" else w.read(a, kind)
    w.emit(f"V<{C_TYPES[kind]}> old;")
    w.emit(f"atomic<{C_TYPES[kind]}>({head}, {w.read(a, kind)}, {b}, &old);")
    w.write(dest, "old", kind)
    return None


def _atomic_parts(
    w: Writer, i: Instruction, kind: str, op: str, operands: tuple[Operand, Operand, Vector], how: str
) -> None:
    """Write an atomic operation of several elements side by side, each atomic by itself."""
    dest, address, a = operands
    olds = dest.items if isinstance(dest, Vector) else (Sink(),) * len(a.items)
    halves = kind in {"f16", "bf16", "f16x2", "bf16x2"}
    if op not in _PARTS_OPS.get(kind, ()) or len(olds) != len(a.items):
        raise refused(i)
    u = "b16" if WIDTHS[kind] == 2 else "b32"
    w.emit(f"const b64 at = {w.address(address)};")
    for number, item in enumerate(a.items):
        place = f"w, {w.mask}, at + splat<uint64_t>({number * WIDTHS[kind]}), {how}"
        if halves:
            brain = "true" if kind[0] == "b" else "false"
            w.emit(f"{u} old{number};")
            w.emit(f"atomic_half<{C_TYPES[u]}>({place}, {brain}, {w.read(item, u)}, &old{number});")
        else:
            w.emit(f"V<float> old{number};")
            value = w.read(item, kind)
            w.emit(f"atomic<float>({place}, {value}, {value}, &old{number});")
    for number, old in enumerate(olds):
        w.write(old, f"old{number}", u if halves else kind)


def copy(w: Writer, i: Instruction) -> None:
    """cp.async and its groups, cp.async.bulk, cp.reduce.async.bulk."""
    if "bulk" in i.modifiers:
        return bulk(w, i)
    mods = Modifiers(i)
    if not mods.take("async"):
        raise refused(i)
    if mods.take("commit_group"):
        mods.done()
        return w.emit(f"copy_commit(w, {w.mask});")
    if mods.take("mbarrier") and mods.take("arrive"):
        counted = flag(mods.take("noinc"))
        mods.drop(("shared", "shared::cta", "b64"))
        mods.done()
        return w.emit(f"copies_arrive(w, {w.mask}, {w.address(i.operands[0])}, {counted}, {w.site(i)});")
    if mods.take("wait_all"):
        mods.done()
        return w.emit(f"copy_wait(w, {w.mask}, 0, true);")
    if mods.take("wait_group"):
        mods.done()
        if not isinstance(i.operands[0], Immediate):
            raise refused(i)
        return w.emit(f"copy_wait(w, {w.mask}, {i.operands[0].value}, false);")
    how = mods.take("ca", "cg")
    shared = mods.take("shared", "shared::cta")
    far = mods.take("global")
    mods.drop_matching(_HINTS)
    mods.done()
    to, of, size, *rest = i.operands
    if "L2::cache_hint" in i.modifiers:
        rest.pop()
    if not (how and shared and far) or not isinstance(size, Immediate) or len(rest) > 1:
        raise refused(i)
    if size.value not in ({16} if how == "cg" else {4, 8, 16}):
        raise refused(i)
    whole = f"splat<uint32_t>({size.value})"
    if rest and isinstance(rest[0], Register) and w.kind(rest[0]) == "pred":
        source = f"pick({w.predicate(rest[0])}, zero<uint32_t>(), {whole})"  # the source is ignored: zeros
    else:
        source = w.read(rest[0], "b32") if rest else whole
    _saw(w, "SHARED", size.value)
    _saw(w, "GLOBAL", size.value)  # a copy of fewer bytes is no part of race detection
    w.emit(f"copy_async(w, {w.mask}, {w.address(to)}, {w.address(of)}, {size.value}, {source}, {w.site(i)});")
    return None


def nothing(w: Writer, i: Instruction) -> None:
    """prefetch and hints: they change no value."""


def policy(w: Writer, i: Instruction) -> None:
    """createpolicy: a hint, zero here."""
    w.write(i.operands[0], "zero<uint64_t>()", "b64")


HANDLERS: dict[str, Handler] = {
    "ld": load, "ldu": load, "st": store, "atom": atomic, "red": atomic, "cp": copy, "createpolicy": policy,
    **dict.fromkeys(("prefetch", "prefetchu", "applypriority", "pmevent"), nothing),
}  # fmt: skip
