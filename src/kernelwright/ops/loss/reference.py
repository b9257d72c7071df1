"""References of losses: torch alone, chunk by chunk, so that the logits are not stored whole."""

import torch

CHUNK = 1 << 24
"""Most logits that are held at once."""


def losses_of(
    x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor, bias: torch.Tensor | None, ignore_index: int,
    label_smoothing: float, z_loss: float, softcap: float,
) -> torch.Tensor:  # fmt: skip
    """Return the loss of each row of one chunk, in float32 or float64."""
    wide = torch.promote_types(x.dtype, torch.float32)
    logits = x.to(wide) @ weight.to(wide).T
    if bias is not None:
        logits = logits + bias.to(wide)
    kept = target != ignore_index
    logits = torch.where(kept[:, None], logits, 0)  # what is ignored has no gradient, be it NaN
    if softcap:
        logits = torch.tanh(logits / softcap) * softcap
    # Of logits less the largest: a log-sum-exp would be rounded to that one's last bit.
    surprise = -torch.log_softmax(logits, 1)
    chosen = surprise.gather(1, torch.where(kept, target, 0)[:, None])[:, 0]
    losses = (1 - label_smoothing) * chosen
    if label_smoothing:
        losses = losses + label_smoothing * surprise.mean(1)
    if z_loss:
        peak = logits.detach().amax(1, keepdim=True).clamp(-1e30, 1e30)
        losses = losses + z_loss * (peak[:, 0] + (logits - peak).logsumexp(1)).square()
    return torch.where(kept, losses, 0)


def linear_cross_entropy(
    x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor, bias: torch.Tensor | None = None,
    ignore_index: int = -100, label_smoothing: float = 0.0, z_loss: float = 0.0, softcap: float = 0.0,
) -> torch.Tensor:  # fmt: skip
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
    x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor, bias: torch.Tensor | None, ignore_index: int,
    label_smoothing: float, z_loss: float, softcap: float, scale: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """Return the losses, and the gradients of the losses' sum, each times its scale, in x, weight and bias.

    Gradients in x and weight are of their dtype, those in bias of float32 or float64.
    """
    narrow = x.dtype
    settings = (ignore_index, label_smoothing, z_loss, softcap)
    wide = torch.promote_types(x.dtype, torch.float32)
    x, weight = x.detach().to(wide), weight.detach().to(wide)
    bias = None if bias is None else bias.detach().to(wide)
    losses, dx, dw = x.new_zeros(len(x)), torch.zeros_like(x), torch.zeros_like(weight)
    db = x.new_zeros(0 if bias is None else len(bias))
    rows = max(1, CHUNK // max(1, len(weight)))
    for first in range(0, len(x), rows):
        part = slice(first, first + rows)
        own = target[part]
        leaves = (x[part], weight) if bias is None else (x[part], weight, bias)

        def losses_here(
            x: torch.Tensor, weight: torch.Tensor, *biases: torch.Tensor, own: torch.Tensor = own
        ) -> torch.Tensor:
            return losses_of(x, weight, own, biases[0] if biases else None, *settings)

        there = torch.func.vjp(losses_here, *leaves)
        losses[part], found = there[0], there[1](scale[part].to(wide))
        dx[part] = found[0]
        dw += found[1]
        if bias is not None:
            db += found[2]
    return losses, dx.to(narrow), dw.to(narrow), db
