"""The gradient of attention in parts that every device has, for graphs that hold forward and backward."""

import torch

_aten = torch.ops.aten


def attention_backward(
    gradient: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    out: torch.Tensor,
    _logsumexp: torch.Tensor,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the gradients of query, key and value, the probabilities computed once more.

    Args:
        gradient: Gradient of the output, (batch, heads, queries, dim).
        query: (batch, heads, queries, dim).
        key: (batch, heads of keys, keys, dim); each such head serves as many neighbouring heads of queries.
        value: (batch, heads of keys, keys, dim).
        out: The output.
        _logsumexp: Not read.
        dropout_p: Must be 0: dropout draws anew.
        is_causal: Whether each query sees the keys up to its own place alone.
        attn_mask: Added to the scores, or true where a key is seen.
        scale: Factor of the scores; by default one over the root of dim.

    Raises:
        NotImplementedError: dropout is asked for.

    Example:
        >>> q = torch.randn(1, 2, 3, 4, requires_grad=True)
        >>> out, lse = _aten._scaled_dot_product_flash_attention_for_cpu(q, q.detach(), q.detach(), 0.0, True)
        >>> wanted = torch.autograd.grad(out.sum(), q)[0]
        >>> k = q.detach()
        >>> made = attention_backward(torch.ones_like(out), k, k, k, out.detach(), lse, 0.0, True)[0]
        >>> torch.allclose(made, wanted, atol=1e-5)
        True

    Source: Dao, FlashAttention-2, section 3.1.2 (backward pass).
    """
    if dropout_p:
        raise NotImplementedError("attention with dropout draws random numbers")
    if (group := query.shape[1] // key.shape[1]) > 1:
        key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scores = torch.matmul(query, key.transpose(-1, -2)) * factor
    if is_causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=query.device).tril()
        scores = torch.where(seen, scores, -float("inf"))
    elif attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = torch.where(attn_mask, scores, -float("inf"))
    elif attn_mask is not None:
        scores = scores + attn_mask
    weights = torch.softmax(scores, -1)
    of_value = torch.matmul(weights.transpose(-1, -2), gradient)
    of_weights = torch.matmul(gradient, value.transpose(-1, -2))
    of_scores = weights * (of_weights - (gradient * out).sum(-1, keepdim=True)) * factor
    of_key = torch.matmul(of_scores.transpose(-1, -2), query)
    if group > 1:
        of_key, of_value = (x.reshape(len(x), -1, group, *x.shape[2:]).sum(2) for x in (of_key, of_value))
    return torch.matmul(of_scores, key), of_key, of_value


PARTS = {_aten._scaled_dot_product_flash_attention_for_cpu_backward.default: attention_backward}
"""Operators, each with what it is recorded as."""
