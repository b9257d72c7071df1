"""What stands in for `aiter`: 4-bit floats in blocks, their orders, and what references compute with them."""

import pytest
import torch

from kernelwright.errors import TaskError
from kernelwright.suites._aiter import DEFINED, MODULE, defined

ROUNDED = [
    (0.25, 0.0), (0.75, 1.0), (1.25, 1.0), (1.75, 2.0), (2.5, 2.0), (3.5, 4.0), (5.0, 4.0), (5.1, 6.0), (9.0, 6.0),
]  # fmt: skip


@pytest.fixture(scope="module")
def aiter():
    names = {}
    exec(DEFINED, names)
    return type(
        "aiter",
        (),
        {name: staticmethod(value) if callable(value) else value for name, value in names.items()},
    )


def test_numbers_between_two_go_to_the_even_one_and_large_ones_to_the_greatest(aiter):
    given = torch.tensor([[value for value, _ in ROUNDED] + [-value for value, _ in ROUNDED] + [4.0] * 14])
    given[0, 8], given[0, 17] = 6.0, -6.0
    packed, scales = aiter.dynamic_mxfp4_quant(given.bfloat16())
    assert aiter.e8m0_to_f32(scales).item() == 1.0
    wanted = [right for _, right in ROUNDED] + [-right for _, right in ROUNDED]
    wanted[7], wanted[16] = 6.0, -6.0
    assert aiter.mxfp4_to_f32(packed)[0, :18].tolist() == wanted


def test_a_block_s_power_of_two_follows_its_greatest_number_rounded_to_one_digit(aiter):
    given = torch.zeros(4, 32)
    given[:, 3] = torch.tensor([6.0, 6.9, 7.0, 0.0])
    _, scales = aiter.dynamic_mxfp4_quant(given)
    assert scales.view(torch.uint8).flatten().tolist() == [127, 127, 128, 0]


def test_weights_and_scales_come_back_from_the_orders_in_which_kernels_get_them(aiter):
    weight = torch.randint(0, 256, (32, 64), dtype=torch.uint8)
    shuffled = aiter.shuffle_weight(weight)
    assert not torch.equal(shuffled, weight)
    assert torch.equal(aiter._weight_in_order(shuffled), weight)
    assert shuffled.flatten()[:16].tolist() == weight[0, :16].tolist()
    assert shuffled.flatten()[16:32].tolist() == weight[1, :16].tolist()
    scales = torch.randint(0, 255, (40, 4), dtype=torch.uint8)
    order = aiter.e8m0_shuffle(scales)
    assert tuple(order.shape) == (256, 8)
    assert torch.equal(aiter._scales_in_order(order)[:40, :4], scales)
    assert order.flatten()[:2].tolist() == [scales[0, 0], scales[16, 0]]


def test_a_product_is_that_of_what_the_numbers_stand_for(aiter):
    a, b = torch.randn(8, 128).bfloat16(), torch.randn(32, 128).bfloat16()
    (a_q, a_s), (b_q, b_s) = aiter.dynamic_mxfp4_quant(a), aiter.dynamic_mxfp4_quant(b)
    found = aiter.gemm_a4w4(a_q, aiter.shuffle_weight(b_q), aiter.e8m0_shuffle(a_s), aiter.e8m0_shuffle(b_s))
    x, y = aiter._values(a_q, a_s), aiter._values(b_q, b_s)
    assert torch.equal(found, (x @ y.t()).bfloat16())
    assert (x - a.float()).abs().max() < 1.0
    assert (x - a.float()).norm() < 0.2 * a.float().norm()


def test_attention_of_one_query_a_sequence_is_that_of_torch(aiter):
    q, kv = torch.randn(2, 4, 24), torch.randn(12, 1, 1, 24)
    out, ends = torch.empty(2, 4, 16), torch.arange(3) * 6
    aiter.mla_decode_fwd(
        q, kv, out, torch.arange(3), ends, None, None, 1, sm_scale=0.3, q_scale=torch.tensor([2.0])
    )
    entries = kv.view(2, 1, 6, 24)
    wanted = torch.nn.functional.scaled_dot_product_attention(
        2 * q.view(2, 4, 1, 24), entries.expand(2, 4, 6, 24), entries[..., :16].expand(2, 4, 6, 16), scale=0.3
    )
    assert torch.allclose(out, wanted.view(2, 4, 16), atol=1e-5)


def test_what_a_reference_calls_that_is_not_defined_is_named():
    text = '"""It uses aiter.mla."""\nimport aiter\nfrom aiter.fused_moe import (\n    fused_moe,\n)\naiter.gemm_a4w4\n'
    with pytest.raises(TaskError, match="for AMD's GPUs: fused_moe is not defined here"):
        defined({"reference.py": text})
    assert defined({"reference.py": "import torch\n"}) == {"reference.py": "import torch\n"}
    assert defined({"reference.py": text.replace("fused_moe,", "dtypes as d,")}).keys() == {
        "reference.py",
        MODULE,
    }
