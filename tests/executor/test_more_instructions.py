"""Comparisons of pairs of halves, atomics of several elements, mma of fp8, setmaxnreg: against exact arithmetic."""

import numpy as np
import pytest
import torch

from kernelwright.executor import Module, Uninitialised

from .fragments import lanes

HOWS = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal}


@pytest.mark.parametrize("kind", ["f16x2", pytest.param("bf16x2", marks=pytest.mark.long)])
def test_pairs_of_halves_are_compared_each_by_itself(kind):
    dtype = torch.float16 if kind == "f16x2" else torch.bfloat16
    values = torch.randint(-2, 3, (2, 64)).to(dtype)
    values[0, :8], values[1, 4:12] = torch.nan, torch.nan
    values[0, 20], values[1, 20] = 0.0, -0.0
    body = "ld.global.b32 %a, [%at0];\nld.global.b32 %b, [%at1];\nsetp.ne.u32 %odd, %lane, 5;\n"
    parts = [*HOWS, "ne", "ltu", "neu", "num"]
    for n, how in enumerate(parts):
        body += f"set.{how}.{kind}.{kind} %r, %a, %b;\nst.global.b32 [%at2 + {128 * n}], %r;\n"
        body += f"setp.{how}.and.{kind} %p|%q, %a, %b, %odd;\nselp.u32 %r, 1, 0, %p;\n@%q or.b32 %r, %r, 2;\n"
        body += f"st.global.b32 [%at2 + {128 * (n + len(parts))}], %r;\n"
    run_into = np.zeros((2 * len(parts), 32), np.uint32)
    ptx = lanes(3, ".reg .b32 %a, %b, %r;\n.reg .pred %p, %q, %odd;", body, (4, 4, 4))
    given = [v.view(torch.int16).numpy().view(np.uint32) for v in values]
    run = Module.load(ptx)["k"](1, 32, [*given, Uninitialised(run_into)])
    assert run.ok, run.findings
    a, b = values.double().numpy()
    nan = np.isnan(a) | np.isnan(b)
    expected = {**{h: f(a, b) for h, f in HOWS.items()}, "ne": (a != b) & ~nan, "ltu": (a < b) | nan,
                "neu": (a != b) | nan, "num": ~nan}  # fmt: skip
    one = 0x3C00 if kind == "f16x2" else 0x3F80
    for n, how in enumerate(parts):
        both = expected[how].reshape(32, 2)
        assert run_into[n].tolist() == (both[:, 0] * one + both[:, 1] * (one << 16)).tolist(), how
        joined = both & (np.arange(32) != 5)[:, None]
        assert run_into[n + len(parts)].tolist() == (joined[:, 0] + 2 * joined[:, 1]).tolist(), how


def test_atomics_of_several_elements_add_each():
    body = (
        "ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%at0];\nld.param.u64 %at1, [p1];\n"
        "red.global.add.v4.f32 [%at1], {%f0, %f1, %f2, %f3};\n"
        "atom.global.add.v2.f32 {%g0, %g1}, [%at1 + 16], {%f0, %f1};\n"
        "st.global.v2.f32 [%at2], {%g0, %g1};\n"
        "mov.b32 %h, 0x3c003800;\nred.global.add.noftz.v2.f16x2 [%at1 + 32], {%h, %h};\n"
    )
    ptx = lanes(3, ".reg .f32 %f<4>, %g<2>;\n.reg .b32 %h;", body, (16, 0, 8))
    x, total, old = (
        np.arange(128, dtype=np.float32).reshape(32, 4),
        np.zeros(10, np.float32),
        np.empty((32, 2), np.float32),
    )
    run = Module.load(ptx)["k"](1, 32, [x, total, Uninitialised(old)])
    assert run.ok, run.findings
    assert total[:4].tolist() == x.sum(0).tolist()
    assert total[4:6].tolist() == x[:, :2].sum(0).tolist()
    for column in (0, 1):  # what was there before: the sums of the lanes that came earlier, in some order
        order = np.argsort(old[:, column], kind="stable")
        assert np.array_equal(np.sort(old[:, column]), np.cumsum(np.r_[0, x[order, column]])[:32])
    assert total[8:].view(np.float16).tolist() == [16.0, 32.0, 16.0, 32.0]


@pytest.mark.parametrize(("ka", "kb", "k"), [
    ("e4m3", "e4m3", 16), ("e4m3", "e5m2", 32),
    *(pytest.param(*given, marks=pytest.mark.long) for given in (
        ("e4m3", "e4m3", 32), ("e5m2", "e5m2", 32), ("e5m2", "e5m2", 16), ("e4m3", "e5m2", 16),
    )),
])  # fmt: skip
def test_matrices_of_fp8_are_multiplied_exactly(ka, kb, k):
    kinds = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
    torch.manual_seed(k)
    a = torch.randint(-8, 9, (16, k)).float().to(kinds[ka])
    b = torch.randint(-8, 9, (k, 8)).float().to(kinds[kb])
    c = torch.randint(-9, 9, (16, 8)).float()
    lane = np.arange(32)
    group, within = lane // 4, lane % 4
    at = a.view(torch.uint8).numpy()
    bt = b.view(torch.uint8).numpy()
    bytes_of = np.arange(4)
    fa = np.stack([at[group + 8 * (r % 2), :][lane[:, None], 4 * within[:, None] + bytes_of + 16 * (r // 2)]
                   for r in range(k // 8)], 1)  # fmt: skip
    fb = np.stack([bt[4 * within[:, None] + bytes_of + 16 * r, group[:, None]] for r in range(k // 16)], 1)
    fc = np.stack([c.numpy()[group + 8 * (r // 2), 2 * within + r % 2] for r in range(4)], 1)
    na, nb = k // 8, k // 16
    names = lambda p, n: "{" + ", ".join(f"%{p}{i}" for i in range(n)) + "}"  # noqa: E731
    vector = {1: "", 2: ".v2", 4: ".v4"}
    load = lambda p, n, at: (  # noqa: E731
        f"ld.global{vector[n]}.b32 {names(p, n) if n > 1 else f'%{p}0'}, [%at{at}];\n"
    )
    body = (
        load("a", na, 0) + load("b", nb, 1) + load("c", 4, 2)
        + f"mma.sync.aligned.m16n8k{k}.row.col.f32.{ka}.{kb}.f32 "
        + f"{names('d', 4)}, {names('a', na)}, {names('b', nb)}, {names('c', 4)};\n"
        + "setmaxnreg.inc.sync.aligned.u32 240;\n" + f"st.global.v4.b32 [%at3], {names('d', 4)};\n"
    )  # fmt: skip
    ptx = lanes(4, ".reg .b32 %a<4>, %b<2>, %c<4>, %d<4>;", body, (4 * na, 4 * nb, 16, 16))
    d = np.empty((32, 4), np.float32)
    run = Module.load(ptx)["k"](1, 32, [np.ascontiguousarray(f) for f in (fa, fb, fc)] + [Uninitialised(d)])
    assert run.ok, run.findings
    exact = (a.double() @ b.double() + c.double()).numpy()
    for r in range(4):
        assert d[:, r].tolist() == exact[group + 8 * (r // 2), 2 * within + r % 2].tolist()


@pytest.mark.parametrize(
    ("shape", "kind"),
    [((16, 8, 64), "s4"), ((8, 8, 32), "u4"), ((16, 8, 256), "xor"), ((16, 8, 128), "and")],
)
def test_matrices_of_four_bits_and_of_one_are_multiplied_exactly(shape, kind):
    m, n, k = shape
    rng = np.random.default_rng(k)
    low, high = {"s4": (-8, 8), "u4": (0, 16)}.get(kind, (0, 2))
    a, b, c = rng.integers(low, high, (m, k)), rng.integers(low, high, (k, n)), rng.integers(-9, 9, (m, n))
    bits = 4 if kind in {"s4", "u4"} else 1
    each, lane = 32 // bits, np.arange(32)
    group, within, halves = lane // 4, lane % 4, m // 8

    def word(values):
        """Pack the last axis into words, its first element lowest."""
        return ((values & ((1 << bits) - 1)) << (bits * np.arange(each))).sum(-1).astype(np.uint32)

    def place(r):
        return each * within[:, None] + np.arange(each) + 4 * each * r

    na, nb = halves * k // (4 * each), k // (4 * each)
    fa = np.stack([word(a[(group + 8 * (r % halves))[:, None], place(r // halves)]) for r in range(na)], 1)
    fb = np.stack([word(b[place(r), group[:, None]]) for r in range(nb)], 1)
    fc = np.stack([c[group + 8 * (r // 2), 2 * within + r % 2] for r in range(2 * halves)], 1).astype(
        np.int32
    )
    names = lambda p, n: "{" + ", ".join(f"%{p}{i}" for i in range(n)) + "}"  # noqa: E731
    vector = {1: "", 2: ".v2", 4: ".v4"}
    body = "".join(
        f"ld.global{vector[n]}.b32 {names(p, n) if n > 1 else f'%{p}0'}, [%at{at}];\n"
        for p, n, at in (("a", na, 0), ("b", nb, 1), ("c", 2 * halves, 2))
    )
    types = f"s32.{kind}.{kind}.s32" if bits == 4 else f"s32.b1.b1.s32.{kind}.popc"
    body += f"mma.sync.aligned.m{m}n{n}k{k}.row.col.{types} {names('d', 2 * halves)}, {names('a', na)}, "
    body += f"{names('b', nb)}, {names('c', 2 * halves)};\n"
    body += f"st.global{vector[2 * halves]}.b32 [%at3], {names('d', 2 * halves)};\n"
    registers = ".reg .b32 %a<4>, %b<4>, %c<4>, %d<4>;"
    ptx = lanes(4, registers, body, (4 * na, 4 * nb, 8 * halves, 8 * halves))
    d = np.empty((32, 2 * halves), np.int32)
    run = Module.load(ptx)["k"](1, 32, [*(np.ascontiguousarray(f) for f in (fa, fb, fc)), Uninitialised(d)])
    assert run.ok, run.findings
    exact = (a[:, :, None] ^ b[None]).sum(1) + c if kind == "xor" else a @ b + c
    for r in range(2 * halves):
        assert d[:, r].tolist() == exact[group + 8 * (r // 2), 2 * within + r % 2].tolist()
