"""The judge accepts the kernels of attention and refuses mutants of them."""

import pytest
from tests.ops.mutants import verdicts

WHOLE = {
    "sums that are not shrunk to a new largest score": (
        "if (shrunk != 1.0f)\n        for (int64_t e = 0; e < room.columns",
        "if (false)\n        for (int64_t e = 0; e < room.columns",
    ),
    "a cap that is not applied": (
        "return cap == 0.0f ? x : cap * tanh(x);",
        "return cap == 0.0f ? x : cap * x;",
    ),
    "the sink of the first head": ("with_sink(sinks[h] * kLog2E)", "with_sink(sinks[0] * kLog2E)"),
    "distance from the wrong row": (
        "const int64_t at = row.row + scoring.offset;",
        "const int64_t at = row.row;",
    ),
    "keys of another group": ("pack_transposed(k.at(b, g, n)", "pack_transposed(k.at(b, 0, n)"),
    "values of another group": ("const T* from = v.at(b, g, 0);", "const T* from = v.at(b, 0, 0);"),
}
MASKED = {
    "the last key of a range is hidden": (
        "ranges[2 * i + 1] - first, count",
        "ranges[2 * i + 1] - 1 - first, count",
    ),
    "a partial panel is not masked": (
        "if (bits[p] != kEveryKey) x = where_bits",
        "if (bits[p] == 0) x = where_bits",
    ),
    "only the first range": (
        "for (int64_t i = 0; i < many; ++i) {\n    const int64_t begin = std::max<int64_t>(ranges[2 * i] - first",
        "for (int64_t i = 0; i < 1; ++i) {\n    const int64_t begin = std::max<int64_t>(ranges[2 * i] - first",
    ),
    "the ranges of the first head": (
        "data + b * item + h * head + i * many * 2",
        "data + b * item + i * many * 2",
    ),
    "a panel that one row sees is skipped": ("seen[p] |= room.bits[r][p]", "seen[p] = room.bits[r][p]"),
}
DECODE = {
    "a window one longer": ("lengths[b] - window) : 0", "lengths[b] - window - 1) : 0"),
    "pages in order": ("table ? table[b * s.most + order] : b", "table ? order % 2 : b"),
    "keys after a page's end": ("count, i + s.positions - slot)", "count, i + s.positions)"),
    "the first share alone": (
        "s.width(); e += W) {\n        const F part = load(from + e, Full{}) * shrunk;",
        "s.width(); e += W) {\n        const F part = load(from + e, Full{}) * (i ? 0.0f : shrunk);",
    ),
    "tails not masked": ("x = keep(lanes, x, splat(-kInf));", "x = keep(lanes, x, x);"),
}
QUANTIZED = {
    "values not scaled": ("v.scales ? rows.v_scale : nullptr", "nullptr"),
    "the scale of the first head": (
        "rows.k_scale[n] = k.scales[at + n * s.groups]",
        "rows.k_scale[n] = k.scales[at - g + n * s.groups]",
    ),
}  # fmt: skip

GROUPED = {
    "halves exchanged": ("const int right = i * W / 16 * 4;", "const int right = 4 - i * W / 16 * 4;"),
    "the scale of the first group": ("scales + (block >> cache.shift)", "scales"),
    "the scales of the first head": (
        "v.of_columns + (at + n * s.groups)",
        "v.of_columns + (at - g + n * s.groups)",
    ),
    "codes that begin at -7": ("kNibbleZero = 8;", "kNibbleZero = 7;"),
}

MASKED_GRADIENTS = {
    "a partial panel is not masked": (
        "const bool masked = room.every[p] != kEveryKey;",
        "const bool masked = room.any[p] == 0;",
    ),
    "keys of the first group": ("copy_row(k.at(b, g, first + n)", "copy_row(k.at(b, 0, first + n)"),
}
HIDDEN_PAIRS = {
    "what is hidden is multiplied by zero": ("room.strict = has_odd(b, g);", "room.strict = false;"),
    "keys may hold anything": (
        "bool finite = !ranges.data || all_finite(k, b, g, s.keys, s.inner);",
        "bool finite = true;",
    ),
    "queries and gradients may": (
        "finite = finite && all_finite(q, b, h, s.rows, s.inner) && all_finite(gradient, b, h, s.rows, s.columns);",
        "finite = finite && true;",
    ),
}


@pytest.mark.long
def test_what_a_mask_hides_has_no_part_in_gradients_whatever_it_is(tmp_path):
    """One NaN in one argument shows it; values that are special everywhere hide two of these."""
    found = verdicts("attention", "attention_gradients", HIDDEN_PAIRS, tmp_path, at=1, screen=False)
    assert found == {"": "accepted"} | dict.fromkeys(HIDDEN_PAIRS, "rejected")


@pytest.mark.long
@pytest.mark.parametrize(
    ("op", "at", "mutants"),
    [
        ("attention", 0, WHOLE),
        ("attention", 1, MASKED),
        ("attention_decode", 0, DECODE),
        ("attention_decode", 1, QUANTIZED),
        ("attention_decode", 2, GROUPED),
        ("attention_gradients", 1, MASKED_GRADIENTS),
    ],
)
def test_the_judge_accepts_the_kernel_and_refuses_mutants_of_it(op, at, mutants, tmp_path):
    found = verdicts("attention", op, mutants, tmp_path, at=at)
    assert found == {"": "accepted"} | dict.fromkeys(mutants, "rejected")
