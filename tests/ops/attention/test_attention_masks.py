"""Masks as specs: ranges, area and classes of tiles against the predicate of every pair."""

import pytest
import torch

from kernelwright.errors import InputError
from kernelwright.ops.attention import masks
from kernelwright.ops.attention.reference import allowed_of

LENGTHS = (7, 20, 1, 0, 23, 13)
TABLE = torch.rand(2, 4, 8, generator=torch.Generator().manual_seed(3)) < 0.5
SPECS = {
    "full": masks.Full(),
    "causal": masks.Causal(),
    "window": masks.SlidingWindow(9),
    "causal window": masks.SlidingWindow(9, causal=True),
    "document": masks.Document(LENGTHS),
    "causal document": masks.Document(LENGTHS, causal=True),
    "global window": masks.GlobalSlidingWindow(5),
    "prefix": masks.PrefixLM(11),
    "prefix document": masks.PrefixLMDocument(LENGTHS, 4),
    "shared question": masks.ShareQuestion(LENGTHS),
    "causal blockwise": masks.CausalBlockwise(LENGTHS),
    "block causal document": masks.BlockCausalDocument(LENGTHS, 8),
    "block sparse": masks.BlockSparse(TABLE, 16, 8),
    "variable block sparse": masks.BlockSparse(TABLE[0], (10, 30, 20, 4), (1, 2, 3, 4, 5, 6, 7, 36)),
    "dense": masks.Dense(torch.rand(64, 64, generator=torch.Generator().manual_seed(4)) < 0.4),
}
SIZE = sum(LENGTHS)
UNEQUAL = ("full", "causal", "window", "causal window", "global window", "prefix")


def seen_by(spec, rows, keys):
    ranges = spec.ranges(rows, keys)
    found = allowed_of(ranges.reshape((1,) * (5 - ranges.dim()) + ranges.shape), keys)[0]
    return found if ranges.dim() == 4 else found[0]


@pytest.mark.parametrize("name", SPECS)
def test_ranges_area_and_classes_are_those_of_the_predicate(name):
    spec = SPECS[name]
    allowed = spec.allowed(SIZE, SIZE)
    assert torch.equal(seen_by(spec, SIZE, SIZE), allowed)
    assert spec.area(SIZE, SIZE) == int(allowed.sum())
    for tile in ((16, 16), (5, 12), (64, 1), (100, 100)):
        classes = spec.classes(SIZE, SIZE, tile)
        for i, rows in enumerate(allowed.split(tile[0], -2)):
            for j, pairs in enumerate(rows.split(tile[1], -1)):
                some, every = pairs.any(-1).any(-1), pairs.all(-1).all(-1)
                assert torch.equal(classes[..., i, j], (some.to(torch.int8) + every.to(torch.int8)))


@pytest.mark.parametrize("name", UNEQUAL)
@pytest.mark.parametrize(("rows", "keys"), [(3, 20), (20, 3), (0, 4), (1, 1)])
def test_the_last_row_stands_at_the_last_key(name, rows, keys):
    spec = SPECS[name]
    allowed = spec.allowed(rows, keys)
    assert torch.equal(seen_by(spec, rows, keys), allowed)
    if rows and keys and name != "prefix":
        assert allowed[-1, -1]
    assert spec.area(rows, keys) == int(allowed.sum())


def test_the_predicates_of_documents_are_as_they_are_written():
    number = torch.repeat_interleave(torch.arange(len(LENGTHS)), torch.tensor(LENGTHS))
    q, k = torch.arange(SIZE)[:, None], torch.arange(SIZE)[None]
    same, begin = number[:, None] == number, torch.tensor([0, 7, 27, 28, 28, 51])[number]
    assert torch.equal(SPECS["document"].allowed(SIZE, SIZE), same)
    assert torch.equal(SPECS["causal document"].allowed(SIZE, SIZE), same & (k <= q))
    assert torch.equal(SPECS["prefix document"].allowed(SIZE, SIZE), same & ((k - begin < 4) | (k <= q)))
    assert torch.equal(SPECS["shared question"].allowed(SIZE, SIZE), (same | (number == 0)) & (k <= q))
    assert torch.equal(
        SPECS["causal blockwise"].allowed(SIZE, SIZE), (same | (number[:, None] == 5)) & (k <= q)
    )
    assert torch.equal(SPECS["block causal document"].allowed(SIZE, SIZE), same & (k < (q // 8 + 1) * 8))


def test_a_table_of_one_length_may_end_within_a_block():
    spec = masks.BlockSparse(torch.eye(3, dtype=torch.bool), 8, 8)
    assert spec.area(20, 20) == 8 * 8 * 2 + 4 * 4


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: masks.SlidingWindow(-1), "window is -1; expected a whole number from 0"),
        (lambda: masks.PrefixLM(1.5), "prefix is 1.5; expected a whole number from 0"),
        (lambda: masks.Document([1, 2]), r"lengths is \[1, 2\]; expected a tuple"),
        (lambda: masks.Document((1, -2)), "lengths is -2; expected a whole number from 0"),
        (lambda: masks.Document((1, 2)).ranges(4, 4), "lengths is of 3 positions; expected as many as there are rows"),
        (lambda: masks.BlockCausalDocument((4,), 0), "block is 0; expected a whole number from 1"),
        (lambda: masks.Dense(torch.ones(2, 2)), r"table is of shape \(2, 2\), torch.float32; expected \(rows, keys\)"),
        (lambda: masks.Dense(TABLE).ranges(3, 3), r"table is of shape \(2, 4, 8\); expected \(..., 3, 3\)"),
        (lambda: masks.BlockSparse(TABLE, 16, (8, 8)), "key_lengths is 2 lengths; expected 8"),
        (lambda: masks.BlockSparse(TABLE, 16, 8).ranges(90, 64), "row_lengths is 64 positions in all; expected 90"),
    ],
)  # fmt: skip
def test_a_wrong_spec_is_named_in_one_sentence(call, says):
    with pytest.raises(InputError, match=says) as error:
        call()
    assert "\n" not in str(error.value)
