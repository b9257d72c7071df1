"""Sparse products: mma.sp and wgmma.mma_async.sp against dense ones of the same matrix, exact."""

import numpy as np
import pytest
import torch

from kernelwright.executor import Module, NotExecutedError, Uninitialised

from .fragments import BITS, lanes, left, names, right, sums

DTYPES = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
}
RANGES = {"s8": (-128, 128), "u8": (0, 256), "s4": (-8, 8), "u4": (0, 16)}
INDEX = {0: 0b0100, 1: 0b1110}
"""The metadata of tf32: which of two."""


def numbers(rng, shape, kind):
    """Return whole numbers that a type holds, and their bits."""
    low, high = RANGES.get(kind, (-3, 4))
    x = rng.integers(low, high, shape)
    if kind in RANGES:
        return x, x
    if kind == "tf32":
        return x, x.astype(np.float32).view(np.uint32)
    made = torch.from_numpy(x.astype(np.float32)).to(DTYPES[kind])
    return x, made.view(torch.uint16 if made.itemsize == 2 else torch.uint8).numpy()


def chosen(rng, rows, k, kind, ordered):
    """Return for each row the columns that are kept, and the metadata's groups of four bits in their order."""
    wide = {"tf32": 2, "s4": 8, "u4": 8}.get(kind, 4)
    columns, groups = np.zeros((rows, k // 2), int), np.zeros((rows, k // wide), int)
    for row in range(rows):
        for g in range(k // wide):
            if kind == "tf32":
                which = int(rng.integers(2))
                kept, groups[row, g] = [which], INDEX[which]
            else:
                pair = rng.permutation(4)[:2]
                first, second = sorted(pair) if ordered else pair
                groups[row, g] = first | second << 2
                kept = (
                    [first, second] if wide == 4 else [2 * first, 2 * first + 1, 2 * second, 2 * second + 1]
                )
            columns[row, g * wide // 2 : (g + 1) * wide // 2] = g * wide + np.array(kept)
    return columns, groups


def layout(kind, k, selector):
    """Return (lane, lowest bit) of a row's group of metadata, as CUTLASS's layouts of sm_90 and sm_120 have them.

    `ELayout_64x32`, `ELayout_64x16` for halves and tf32: a lane's bits are eight rows apart; `ELayout_64x64` and
    those of `SM120_SPARSE_16x8x64`, `16x8x128` for bytes and four bits: neighbouring lanes are.
    """
    groups = k // {"tf32": 2, "s4": 8, "u4": 8}.get(kind, 4)
    if BITS.get(kind, 8) > 8:
        one = groups == 4
        return lambda row, g: (
            row % 8 * 4 + (selector if one else 2 * selector + g // 4),
            row // 8 * 16 + g % 4 * 4,
        )
    return lambda row, g: (row % 8 * 4 + row // 8 + 2 * (g // 8 + selector), g % 8 * 4)


def metadata(rng, groups, kind, k, selector):
    """Return each lane's word; lanes that are not asked hold anything."""
    word, place = rng.integers(0, 1 << 32, 32, dtype=np.uint64), layout(kind, k, selector)
    for row, of_row in enumerate(groups):
        for g, bits in enumerate(of_row):
            lane, at = place(row, g)
            word[lane] = int(word[lane]) & ~(15 << at) | int(bits) << at
    return word.astype(np.uint32)


def case(rng, form, selector, ordered, saturates, spoil=None):
    """Return the four inputs of a product, each lane's registers, and what it must give."""
    shape, ka, kb, into = form
    k, top = int(shape.rpartition("k")[2]), (1 << 31) - 1
    columns, groups = chosen(rng, 16, k, ka, ordered)
    if spoil is not None:
        groups[3, 1] = spoil
    a, a_bits = numbers(rng, (16, k // 2), ka)
    b, b_bits = numbers(rng, (k, 8), kb)
    c = rng.choice([-top, 5, top], (16, 8)) if into == "s32" else rng.integers(-50, 50, (16, 8))
    dense = np.zeros((16, k), int)
    np.put_along_axis(dense, columns, a, 1)
    exact = dense @ b + c
    if into == "s32":
        exact = np.clip(exact, -top - 1, top) if saturates else (exact + (1 << 31)) % (1 << 32) - (1 << 31)
    fc = sums(c.astype(REAL[into]))
    if into == "f16":
        fc = np.ascontiguousarray(fc.astype(np.float16))
    words = metadata(rng, groups, ka, k, selector)
    return (left(a_bits, ka), right(b_bits, kb), fc.view(np.uint32), words[:, None]), sums(exact)


def multiplied(form, ways, spoil=None, selector_text=None):
    """Run a product in some ways (selector, ordered or not) in one launch; return the run, what came, what is right."""
    shape, ka, kb, into = form
    rng = np.random.default_rng(len(ka + shape))
    whole = into == "s32"
    cases = [case(rng, form, selector, ordered, whole and ordered, spoil) for selector, ordered in ways]
    held, count = cases[0][0][2].shape[1], cases[0][0][0].shape[1]
    vector = {1: "", 2: ".v2", 4: ".v4"}
    body = ""
    for n, (selector, ordered) in enumerate(ways):
        for letter, regs, at in (("a", count, 0), ("b", count, 1), ("c", held, 2), ("e", 1, 3)):
            body += f"ld.global{vector[regs]}.b32 {names(letter, regs)}, [%at{at}+{n * 128 * regs}];\n"
        body += f"mma.sp{'::ordered_metadata' if ordered else ''}.sync.aligned.{shape}.row.col"
        body += f"{'.satfinite' if whole and ordered else ''}.{into}.{ka}.{kb}.{into} "
        body += ", ".join(
            names(letter, regs) for letter, regs in (("d", held), ("a", count), ("b", count), ("c", held))
        )
        body += f", %e0, {selector_text or selector};\n"
        body += f"st.global{vector[held]}.b32 [%at4+{n * 128 * held}], {names('d', held)};\n"
    registers = ".reg .b32 %a<4>, %b<4>, %c<4>, %d<4>, %e<1>;"
    ptx = lanes(5, registers, body, (4 * count, 4 * count, 4 * held, 4, 4 * held))
    out = np.zeros((len(ways), 32, held), np.uint32)
    given = [np.ascontiguousarray(np.stack(x)) for x in zip(*(inputs for inputs, _ in cases), strict=True)]
    run = Module.load(ptx)["k"](1, 32, [*given, Uninitialised(out)])
    found = out.view(np.float16).astype(float) if into == "f16" else out.view(REAL[into])
    return run, found, np.stack([exact for _, exact in cases])


REAL = {"f32": np.float32, "f16": np.float32, "s32": np.int32}
FORMS = {
    **{(s, k, k, "f32"): n for k in ("f16", "bf16") for s, n in (("m16n8k16", 4), ("m16n8k32", 2))},
    ("m16n8k16", "f16", "f16", "f16"): 4, ("m16n8k32", "f16", "f16", "f16"): 2,
    ("m16n8k8", "tf32", "tf32", "f32"): 4, ("m16n8k16", "tf32", "tf32", "f32"): 2,
    ("m16n8k64", "e4m3", "e5m2", "f32"): 1, ("m16n8k64", "e5m2", "e5m2", "f32"): 1,
    ("m16n8k32", "s8", "u8", "s32"): 2, ("m16n8k64", "u8", "s8", "s32"): 1,
    ("m16n8k64", "s4", "u4", "s32"): 2, ("m16n8k128", "u4", "s4", "s32"): 1,
}  # fmt: skip
"""Shape, types and sums; how many sparsity selectors there are."""


@pytest.mark.parametrize(
    "form",
    [pytest.param(f, marks=pytest.mark.long if i % 3 else ()) for i, f in enumerate(FORMS)],
    ids=".".join,
)
def test_every_form_with_every_selector(form):
    ways = [(selector, ordered) for selector in range(FORMS[form]) for ordered in (True, False)]
    run, found, exact = multiplied(form, ways)
    assert run.ok, run.findings
    assert np.array_equal(found, exact), [
        way for way, f, e in zip(ways, found, exact, strict=True) if (f != e).any()
    ]
    k = int(form[0].rpartition("k")[2])
    assert run.counters.tensor == {form[1]: len(ways) * 16 * 8 * k}


def test_a_selector_that_names_no_lane_is_refused():
    for form, selectors in FORMS.items():
        with pytest.raises(NotExecutedError, match="sparsity selector"):
            multiplied(form, [(0, True)], selector_text=str(selectors))


@pytest.mark.parametrize(
    ("kind", "shape", "spoil", "ordered"),
    [
        ("f16", "m16n8k16", 0b0101, False),
        ("f16", "m16n8k16", 0b0001, True),
        ("tf32", "m16n8k8", 0b0110, False),
    ],
)
def test_metadata_that_name_no_two_elements_are_found(kind, shape, spoil, ordered):
    run, _, _ = multiplied((shape, kind, kind, "f32"), [(1, ordered)], spoil)
    assert [f.kind for f in run.findings] == ["bad-metadata"]
    assert run.findings[0].thread == 3 * 4 + 1
    assert "mma.sp" in run.findings[0].instruction
