"""The judge accepts the kernels of embeddings and refuses mutants of them."""

import pytest
from tests.ops.mutants import verdicts

ONE = {
    "the row after": (
        "weight + ids[i] * columns, static_cast",
        "weight + (ids[i] + 1) % rows * columns, static_cast",
    )
}
GRADIENT = {
    "padding has a gradient": ("if (ids[e] == padding) ids[e] = -1;", "if (ids[e] == padding) continue;"),
    "the last entry of a row left out": (
        "summed(at, columns, offsets[r], offsets[r + 1], last, row, factor)",
        "summed(at, columns, offsets[r], offsets[r + 1] - 1, last, row, factor)",
    ),
}
BAG = {
    "a mean over padding too": ("count += ids[e] != padding", "count += 1"),
    "an entry of the next bag": (
        "summed(to, columns, at[b], at[b + 1], at[last]",
        "summed(to, columns, at[b], std::min(at[b + 1] + 1, n), at[last]",
    ),
}
SCALED = {"factors of the bag's first": ("(scale ? scale[e] : share)", "(scale ? scale[0] : share)")}
LARGEST = {"the last of equal rows": ("chosen[k] < 0 || x > best[k]", "chosen[k] < 0 || x >= best[k]")}
FACTORS = {"padding has a factor": ("if (ids[e] == padding) continue;\n          if (e + kw", "if (e + kw")}
TABLE = {
    "factors left out": (": scale.data[e];\n      }", ": 1.0f;\n      }"),
    "of the first bag": ("bag[e] = b, factors", "bag[e] = 0, factors"),
    "the largest of one row": (
        "if (row >= 0 && row < rows) sums[row *",
        "if (row > 0 && row < rows) sums[row *",
    ),
}


@pytest.mark.long
@pytest.mark.parametrize(
    ("op", "at", "mutants"),
    [
        ("embedding", 0, ONE),
        ("embedding_backward", 0, GRADIENT),
        ("embedding_bag", 0, BAG),
        ("embedding_bag", 1, SCALED),
        ("embedding_bag", 2, LARGEST),
        ("embedding_scale_backward", 0, FACTORS),
        ("embedding_bag_backward", 0, TABLE),
    ],
)
def test_the_judge_accepts_the_kernel_and_refuses_mutants_of_it(op, at, mutants, tmp_path):
    found = verdicts("embedding", op, mutants, tmp_path, at=at)
    assert found == {"": "accepted"} | dict.fromkeys(mutants, "rejected")
