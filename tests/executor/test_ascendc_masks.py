"""Ascend C by masks, repeats and strides, executed: what is right is right, and planted faults are found."""

import re
from pathlib import Path

import pytest
import torch

from .ascendc import kernels, kind_at_mark

pytestmark = pytest.mark.long

SOURCE = Path(__file__).with_name("ascendc_masks.cpp").read_text()
KINDS = {
    "mask_count": "mask", "mask_bits": "mask", "stride_beyond": "out-of-bounds", "partly_over": "overlap",
    "later_repeat": "overlap", "masked_off": "uninitialised", "index_start": "misaligned", "block_start": "misaligned",
    "compared_part": "length", "round_lossless": "round-mode", "round_odd": "round-mode", "cast_in_place": "overlap",
    "extreme_early": "race", "extreme_apart": "not-executed",
}  # fmt: skip
MEETINGS = {"missing": "race", "some": "event", "no_atomic": "race"}
NONE, RINT, FLOOR, CEIL, ROUND, TRUNC, ODD = range(7)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return kernels(SOURCE, "softmax", tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def through(built):
    def run(name, x, dtype, results=None, option=0):
        z = torch.empty(results or x.numel(), dtype=dtype)
        built(name)(x, z, option)
        return z

    return run


@pytest.mark.parametrize(("rows", "n"), [(50, 64), (7, 33), (16, 8)])
def test_a_softmax_by_masks_is_right(built, rows, n):
    x, z = torch.randn(rows, n), torch.empty(rows, n)
    built("softmax")(x, z)
    torch.testing.assert_close(z.double(), torch.softmax(x.double(), 1), rtol=1e-5, atol=1e-7)


def test_strides_and_masks_take_what_they_name(through):
    x = torch.randn(512)
    assert torch.equal(
        through("every_other_block", x, torch.float32, 256), x.view(-1, 2, 8)[:, 0].flatten() + 1
    )
    half = torch.randn(512).half()
    lanes = torch.arange(512) % 128
    names = torch.tensor(
        [(0x9249249249249249 | 0x4924924924924924 << 64) >> i & 1 for i in range(128)]
    ).bool()
    expected = torch.where(names[lanes], half * 2, torch.zeros_like(half))
    assert torch.equal(through("every_third_element", half, torch.float16), expected)
    counted = through("counted", x, torch.float32)
    torch.testing.assert_close(counted[:100], x[:100].exp())
    assert not counted[100:].any()
    torch.testing.assert_close(through("running_sum", x, torch.float32)[:64], x.view(8, 64).sum(0))


def test_reductions_are_right_and_give_an_index(through):
    x = torch.randn(512)
    pairs = through("largest_of_repeats", x, torch.float32)[:16].view(8, 2)
    assert torch.equal(pairs[:, 0], x.view(8, 64).amax(1))
    assert torch.equal(pairs[:, 1].contiguous().view(torch.int32), x.view(8, 64).argmax(1).int())
    least = through("smallest", x, torch.float32)
    assert least[0] == x.min() and least[1:2].view(torch.int32) == x.argmin()
    all_of_them = through("extreme", x, torch.float32)
    assert all_of_them[0] == x.min() and all_of_them[1:2].view(torch.int32) == x.argmin()
    masked = through("largest_of_masked", x, torch.float32)
    assert masked[0] == x[::2].max() and masked[1:2].view(torch.int32) == 2 * x[::2].argmax()
    torch.testing.assert_close(through("sums_of_blocks", x, torch.float32)[:64], x.view(64, 8).sum(1))
    half = torch.randn(512).half()
    torch.testing.assert_close(through("sums_of_pairs", half, torch.float16)[:256], half.view(256, 2).sum(1))
    assert torch.equal(through("chosen", x, torch.float32), torch.where(x > 0.5, x, -torch.ones(512)))


def test_copies_and_gathers_take_what_they_name(through):
    x = torch.randn(512)
    assert torch.equal(
        through("copied", x, torch.float32)[:128],
        x.view(-1, 2, 8)[:, 0].flatten()[:256].view(4, 64)[:, :32].flatten(),
    )
    torch.testing.assert_close(through("multiplied_on", x, torch.float32), x * (x + 1) + x)
    for name, values in {"float": x, "half": x.half()}.items():
        found = through(f"gathered_{name}", values, values.dtype)
        assert torch.equal(found[:200], values[8:208].flip(0))
        assert not found[200:].any()
    assert through("there_and_back", x, torch.float32)[0] == torch.tensor(1.01).bfloat16().float()


@pytest.mark.parametrize(
    ("name", "option", "kind"),
    [("odd", 2, "misaligned"), ("far", 1 << 16, "out-of-bounds"), ("unwritten", 1, "uninitialised")],
)
def test_a_gather_of_what_is_not_there_is_found(through, name, option, kind):
    with pytest.raises(RuntimeError) as error:
        through("gathered_float", torch.randn(512), torch.float32, option=option)
    assert kind_at_mark(SOURCE, f"gather_{name}", error) == kind


def neighbours(x, dtype):
    """Return the largest value of a narrow type that is at most `x`, and the least that is at least `x`."""
    near = x.to(dtype)
    below = torch.where(
        near.double() > x.double(), torch.nextafter(near, torch.tensor(-torch.inf).to(dtype)), near
    )
    above = torch.where(
        near.double() < x.double(), torch.nextafter(near, torch.tensor(torch.inf).to(dtype)), near
    )
    return below, above


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_modes_round_floats_to_neighbours(through, dtype):
    ties = torch.tensor([1 + 2**-11, 1 + 3 * 2**-11, -1 - 2**-11, 1 + 2**-8, 1 + 3 * 2**-8])
    exact = torch.tensor([0.0, 1.0, -2.5, 2**-20, -(2**-24), 3.0, 7.0])
    x = torch.cat([torch.randn(500) * 100, ties, exact])
    below, above = neighbours(x, dtype)
    inner, outer = torch.where(x < 0, above, below), torch.where(x < 0, below, above)
    tie = (x.double() - below.double()) == (above.double() - x.double())
    expected = {
        RINT: x.to(dtype), FLOOR: below, CEIL: above, TRUNC: inner, ROUND: torch.where(tie, outer, x.to(dtype)),
    }  # fmt: skip
    odds = dtype is torch.float16
    if odds:
        odd = inner.view(torch.int16) % 2 != 0
        expected |= {NONE: x.to(dtype), ODD: torch.where(odd, inner, outer)}
    for mode, values in expected.items():
        got = through(
            f"cast_float_{str(dtype)[6:].replace('float16', 'half').replace('bhalf', 'bfloat16')}",
            x,
            dtype,
            option=mode,
        )
        assert torch.equal(got, values), mode


def test_modes_round_to_integers_and_saturate(through):
    x = torch.tensor([0.5, 1.5, 2.5, -0.5, -1.5, 1.4, -1.6, 3e9, -3e9, 7.0] + [0.0] * 502)
    for mode, rounded in {RINT: x.round(), FLOOR: x.floor(), CEIL: x.ceil(), TRUNC: x.trunc(),
                          ROUND: (x.abs() + 0.5).floor() * x.sign()}.items():  # fmt: skip
        expected = rounded.double().clamp(-(2**31), 2**31 - 1).int()
        assert torch.equal(through("cast_float_int32", x, torch.int32, option=mode), expected), mode
        finite = x.clamp(-1e6, 1e6)
        assert torch.equal(
            through("cast_float_float", finite, torch.float32, option=mode), rounded.clamp(-1e6, 1e6)
        )
    half = x.half()
    assert through("cast_half_int16", half, torch.int16, option=RINT)[7] == 2**15 - 1
    wide = torch.randn(512).half()
    assert torch.equal(through("cast_half_float", wide, torch.float32), wide.float())
    assert torch.equal(through("cast_repeats", wide, torch.float32), wide.float())


def test_cores_that_meet_may_read_each_other_and_add_up(built):
    x, shared, total = torch.randn(4 * 64), torch.empty(4 * 64), torch.zeros(64)
    built("meeting_none")(x, shared, total)
    torch.testing.assert_close(total, 2 * x.view(4, 64).sum(0))


@pytest.mark.parametrize("name", MEETINGS)
def test_cores_that_do_not_meet_are_found(built, name):
    x, shared, total = torch.randn(4 * 64), torch.empty(4 * 64), torch.zeros(64)
    with pytest.raises(RuntimeError) as caught:
        built(f"meeting_{name}")(x, shared, total)
    assert kind_at_mark(SOURCE, f"meeting_{name}", caught) == MEETINGS[name]


@pytest.mark.parametrize("name", KINDS)
def test_a_planted_fault_is_found_at_its_line(through, name):
    half = name in ("round_lossless", "cast_in_place")
    x = torch.randn(512).half() if half else torch.randn(512)
    to = {"round_odd": torch.int32, "cast_in_place": torch.float16}.get(name, torch.float32)
    with pytest.raises(RuntimeError) as caught:
        through(f"wrong_{name}", x, to)
    assert kind_at_mark(SOURCE, name, caught) == KINDS[name]


def test_every_fault_of_the_file_is_tried():
    assert {*re.findall(r"^WRONG\((\w+)", SOURCE, re.MULTILINE)} == {*KINDS}
