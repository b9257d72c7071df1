"""Zero times anything is left out of products, and nothing else is."""

import math

import pytest
import torch
import torch.nn.functional as F

from kernelwright.tasks import SkippedZeros

INF, NAN = math.inf, math.nan


def _odd(*shape):
    """Normal numbers with zeros, NaN and infinities among them."""
    x = torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)
    flat = x.view(-1)
    flat[::2], flat[7::29], flat[13::31], flat[19::37] = 0.0, INF, -INF, NAN
    return x


def _by_hand(a, b):
    """Multiply two matrices term by term, skipping zeros."""
    found = torch.zeros(a.shape[0], b.shape[1], dtype=a.dtype)
    for i, j in torch.cartesian_prod(torch.arange(a.shape[0]), torch.arange(b.shape[1])):
        found[i, j] = sum(
            (x * y for x, y in zip(a[i], b[:, j], strict=True) if x and y), torch.zeros(()).double()
        )
    return found


def test_matrix_products_are_those_by_hand():
    a, b, bias = _odd(9, 6), _odd(6, 4), torch.ones(4, dtype=torch.float64)
    expected = _by_hand(a, b)
    assert bool(expected.isnan().any() and expected.isinf().any() and expected.isfinite().any())
    with SkippedZeros():
        found = (
            a @ b,
            torch.bmm(a[None], b[None])[0],
            torch.addmm(bias, a, b) - 1,
            torch.mv(a, b[:, 0])[:, None],
        )
    for one in found:
        assert torch.allclose(one, expected[:, : one.shape[1]], equal_nan=True)


@pytest.mark.parametrize("bias", [None, torch.ones(3, dtype=torch.float64)])
def test_a_convolution_is_the_product_of_its_windows(bias):
    x, weight = _odd(1, 2, 5, 5), _odd(3, 2, 2, 2)
    columns = x.unfold(2, 2, 1).unfold(3, 2, 1).permute(0, 2, 3, 1, 4, 5).reshape(16, 8)
    expected = _by_hand(weight.flatten(1), columns.t()).view(1, 3, 4, 4) + (0 if bias is None else 1)
    with SkippedZeros():
        assert torch.allclose(F.conv2d(x, weight, bias), expected, equal_nan=True)


def test_attention_leaves_out_what_is_masked():
    q, k, v = torch.randn(3, 1, 2, 6, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    spoilt = v.clone()
    spoilt[:, :, 4] = NAN
    with SkippedZeros(), torch.no_grad():
        found = F.scaled_dot_product_attention(q, k, spoilt, is_causal=True)
    assert torch.allclose(found[:, :, :4], F.scaled_dot_product_attention(q, k, v, is_causal=True)[:, :, :4])
    assert bool(found[:, :, 4:].isnan().all())


def test_what_is_multiplied_element_by_element_is_as_it_was():
    with SkippedZeros():
        assert bool((torch.zeros(2) * torch.tensor([INF, NAN])).isnan().all())


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_far_below_zero_is_no_zero(approximate):
    x = torch.tensor([-20.0, -9.0, -1.0, 0.0, 2.0], dtype=torch.float64)
    plain = F.gelu(x, approximate=approximate)
    assert float(plain[0]) == 0
    with SkippedZeros():
        found = F.gelu(x, approximate=approximate)
    torch.testing.assert_close(found, plain)
    assert float(found[0]) < 0
    assert bool((found[0] * INF).isinf())
