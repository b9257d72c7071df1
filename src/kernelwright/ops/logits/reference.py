"""References of logits: torch alone, some rows at a time, so that the logits are not stored whole."""

import torch

CHUNK = 1 << 24
"""Most logits that are held at once."""
T = torch.Tensor


def top(
    x: T, weight: T, bias: T | None = None, count: int = 1, softcap: float = 0.0, sums: bool = True
) -> tuple[T, T, T]:
    """Return the largest logits of each row, their tokens, the first of equals first, and the log-sum-exp of all."""
    wide = torch.promote_types(x.dtype, torch.float32)
    rows = max(1, CHUNK // max(1, weight.shape[0]))
    values, tokens, whole = [], [], []
    for i in range(0, max(1, x.shape[0]), rows):
        logits = x[i : i + rows].to(wide) @ weight.to(wide).T
        if bias is not None:
            logits = logits + bias.to(wide)
        if softcap:
            logits = torch.tanh(logits / softcap) * softcap
        found = logits.sort(dim=1, descending=True, stable=True)
        values.append(found.values[:, :count])
        tokens.append(found.indices[:, :count])
        whole.append(logits.logsumexp(1) if sums else logits.new_empty(0))
    return torch.cat(values), torch.cat(tokens), torch.cat(whole)
