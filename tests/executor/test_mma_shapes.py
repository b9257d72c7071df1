"""mma.sync of doubles in larger shapes, and m8n8k4 of halves, whose four products lie across the warp's lanes."""

import numpy as np
import pytest

from kernelwright.executor import Module, NotExecutedError, Uninitialised

from .fragments import LANE, lanes, left, names, right, sums


@pytest.mark.parametrize(("k", "rounding"), [(4, ""), (8, ".rn"), (16, "")])
def test_doubles_are_multiplied_exactly(k, rounding):
    rng = np.random.default_rng(k)
    a, b, c = (rng.integers(-99, 99, s).astype(np.float64) for s in ((16, k), (k, 8), (16, 8)))
    fa, fb, fc = (
        left(a.view(np.uint64), "f64"),
        right(np.ascontiguousarray(b).view(np.uint64), "f64"),
        sums(c),
    )
    counts = {"a": fa.shape[1], "b": fb.shape[1], "c": 4}
    body = "".join(
        f"ld.global.f64 %{x}{n}, [%at{at}+{8 * n}];\n" for at, x in enumerate("abc") for n in range(counts[x])
    )
    body += f"mma.sync.aligned.m16n8k{k}.row.col.f64.f64.f64.f64{rounding} {names('d', 4)}, "
    body += ", ".join(names(x, n) for x, n in counts.items()) + ";\n"
    body += "".join(f"st.global.f64 [%at3+{8 * n}], %d{n};\n" for n in range(4))
    ptx = lanes(4, ".reg .f64 %a<8>, %b<4>, %c<4>, %d<4>;", body, (*(8 * n for n in counts.values()), 32))
    d = np.empty((32, 4))
    run = Module.load(ptx)["k"](1, 32, [fa, fb, fc, Uninitialised(d)])
    assert run.ok, run.findings
    assert np.array_equal(d, sums(a @ b + c))
    assert run.counters.tensor == {"f64": 2 * 16 * 8 * k}


def halves_of(order, kind):
    """Return (product, row, column) of each lane's elements, as the tables of the ISA have them."""
    low, quad, t = LANE < 16, LANE % 16 // 4, LANE % 4
    below = np.where(low, 0, 4)
    i = np.arange(8 if kind in {"c16", "c32"} else 4)[None]
    own, along = (t + below)[:, None] + 0 * i, i + 0 * t[:, None]
    if kind == "c16":
        row, column = own, along
    elif kind == "c32":
        row = (t & 1)[:, None] + (i & 2) + below[:, None]
        column = (i & 4) + (t & 2)[:, None] + (i & 1)
    elif kind == "a":
        row, column = (own, along) if order == "row" else (along + below[:, None], t[:, None] + 0 * i)
    else:
        row, column = (t[:, None] + 0 * i, along + below[:, None]) if order == "row" else (along, own)
    return quad[:, None] + 0 * i, row, column


@pytest.mark.parametrize(
    ("orders", "into", "of"),
    [
        (("row", "col"), "f32", "f32"),
        (("col", "row"), "f16", "f16"),
        (("row", "row"), "f32", "f16"),
        (("col", "col"), "f32", "f32"),
    ],
)
def test_four_small_products_of_halves_are_exact(orders, into, of):
    rng = np.random.default_rng(4)
    a, b, c = (rng.integers(-9, 9, s).astype(float) for s in ((4, 8, 4), (4, 4, 8), (4, 8, 8)))
    fa, fb = (
        x[halves_of(o, k)].astype(np.float16).view(np.uint32)
        for x, o, k in ((a, orders[0], "a"), (b, orders[1], "b"))
    )
    fc = c[halves_of("", "c16" if of == "f16" else "c32")]
    fc = fc.astype(np.float16 if of == "f16" else np.float32).view(np.uint32)
    held = {"f16": 4, "f32": 8}
    body = "".join(
        f"ld.global.b32 %{x}{n}, [%at{at}+{4 * n}];\n"
        for at, (x, count) in enumerate((("a", 2), ("b", 2), ("c", held[of])))
        for n in range(count)
    )
    body += f"mma.sync.aligned.m8n8k4.{'.'.join(orders)}.{into}.f16.f16.{of} {names('d', held[into])}, "
    body += f"{names('a', 2)}, {names('b', 2)}, {names('c', held[of])};\n"
    body += "".join(f"st.global.b32 [%at3+{4 * n}], %d{n};\n" for n in range(held[into]))
    ptx = lanes(4, ".reg .b32 %a<2>, %b<2>, %c<8>, %d<8>;", body, (8, 8, 4 * held[of], 4 * held[into]))
    d = np.zeros((32, held[into]), np.uint32)
    run = Module.load(ptx)["k"](1, 32, [*(np.ascontiguousarray(f) for f in (fa, fb, fc)), Uninitialised(d)])
    assert run.ok, run.findings
    exact = (a @ b + c)[halves_of("", "c16" if into == "f16" else "c32")]
    assert np.array_equal(d.view(np.float16 if into == "f16" else np.float32), exact)
    assert run.counters.tensor == {"f16": 4 * 2 * 8 * 8 * 4}


def test_a_form_that_the_isa_does_not_have_is_refused():
    operands = ", ".join(names(x, n) for x, n in (("c", 4), ("a", 2), ("a", 2), ("d", 8)))
    body = f"mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f32 {operands};"
    ptx = lanes(0, ".reg .b32 %a<2>, %c<4>, %d<8>;", body, ())
    with pytest.raises(NotExecutedError, match=r"m8n8k4.*at line"):
        Module.load(ptx)["k"]
