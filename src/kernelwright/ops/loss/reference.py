"""References of losses: torch alone, chunk by chunk, so that the logits are not stored whole."""

import torch

CHUNK = 1 << 24
"""Most logits that are held at once."""


def losses_of(x, weight, target, bias, ignore_index, label_smoothing, z_loss, softcap):
    """Return the loss of each row of one chunk, in float32 or float64."""
    wide = torch.promote_types(x.dtype, torch.float32)
    logits = x.to(wide) @ weight.to(wide).T
    if bias is not None:
        logits = logits + bias.to(wide)
    if softcap:
        logits = torch.tanh(logits / softcap) * softcap
    whole = logits.logsumexp(1)
    kept = target != ignore_index
    chosen = logits.gather(1, torch.where(kept, target, 0)[:, None])[:, 0]
    losses = whole - (1 - label_smoothing) * chosen
    if label_smoothing:
        losses = losses - label_smoothing * logits.mean(1)
    if z_loss:
        losses = losses + z_loss * whole.square()
    return torch.where(kept, losses, 0)


def linear_cross_entropy(
    x, weight, target, bias=None, ignore_index=-100, label_smoothing=0.0, z_loss=0.0, softcap=0.0
):
    """Return the loss of each row."""
    settings = (ignore_index, label_smoothing, z_loss, softcap)
    rows = max(1, CHUNK // max(1, len(weight)))
    parts = [
        losses_of(x[i : i + rows], weight, target[i : i + rows], bias, *settings)
        for i in range(0, len(x), rows)
    ]
    wide = torch.promote_types(x.dtype, torch.float32)
    return torch.cat(parts) if parts else x.new_empty(0, dtype=wide)


def gradients(
    x, weight, target, bias=None, ignore_index=-100, label_smoothing=0.0, z_loss=0.0, softcap=0.0, scale=None
):
    """Return the losses, and the gradients of the losses' sum, each times its scale, in x, weight and bias."""
    settings = (ignore_index, label_smoothing, z_loss, softcap)
    wide = torch.promote_types(x.dtype, torch.float32)
    given = [t if t is None else t.detach().to(wide) for t in (x, weight, bias)]
    losses = torch.zeros(len(x), dtype=wide, device=x.device)
    found = [torch.zeros_like(weight if t is None else t, dtype=wide) for t in given]
    if bias is None:
        found[2] = losses.new_zeros(0)
    rows = max(1, CHUNK // max(1, len(weight)))
    with torch.enable_grad():
        for first in range(0, len(x), rows):
            part = slice(first, first + rows)
            leaves = [given[0][part].clone(), given[1], *given[2:]]
            leaves = [t if t is None else t.detach().requires_grad_() for t in leaves]
            lost = losses_of(leaves[0], leaves[1], target[part], leaves[2], *settings)
            losses[part] = lost.detach()
            total = (lost if scale is None else lost * scale[part]).sum()
            asked = [t for t in leaves if t is not None]
            dx, *others = torch.autograd.grad(total, asked)
            found[0][part] = dx
            for to, more in zip(found[1:], others, strict=False):
                to.add_(more)
    return losses, *found
