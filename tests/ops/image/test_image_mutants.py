"""The judge accepts the kernels of image ops and refuses mutants of them."""

import pytest
from tests.ops.mutants import verdicts

RESIZE = {
    "another cubic": ("antialias ? -0.5 : -0.75", "-0.75"),
    "pixels are points": ("(static_cast<double>(i) + 0.5) * step", "static_cast<double>(i) * step"),
    "windows do not grow": ("grown = antialias ? std::max(step, 1.0) : 1.0", "grown = 1.0"),
    "a row is kept too long": (
        "if (slots[static_cast<size_t>(slot)] == place) continue;",
        "if (slots[static_cast<size_t>(slot)] >= 0) continue;",
    ),
    "the last tap left out": (
        "t < columns.taps; ++t) {\n      const size_t at",
        "t < std::max<int64_t>(1, columns.taps - 1); ++t) {\n      const size_t at",
    ),
}  # fmt: skip
SUPPRESS = {
    "what is dropped drops others": (
        "if ((kept[i] = !boxes.gone[Boxes::place(i)])) boxes",
        "kept[i] = !boxes.gone[Boxes::place(i)], boxes",
    ),
    "classes meet": ("over & (kind == classes[k])", "over"),
    "what both cover counts twice": (
        "load(size.data() + j, Full{}) - shared;",
        "load(size.data() + j, Full{});",
    ),
    "a touch is enough": ("shared > threshold * all", "shared >= threshold * all"),
}


@pytest.mark.long
@pytest.mark.parametrize(("op", "mutants"), [("image_resize", RESIZE), ("image_suppress", SUPPRESS)])
def test_the_judge_accepts_the_kernel_and_refuses_mutants_of_it(op, mutants, tmp_path):
    found = verdicts("image", op, mutants, tmp_path)
    assert found == {"": "accepted"} | dict.fromkeys(mutants, "rejected")
