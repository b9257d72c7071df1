"""The judge accepts the kernels of embeddings and refuses mutants of them."""

import pytest
from tests.ops.mutants import verdicts

ONE = {
    "the row after": (
        "weight + ids.data[i] * columns, static_cast",
        "weight + (ids.data[i] + 1) % rows * columns, static_cast",
    )
}
GRADIENT = {
    "padding has a gradient": ("std::replace(ids.begin(), ids.end(), padding, int64_t{-1});", ""),
    "the last entry of a row left out": (
        "summed(at, columns, offsets[r], offsets[r + 1], last, row, factor)",
        "summed(at, columns, offsets[r], offsets[r + 1] - 1, last, row, factor)",
    ),
}
BAG = {
    "a mean over padding too": ("count += ids[e] != padding", "count += 1"),
    "an entry of the next bag": (
        "k, at[b], at[b + 1], end, next, row",
        "k, at[b], std::min(at[b + 1] + 1, end), end, next, row",
    ),
}
SCALED = {"factors of the bag's first": ("return from[e];", "return from[0];")}
UNENDED = {
    "the last bag left out": ("if (!ended) at.push_back(entries);", "if (!ended) at.push_back(at.back());")
}
LARGEST = {"the last of equal rows": ("(x > best[v]) |", "(x >= best[v]) |")}
FACTORS = {
    "padding has a factor": ("if (ids.data[e] == padding) continue;\n          if (e + next", "if (e + next")
}
TABLE = {
    "factors left out": (": scale.data[e];\n      }", ": 1.0f;\n      }"),
    "of the first bag": ("bag[e] = b, factors", "bag[e] = 0, factors"),
    "the largest of one row": (
        "return chosen[i] >= 0 && chosen[i] < rows;",
        "return chosen[i] > 0 && chosen[i] < rows;",
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
        ("embedding_bag", 3, UNENDED),
        ("embedding_scale_backward", 0, FACTORS),
        ("embedding_bag_backward", 0, TABLE),
    ],
)
def test_the_judge_accepts_the_kernel_and_refuses_mutants_of_it(op, at, mutants, tmp_path):
    found = verdicts("embedding", op, mutants, tmp_path, at=at)
    assert found == {"": "accepted"} | dict.fromkeys(mutants, "rejected")
