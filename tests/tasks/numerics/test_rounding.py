"""Operators taken apart give what their whole gives, and what their gradients read."""

import pytest
import torch
import torch.nn.functional as F

from kernelwright.tasks import Decomposed


def gradients(query, key, value, **how):
    leaves = [t.detach().clone().requires_grad_() for t in (query, key, value)]
    y = F.scaled_dot_product_attention(*leaves, **how)
    return [y.detach(), *torch.autograd.grad(y.square().sum(), leaves)]


@pytest.mark.parametrize("size", [1.0, 30.0])
@pytest.mark.parametrize("how", [{}, {"is_causal": True}, {"scale": 0.7}, {"masked": True}], ids=str)
def test_attention_taken_apart_has_the_gradients_of_attention(how, size):
    random = torch.Generator().manual_seed(7)
    tensors = [torch.randn(2, 3, 10, 16, generator=random, dtype=torch.float64) for _ in range(3)]
    query, key, value = (tensors[0] * size, tensors[1], tensors[2])
    masks = torch.randn(2, 1, 10, 10, generator=random, dtype=torch.float64)
    given = {"attn_mask": masks} if how.get("masked") else how
    whole = gradients(query, key, value, **given)
    with Decomposed():
        apart = gradients(query, key, value, **given)
    for one, other in zip(whole, apart, strict=True):
        torch.testing.assert_close(other, one, rtol=1e-9, atol=1e-9)
