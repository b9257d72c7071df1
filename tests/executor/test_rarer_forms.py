"""Forms of common instructions that few kernels have: comparisons joined to a predicate, greatest finite numbers,
packed whole numbers, flushed signs; against whole numbers and numpy."""

import random

import numpy as np
import pytest
import torch

from kernelwright.executor import Module, Options, Uninitialised

from .fragments import HEAD, lanes, left, names, right, sums
from .reals import F16, F32, F64, fma
from .semantics import Case, clamp, signed
from .test_instructions import mismatches


def real(u, dtype=np.float32):
    return np.array([u], f"u{np.dtype(dtype).itemsize}").view(dtype)[0]


def bits(x, dtype=np.float32):
    with np.errstate(over="ignore"):
        return int(np.array([x], dtype).view(f"u{np.dtype(dtype).itemsize}")[0])


def is_less(a, b):
    return bool(real(a) < real(b))


def to_half(u, relu=False):
    x = real(u)
    if np.isnan(x):
        return "nan"
    u = bits(0.0 if relu and x <= 0 else x, np.float16)
    return u - 1 if u & 0x7FFF == 0x7C00 else u


def to_tf32(u, relu=False, finite=False, nearest_away=False):
    if np.isnan(real(u)):
        return "nan"
    if relu and real(u) <= 0:
        return 0
    if u & 0x7F800000 != 0x7F800000:
        rest, u = u & 0x1FFF, u & ~0x1FFF
        up = rest >= 0x1000 if nearest_away else rest > 0x1000 or (rest == 0x1000 and u & 0x2000)
        u += 0x2000 if up else 0
    return u - 0x2000 if finite and u & 0x7FFFFFFF == 0x7F800000 else u


def pack(kind, width):
    mask = (1 << width) - 1

    def means(a, b, c=0):
        above = c << 2 * width & 0xFFFFFFFF
        return above | (clamp(signed(a, 32), kind) & mask) << width | clamp(signed(b, 32), kind) & mask

    return means


def flushed(u):
    return u if u & 0x7C00 else u & 0x8000


def halves(a, b, one):
    with np.errstate(invalid="ignore"):
        pairs = [real(a >> s & 0xFFFF, np.float16) < real(b >> s & 0xFFFF, np.float16) for s in (0, 16)]
    return one * pairs[0] | one * pairs[1] << 16


def cases():
    """Return the instructions; a predicate is made of the third operand's sign where one is joined."""
    sign = ".reg .pred %q; setp.lt.s32 %q, {c}, 0;"
    three, two, f2 = (32, 32, 32, 32), (32, 32, 32), (F32, F32)
    for join, f in {"and": bool.__and__, "or": bool.__or__, "xor": bool.__xor__}.items():
        joined = lambda a, b, c, f=f: f(is_less(a, b), bool(c >> 31))  # noqa: E731
        yield Case(f"{{{{ {sign} set.lt.{join}.u32.f32 {{d}}, {{a}}, {{b}}, %q; }}}}", three,
                   lambda a, b, c, f=joined: 0xFFFFFFFF * f(a, b, c), None, (*f2, None))  # fmt: skip
        yield Case(f"{{{{ {sign} set.lt.{join}.f32.f32 {{d}}, {{a}}, {{b}}, !%q; }}}}", three,
                   lambda a, b, c, f=joined: 0x3F800000 * f(a, b, c ^ 1 << 31), None, (*f2, None))  # fmt: skip
    for one, kind in ((0xFFFF, "u32"), (0x3C00, "f16x2")):
        yield Case(f"set.lt.{kind}.f16x2 {{d}}, {{a}}, {{b}};", two, lambda a, b, one=one: halves(a, b, one))
    for one, kind in ((0xFFFF, "u16"), (0x3C00, "f16")):
        yield Case(f"set.lt.{kind}.f16 {{d}}, {{a}}, {{b}};", (16, 16, 16),
                   lambda a, b, one=one: one * int(real(a, np.float16) < real(b, np.float16)), None,
                   (F16, F16))  # fmt: skip
    for join, some in (("or", bool.__or__), ("and", bool.__and__)):
        text = f"{{{{ .reg .pred %p; {sign} lop3.{join}.b32 {{d}}|%p, {{a}}, {{b}}, {{c}}, 0x68, %q;"
        word = lambda a, b, c: a & b & ~c | a & c & ~b | b & c & ~a  # noqa: E731
        yield Case(f"{text} @%p xor.b32 {{d}}, {{d}}, 1; }}}}", three,
                   lambda a, b, c, f=some, g=word: g(a, b, c) ^ int(f(g(a, b, c) != 0, bool(c >> 31))))  # fmt: skip
    for flush in ("", ".ftz"):

        def choose(a, b, c, flush=flush):
            c &= 0x80000000 if flush and not c & 0x7F800000 else 0xFFFFFFFF
            return a if real(c) >= 0 else b

        yield Case(f"slct{flush}.b32.f32 {{d}}, {{a}}, {{b}}, {{c}};", three, choose, None, (None, None, F32))
    for kind, width in (("u16", 16), ("s16", 16)):
        yield Case(f"cvt.pack.sat.{kind}.s32 {{d}}, {{a}}, {{b}};", two, pack(kind, width))
    for kind, width in (("u8", 8), ("s8", 8), ("u4", 4), ("s4", 4), ("u2", 2), ("s2", 2)):
        yield Case(f"cvt.pack.sat.{kind}.s32.b32 {{d}}, {{a}}, {{b}}, {{c}};", three, pack(kind, width))
    yield from conversions()
    for op, f in (("min", min), ("max", max)):
        yield Case(f"{op}.relu.s32 {{d}}, {{a}}, {{b}};", two,
                   lambda a, b, f=f: max(0, f(signed(a, 32), signed(b, 32))))  # fmt: skip
    yield Case("abs.ftz.f16 {d}, {a};", (16, 16), lambda a: flushed(a) & 0x7FFF, None, (F16,))
    yield Case("neg.ftz.f16x2 {d}, {a};", (32, 32),
               lambda a: sum((flushed(a >> s & 0xFFFF) ^ 0x8000) << s for s in (0, 16)))  # fmt: skip


def conversions():
    for relu in ("", ".relu"):
        on = bool(relu)
        yield Case(
            f"cvt.rn{relu}.satfinite.f16.f32 {{d}}, {{a}};",
            (16, 32),
            lambda a, on=on: to_half(a, on),
            F16,
            (F32,),
        )
        yield Case(
            f"cvt.rn{relu}.tf32.f32 {{d}}, {{a}};", (32, 32), lambda a, on=on: to_tf32(a, on), F32, (F32,)
        )
    yield Case(
        "cvt.rna.satfinite.tf32.f32 {d}, {a};",
        (32, 32),
        lambda a: to_tf32(a, finite=True, nearest_away=True),
        F32,
        (F32,),
    )


def test_rarer_forms_give_what_the_isa_says():
    assert mismatches(list(cases()), random.Random(11)) == []


def test_doubles_are_multiplied_by_other_roundings():
    rng = np.random.default_rng(5)
    a, b, c = (rng.standard_normal(s) for s in ((8, 4), (4, 8), (8, 8)))
    given = [left(a.view(np.uint64), "f64"), right(np.ascontiguousarray(b).view(np.uint64), "f64"), sums(c)]
    body = "ld.global.f64 %a0, [%at0]; ld.global.f64 %b0, [%at1]; ld.global.v2.f64 {%c0, %c1}, [%at2];\n"
    for n, how in enumerate(("rm", "rz", "rn", "rp")):
        body += f"mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64.{how} "
        body += f"{names('d', 2)}, {{%a0}}, {{%b0}}, {names('c', 2)};\n"
        body += f"st.global.v2.f64 [%at3 + {16 * n}], {names('d', 2)};\n"
    d = np.empty((32, 4, 2))
    run = Module.load(lanes(4, ".reg .f64 %a<1>, %b<1>, %c<2>, %d<2>;", body, (8, 8, 16, 64)))["k"](
        1, 32, [*given, Uninitialised(d)]
    )
    assert run.ok, run.findings
    for n, how in enumerate(("rm", "rz", "rn", "rp")):
        expected = np.empty((8, 8))
        for i, j in np.ndindex(8, 8):
            total = bits(c[i, j], np.float64)
            for k in range(4):
                total = fma(F64, bits(a[i, k], np.float64), bits(b[k, j], np.float64), total, how)
            expected[i, j] = real(total, np.float64)
        assert np.array_equal(d[:, n], sums(expected)), how


@pytest.mark.parametrize("k", [16, 32])
def test_fp8_is_added_up_in_halves(k):
    rng = np.random.default_rng(k)
    a, b = (
        torch.from_numpy(rng.integers(-8, 9, s)).float().to(torch.float8_e4m3fn) for s in ((16, k), (k, 8))
    )
    c = torch.from_numpy(rng.integers(-9, 9, (16, 8))).half()
    fa, fb = left(a.view(torch.uint8).numpy(), "e4m3"), right(b.view(torch.uint8).numpy(), "e4m3")
    fc = np.ascontiguousarray(sums(c.numpy())).view(np.uint32)
    body = "".join(
        f"ld.global.b32 %{x}{n}, [%at{at} + {4 * n}];\n"
        for at, (x, f) in enumerate(zip("abc", (fa, fb, fc), strict=True))
        for n in range(f.shape[1])
    )
    body += (
        f"mma.sync.aligned.m16n8k{k}.row.col.f16.e4m3.e4m3.f16 {names('d', 2)}, {names('a', fa.shape[1])}, "
    )
    body += f"{names('b', fb.shape[1])}, {names('c', 2)};\nst.global.v2.b32 [%at3], {names('d', 2)};\n"
    d = np.empty((32, 2), np.uint32)
    steps = (4 * fa.shape[1], 4 * fb.shape[1], 8, 8)
    run = Module.load(lanes(4, ".reg .b32 %a<4>, %b<2>, %c<2>, %d<2>;", body, steps))["k"](
        1, 32, [fa, fb, fc, Uninitialised(d)]
    )
    assert run.ok, run.findings
    assert np.array_equal(d.view(np.float16), sums((a.double() @ b.double() + c.double()).numpy()))


def test_greatest_halves_hints_and_ignored_sources():
    x = np.random.default_rng(3).standard_normal((32, 4)).astype(np.float16)
    body = """
ld.global.v4.b16 {%h0, %h1, %h2, %h3}, [%at0];
ld.param.u64 %at1, [p1];
red.global.max.noftz.v4.f16 [%at1], {%h0, %h1, %h2, %h3};
atom.global.min.noftz.v2.f16 {%h0, %h1}, [%at1 + 8], {%h0, %h1};
createpolicy.fractional.L2::evict_last.b64 %hint, 1.0;
red.global.add.L2::cache_hint.u32 [%at1 + 12], %lane, %hint;
mad.lo.u32 %to, %lane, 16, %base;
setp.lt.u32 %skip, %lane, 8;
cp.async.ca.shared.global [%to], [%at0], 8, %skip;
cp.async.ca.shared.global.L2::cache_hint [%to + 8], [%at0], 8, %lane, %hint;
cp.async.wait_all;
ld.shared.v2.b64 {%w0, %w1}, [%to];
st.global.v2.b64 [%at2], {%w0, %w1};
"""
    registers = (
        ".reg .b16 %h<4>; .reg .b64 %hint, %w<2>; .reg .b32 %to, %base; .reg .pred %skip;\n"
        ".shared .align 16 .b8 s[512];\nmov.u32 %base, s;"
    )
    total, out = np.zeros(8, np.float16), np.zeros((32, 8), np.float16)
    total[4:6] = 9
    run = Module.load(lanes(3, registers, body, (8, 0, 16)))["k"](1, 32, [x, total, Uninitialised(out)])
    assert run.ok, run.findings
    assert total[:4].tolist() == x.max(0).clip(0).tolist()
    assert total[4:6].tolist() == x[:, :2].min(0).tolist()
    assert total[6:].view(np.uint32)[0] == sum(range(32))
    assert not out[:8, :4].any()
    assert np.array_equal(out[8:, :4], x[8:])
    kept = np.minimum(np.arange(32), 8)[:, None] > np.arange(8)  # bytes
    assert np.array_equal(np.ascontiguousarray(out[:, 4:]).view(np.uint8), x.view(np.uint8) * kept)


DROPS = (
    HEAD
    + """.param .u64 out) {
.reg .b64 %out, %token; .reg .b32 %t, %n; .reg .pred %leads, %late, %over; .shared .align 8 .b64 bar;
ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mul.wide.u32 %token, %t, 4; add.u64 %out, %out, %token;
setp.eq.u32 %leads, %t, 0; setp.ge.u32 %late, %t, 32;
@%leads mbarrier.init.shared.b64 [bar], 65;
@%leads mbarrier.arrive_drop.noComplete.shared.b64 %token, [bar], 1;
bar.sync 0;
@%late bra DROP;
mbarrier.arrive.shared.b64 %token, [bar];
mbarrier.pending_count.b64 %n, %token;
st.global.u32 [%out], %n;
FIRST: mbarrier.test_wait.parity.shared.b64 %over, [bar], 0; @!%over bra FIRST;
mbarrier.arrive.shared.b64 %token, [bar];
SECOND: mbarrier.test_wait.shared.b64 %over, [bar], %token; @!%over bra SECOND;
ret;
DROP: mbarrier.arrive_drop.shared.b64 %token, [bar];
st.global.u32 [%out], 0;
ret;
}
"""
)


def test_who_drops_out_of_a_barrier_is_not_waited_for_again():
    out = np.empty(64, np.uint32)
    run = Module.load(DROPS)["k"](1, 64, [Uninitialised(out)], options=Options(deadline_s=5))
    assert run.ok, [str(f) for f in run.findings]
    assert len(set(out[:32].tolist())) == 32
    assert 32 <= out[:32].max() <= 64
    run = Module.load(DROPS.replace("arrive_drop.shared", "arrive.shared"))["k"](
        1, 64, [out], options=Options(deadline_s=5)
    )
    assert "deadlock" in {f.kind for f in run.findings}
