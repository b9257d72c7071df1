"""The judge accepts the kernels of optimizer steps and refuses mutants of them."""

import pytest
from tests.ops.mutants import verdicts

ADAM = {
    "no correction of the root": (
        "fma(sqrt_by_products(square), root, splat(eps))",
        "fma(sqrt_by_products(square), 1.0f, splat(eps))",
    ),
    "decay left out": (
        "store(at.p_to + i, fma(p, decay, -step), lanes);\n      store(at.v_to",
        "store(at.p_to + i, p - step, lanes);\n      store(at.v_to",
    ),
    "always down": ("f(eps), maximize ? -1.0f : 1.0f}", "f(eps), 1.0f}"),
    "the last chunk is short": ("std::min(sizes[all[c].tensor], all[c].begin + kChunk)",
                                "std::min(sizes[all[c].tensor] & ~7, all[c].begin + kChunk)"),
}  # fmt: skip
TOP = {
    "the largest moment is not kept": (
        "store(at.top_to + i, square, lanes)",
        "store(at.top_to + i, kept, lanes)",
    )
}
LION = {"the moment is mixed with the other rate": ("fma(apart, new2, m)", "fma(apart, new1, m)")}
FACTOR = {
    "steps are not shrunk": ("return much > 1 ? alpha / much : alpha;", "return alpha;"),
    "the first row's squares for all": ("over = fma(x * x, inverse[r], over)", "over = fma(x * x, inverse[0], over)"),
    "the size of a parameter left out": ("(mean > eps2 ? mean : eps2)", "eps2"),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(
    ("op", "at", "mutants"),
    [
        ("optim_adamw", 0, ADAM),
        ("optim_adamw", 1, TOP),
        ("optim_lion", 0, LION),
        ("optim_adafactor", 0, FACTOR),
    ],
)
def test_the_judge_accepts_the_kernel_and_refuses_mutants_of_it(op, at, mutants, tmp_path):
    found = verdicts("optim", op, mutants, tmp_path, at=at)
    assert found == {"": "accepted"} | dict.fromkeys(mutants, "rejected")
