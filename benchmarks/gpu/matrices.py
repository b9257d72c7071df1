"""Programs that try matrix instructions and atomics: every shape and type of mma.sync and wgmma.

Fragments are registers of random numbers, so the layout over lanes is tried too: a wrong place gives another number.
Whole numbers, exact in the sum, must come out equal; of real ones the sum's order and precision are the device's.
"""

import re
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from kernelwright.executor import Module, Options, Uninitialised

from .launches import label

HEAD = ".version 8.7\n.target sm_90a\n.address_size 64\n.visible .entry k("
WARPS = 16
"""Warps, and so products, of each `mma` form."""
_REAL = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
QUIET = Options(races=False, count=False, hopper_sums=True)

MMA = {
    **{("m16n8k16", k, k, "f32"): (4, 2, 4) for k in ("f16", "bf16")},
    **{("m16n8k8", k, k, "f32"): (2, 1, 4) for k in ("f16", "bf16")},
    ("m16n8k16", "f16", "f16", "f16"): (4, 2, 2), ("m16n8k8", "f16", "f16", "f16"): (2, 1, 2),
    ("m16n8k8", "tf32", "tf32", "f32"): (4, 2, 4), ("m16n8k4", "tf32", "tf32", "f32"): (2, 1, 4),
    **{("m16n8k32", a, b, "f32"): (4, 2, 4) for a, b in product(("e4m3", "e5m2"), repeat=2)},
    **{("m16n8k16", a, b, "f32"): (2, 1, 4) for a, b in product(("e4m3", "e5m2"), repeat=2)},
    **{("m16n8k32", a, b, "s32"): (4, 2, 4) for a, b in product(("s8", "u8"), repeat=2)},
    **{("m16n8k16", a, b, "s32"): (2, 1, 4) for a, b in product(("s8", "u8"), repeat=2)},
    **{("m8n8k16", a, b, "s32"): (1, 1, 2) for a, b in product(("s8", "u8"), repeat=2)},
    **{("m16n8k64", a, b, "s32"): (4, 2, 4) for a, b in product(("s4", "u4"), repeat=2)},
    **{("m16n8k32", a, b, "s32"): (2, 1, 4) for a, b in product(("s4", "u4"), repeat=2)},
    **{("m8n8k32", a, b, "s32"): (1, 1, 2) for a, b in product(("s4", "u4"), repeat=2)},
    **{("m16n8k256", "b1", "b1", f"s32.{op}.popc"): (4, 2, 4) for op in ("xor", "and")},
    **{("m16n8k128", "b1", "b1", f"s32.{op}.popc"): (2, 1, 4) for op in ("xor", "and")},
    **{("m8n8k128", "b1", "b1", f"s32.{op}.popc"): (1, 1, 2) for op in ("xor", "and")},
    ("m8n8k4", "f64", "f64", "f64"): (1, 1, 2),
}  # fmt: skip
"""Registers of A, B and C by shape, types and the sum's type."""


def registers(letter: str, count: int) -> str:
    """Name the registers of a fragment."""
    return "{" + ", ".join(f"%{letter}{n}" for n in range(count)) + "}"


def bits_of(x: Any, kind: str) -> Any:
    """Return the bits of float64 values rounded to a type (towards zero), as the narrowest unsigned words."""
    if kind == "f64":
        return x.astype(np.float64).view(np.uint64)
    if kind == "f16":
        return x.astype(np.float16).view(np.uint16)
    word = x.astype(np.float32).view(np.uint32)
    if kind in {"f32", "tf32"}:
        return word & np.uint32(0xFFFFE000) if kind == "tf32" else word
    if kind == "bf16":
        return (word >> 16).astype(np.uint16)
    exponent, fraction = {"e4m3": (4, 3), "e5m2": (5, 2)}[kind]
    bias = (1 << exponent - 1) - 1
    e = (word >> 23 & 255).astype(np.int64) - 127 + bias
    small = (e << fraction | word >> (23 - fraction) & (1 << fraction) - 1) | (word >> 31 << 7).astype(
        np.int64
    )
    return np.where(e > 0, small, 0).astype(np.uint8)  # what is subnormal is left out


def fragment(rng: Any, kind: str, count: int, how: str) -> Any:
    """Return random registers of 32 or 64 bits, `count` for each lane of each warp."""
    shape, wide = (WARPS, 32, count), np.uint64 if kind == "f64" else np.uint32
    if kind in {"s8", "u8", "s4", "u4", "b1"}:
        return rng.integers(0, 1 << 32, shape, dtype=np.uint32)
    each = {"f64": 1, "f32": 1, "tf32": 1, "f16": 2, "bf16": 2}.get(kind, 4)
    size = (WARPS, 32, count * each)
    if how == "whole":
        x = rng.integers(-7, 8, size).astype(np.float64)
    elif how == "normal":
        x = rng.standard_normal(size)
    else:  # magnitudes far apart, so that what is cut off shows
        reach = 4 if kind == "e4m3" else 10 if kind in {"f16", "e5m2"} else 18
        x = rng.standard_normal(size) * 2.0 ** rng.integers(-reach, min(reach, 7) + 1, size)
    return np.ascontiguousarray(bits_of(x, kind)).view(wide).reshape(shape)


def mma_program(form: tuple[str, str, str, str], counts: tuple[int, int, int]) -> str:
    """Return a kernel: each warp loads its fragments, multiplies, stores."""
    shape, ka, kb, into = form
    sums, *bit = into.split(".", 1)
    wide = ka == "f64"
    width, size = ("b64", 8) if wide else ("b32", 4)
    lines = [f"{HEAD}.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3) {{",
             ".reg .b64 %at<4>; .reg .b32 %t, %u;", f".reg .{width} %a<4>, %b<4>, %c<4>, %d<4>;",
             "mov.u32 %t, %tid.x; mov.u32 %u, %ctaid.x; shl.b32 %u, %u, 5; add.u32 %t, %t, %u;"]  # fmt: skip
    for n, (letter, count) in enumerate(zip("abcd", (*counts, counts[2]), strict=True)):
        lines.append(f"ld.param.u64 %at{n}, [p{n}]; mad.wide.u32 %at{n}, %t, {size * count}, %at{n};")
        lines += [
            f"ld.global.{width} %{letter}{i}, [%at{n}+{size * i}];" for i in range(count) if letter != "d"
        ]
    a, b, c, d = (registers(x, n) for x, n in zip("abcd", (*counts, counts[2]), strict=True))
    more = f".{bit[0]}" if bit else ""
    lines.append(f"mma.sync.aligned.{shape}.row.col.{sums}.{ka}.{kb}.{sums}{more} {d}, {a}, {b}, {c};")
    lines += [f"st.global.{width} [%at3+{size * i}], %d{i};" for i in range(counts[2])]
    return "\n".join([*lines, "ret;", "}", ""])


def record_mma(seed: int) -> None:
    """Execute every form of `mma.sync`."""
    rng = np.random.default_rng(seed)
    for form, counts in MMA.items():
        kernel = Module.load(mma_program(form, counts))["k"]
        into = form[3].split(".")[0]
        for how in ("whole",) if into == "s32" else ("whole", "normal", "far"):
            given = [fragment(rng, k, n, how) for k, n in zip(form[1:3], counts[:2], strict=True)]
            if into == "s32":
                c: Any = rng.integers(-1000, 1000, (WARPS, 32, counts[2]), dtype=np.int32)
            else:
                c = fragment(rng, into, counts[2], how)
            c = c.view(_REAL.get(into, np.int32))
            d = Uninitialised(np.zeros_like(c))
            with label(f"mma/{'.'.join(form)}/{how}", form=list(form), how=how, counts=list(counts)):
                run = kernel(WARPS, 32, [*given, c, d], options=QUIET)
            assert run.ok, [str(f) for f in run.findings]


ROWS = {0: 16, 32: 32, 64: 64, 128: 128}
"""Bytes of a line by swizzle; without one the pieces are 8 x 16 bytes."""
MODES = {0: 0, 128: 1, 64: 2, 32: 3}
DEPTH = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32}
A_BYTES, B_BYTES = 16 << 10, 32 << 10


def descriptor(swizzle: int, leading: int, stride: int) -> int:
    """Return a matrix descriptor without its start."""
    return (leading >> 4 & 0x3FFF) << 16 | (stride >> 4 & 0x3FFF) << 32 | MODES[swizzle] << 62


def operand(swizzle: int, turned: bool, rows: int, width: int) -> int:
    """Return the descriptor of `rows` rows of 32 bytes along k, packed tightly; or turned, for halves."""
    if not turned:
        if swizzle == 0:
            return descriptor(0, 128, 256)  # the next 8 x 16 bytes along k; the next eight rows
        return descriptor(swizzle, 16, 8 * swizzle)
    if swizzle == 0:  # 8 along k x 8 rows; the next eight along k, the next eight rows
        return descriptor(0, 128, 256)
    across = -(-rows * width // swizzle)
    return descriptor(swizzle, 16 * swizzle if across > 1 else 16, 8 * swizzle)


def wgmma_program(n: int, ka: str, kb: str, into: str, a_in_registers: bool, turns: tuple[int, int],
                  signs: tuple[int, int], keep: bool) -> str:  # fmt: skip
    """Return a kernel of one warpgroup: fills shared memory from global, multiplies, stores its registers."""
    count = n // 2 if into == "f32" else n // 4
    halves = ka in {"f16", "bf16"}
    lines = [f"{HEAD}.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 d0, .param .u64 d1) {{",
             f".shared .align 1024 .b8 sa[{A_BYTES}]; .shared .align 1024 .b8 sb[{B_BYTES}];",
             ".reg .b64 %p<3>, %g<4>, %x, %y; .reg .b32 %t, %i, %s, %z, %b<4>; .reg .pred %q, %k;",
             f".reg .b32 %d<{count}>, %a<4>;", "mov.u32 %t, %tid.x;"]  # fmt: skip
    lines += [f"ld.param.u64 %p{i}, [p{i}];" for i in range(3)]
    for base, at, size in (("sa", 0, A_BYTES), ("sb", 1, B_BYTES)):
        lines += [f"mov.u32 %s, {base}; shl.b32 %i, %t, 4; add.u32 %s, %s, %i;",
                  f"cvt.u64.u32 %x, %i; add.u64 %x, %x, %p{at};",
                  f"mov.u32 %i, 0; F{at}:", "ld.global.v4.b32 {%b0, %b1, %b2, %b3}, [%x];",
                  "st.shared.v4.b32 [%s], {%b0, %b1, %b2, %b3};",
                  "add.u64 %x, %x, 2048; add.u32 %s, %s, 2048; add.u32 %i, %i, 2048;",
                  f"setp.lt.u32 %q, %i, {size}; @%q bra F{at};"]  # fmt: skip
    lines.append(f"mul.wide.u32 %y, %t, {4 * count}; add.u64 %y, %y, %p2;")
    lines += [f"ld.global.b32 %d{i}, [%y+{4 * i}];" for i in range(count)]
    if a_in_registers:
        lines += ["shl.b32 %i, %t, 4; cvt.u64.u32 %x, %i; add.u64 %x, %x, %p0;",
                  "ld.global.v4.b32 {%a0, %a1, %a2, %a3}, [%x];"]  # fmt: skip
    lines += ["fence.proxy.async.shared::cta; bar.sync 0;", "ld.param.u64 %g0, [d0]; ld.param.u64 %g1, [d1];"]
    for base, at in (("sa", 0), ("sb", 1)):
        lines.append(f"mov.u32 %s, {base}; shr.u32 %s, %s, 4; cvt.u64.u32 %x, %s; or.b64 %g{at}, %g{at}, %x;")
    lines.append(f"setp.ne.u32 %k, {int(keep)}, 0;")
    first = "{%a0, %a1, %a2, %a3}" if a_in_registers else "%g0"
    turned = "" if not halves else f", {turns[1]}" if a_in_registers else f", {turns[0]}, {turns[1]}"
    d = registers("d", count)
    lines += ["wgmma.fence.sync.aligned;",
              f"wgmma.mma_async.sync.aligned.m64n{n}k{DEPTH[ka]}.{into}.{ka}.{kb} {d}, {first}, %g1, %k, "
              f"{signs[0]}, {signs[1]}{turned};",
              "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"]  # fmt: skip
    lines += [f"st.global.b32 [%y+{4 * i}], %d{i};" for i in range(count)]
    return "\n".join([*lines, "ret;", "}", ""])


def wgmma_forms() -> Iterator[dict[str, Any]]:
    """Yield what is tried: every type and swizzle, turned or not, from registers, widths from 8 to 256."""
    plain: dict[str, Any] = {
        "registers": False,
        "turns": (0, 0),
        "signs": (1, 1),
        "keep": True,
        "swizzles": (128, 128),
    }
    pairs = [("f16", "f16", "f32"), ("f16", "f16", "f16"), ("bf16", "bf16", "f32"), ("tf32", "tf32", "f32"),
             *((a, b, "f32") for a, b in product(("e4m3", "e5m2"), repeat=2)), ("e4m3", "e4m3", "f16")]  # fmt: skip
    for kinds in pairs:
        for swizzle in MODES:
            yield {**plain, "kinds": kinds, "n": 64, "swizzles": (swizzle, swizzle)}
        for in_registers, signs, keep in (
            (True, (1, 1), True),
            (False, (-1, 1), True),
            (False, (1, -1), False),
        ):
            if kinds[0] in {"f16", "bf16", "tf32"} or signs == (1, 1):
                more = {"registers": in_registers, "signs": signs, "keep": keep}
                yield {**plain, "kinds": kinds, "n": 32, **more}
    for n in (8, 16, 24, 40, 96, 128, 200, 256):
        yield {**plain, "kinds": ("f16", "f16", "f32"), "n": n}
        yield {**plain, "kinds": ("bf16", "bf16", "f32"), "n": n, "swizzles": (64, 32)}
    for turns, swizzle in product(((1, 0), (0, 1), (1, 1)), MODES):
        for n in (64, 128):
            yield {
                **plain,
                "kinds": ("bf16", "bf16", "f32"),
                "n": n,
                "turns": turns,
                "swizzles": (swizzle, swizzle),
            }
            yield {
                **plain,
                "kinds": ("f16", "f16", "f32"),
                "n": n,
                "turns": turns,
                "swizzles": (swizzle, swizzle),
            }


def contents(rng: Any, kind: str, size: int, how: str) -> Any:
    """Return bytes of shared memory full of numbers of a type."""
    width = {"f16": 2, "bf16": 2, "tf32": 4}.get(kind, 1)
    count = size // width
    x = rng.integers(-7, 8, count).astype(np.float64) if how == "whole" else rng.standard_normal(count)
    return np.ascontiguousarray(bits_of(x, kind)).view(np.uint8).reshape(-1)


def record_wgmma(seed: int) -> None:
    """Execute `wgmma` in every form of `wgmma_forms`, on whole numbers and on real ones."""
    rng = np.random.default_rng(seed)
    known = {(kind, how): (contents(rng, kind, A_BYTES, how), contents(rng, kind, B_BYTES, how))
             for kind, how in product(DEPTH, ("whole", "normal"))}  # fmt: skip
    sums = {how: rng.standard_normal(128 * 128) for how in ("whole", "normal")}
    for f in wgmma_forms():
        (ka, kb, into), n = f["kinds"], f["n"]
        kernel = Module.load(
            wgmma_program(n, ka, kb, into, f["registers"], f["turns"], f["signs"], f["keep"])
        )["k"]
        width = 2 if ka in {"f16", "bf16"} else 1
        words = [operand(s, bool(t), rows, width)
                 for s, t, rows in zip(f["swizzles"], f["turns"], (64, n), strict=True)]  # fmt: skip
        count = n // 2 if into == "f32" else n // 4
        for how in ("whole", "normal") if n <= 64 else ("whole",):
            a, b = known[ka, how][0], known[kb, how][1]
            size = 128 * count * (1 if into == "f32" else 2)
            c = bits_of((sums[how] if how == "normal" else np.rint(4 * sums[how]))[:size], into).view(
                _REAL[into]
            )
            name = (f"wgmma/n{n}.{into}.{ka}.{kb}/{f['swizzles']}/turned{f['turns']}/signs{f['signs']}/"
                    f"{'registers' if f['registers'] else 'memory'}/{how}")  # fmt: skip
            with label(name, **f, how=how):
                run = kernel(1, 128, [a, b, c, *words], options=QUIET)
            assert run.ok, (name, [str(x) for x in run.findings][:2])


ATOMICS = {
    **{t: ("add", "min", "max") for t in ("u32", "s32", "u64")}, "s64": ("min", "max"),
    "b32": ("and", "or", "xor", "exch", "cas"), "b64": ("and", "or", "xor", "exch", "cas"),
    "f32": ("add",), "f64": ("add",), "f16x2": ("add.noftz",), "bf16x2": ("add.noftz",), "f16": ("add.noftz",),
    "bf16": ("add.noftz",), "b16": ("cas",),
}  # fmt: skip


def atomic_program(op: str, kind: str, space: str) -> str:
    """Return a kernel whose lanes change seven places together, and a place of their own for what they get back."""
    halves = 2 if kind.endswith("x2") else 1
    bits = int(re.sub(r"\D", "", kind.removesuffix("x2"))) * halves
    size = bits // 8
    third = ", %w" if op == "cas" else ""
    shared = space == "shared"
    lines = [f"{HEAD}.param .u64 p0, .param .u64 p1, .param .u64 p2) {{",
             f".reg .b64 %p<4>; .reg .b32 %t, %i, %s; .reg .b{bits} %v, %w, %o;",
             f".shared .align 8 .b8 room[{size * 1024}];",
             "mov.u32 %t, %tid.x;", *(f"ld.param.u64 %p{n}, [p{n}];" for n in range(3)),
             f"mad.wide.u32 %p0, %t, {2 * size}, %p0; ld.global.b{bits} %v, [%p0]; ld.global.b{bits} %w, [%p0+{size}];",
             f"mad.wide.u32 %p2, %t, {size}, %p2; mad.wide.u32 %p3, %t, {size}, %p1; mov.u32 %s, room;"]  # fmt: skip
    if shared:
        lines += [f"mad.lo.u32 %i, %t, {size}, %s; ld.global.b{bits} %o, [%p3];",
                  f"st.shared.b{bits} [%i], %o; bar.sync 0;"]  # fmt: skip
    lines.append("rem.u32 %i, %t, 7;")
    if shared:
        lines.append(f"mad.lo.u32 %i, %i, {size}, %s;")
        place = "%i"
    else:
        lines.append(f"mad.wide.u32 %p0, %i, {size}, %p1;")
        place = "%p0"
    free = op in {"exch", "cas"}  # the last one wins: nothing that two lanes change may be looked at
    if not free:
        lines.append(f"red.{space}.{op}.{kind} [{place}], %v;")
    lines.append("bar.sync 0;")
    own = f"mad.lo.u32 %i, %t, {size}, %s;" if shared else "mov.b64 %p0, %p3;"
    lines += [own, f"atom.{space}.{op}.{kind} %o, [{place}], %v{third};",
              f"st.global.b{bits} [%p2], %o;", "bar.sync 0;"]  # fmt: skip
    if shared:
        lines += [f"ld.shared.b{bits} %o, [%i]; st.global.b{bits} [%p3], %o;"]
    return "\n".join([*lines, "ret;", "}", ""])


def record_atomics(seed: int) -> None:
    """Execute atomics of every type, many lanes on one place and each on its own."""
    rng = np.random.default_rng(seed)
    for kind, ops in ATOMICS.items():
        for op, space in product(ops, ("global", "shared")):
            real = kind in {"f32", "f64", "f16", "bf16", "f16x2", "bf16x2"}
            base = kind.removesuffix("x2")
            each = 2 if kind.endswith("x2") else 1
            if real:
                given = bits_of(rng.integers(-4, 5, 512 * each).astype(np.float64), base)
                memory = bits_of(rng.integers(-9, 9, 256 * each).astype(np.float64), base)
            else:
                word: Any = {"16": np.uint16, "32": np.uint32, "64": np.uint64}[kind[1:]]
                given = rng.integers(0, np.iinfo(word).max, 512, dtype=word)
                memory = rng.integers(0, np.iinfo(word).max, 256, dtype=word)
                given[:256:2] = memory[:128]  # half of the comparisons hold
            kernel = Module.load(atomic_program(op, kind, space))["k"]
            out = Uninitialised(np.zeros_like(memory))
            with label(f"atomics/{space}.{op}.{kind}"):
                run = kernel(1, 256, [given, memory.copy(), out], options=QUIET)
            assert run.ok, (op, kind, space, [str(f) for f in run.findings][:2])
