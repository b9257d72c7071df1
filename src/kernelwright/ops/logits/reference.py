"""References of logits: torch alone, some rows at a time, so that the logits are not stored whole."""

from collections.abc import Sequence

import torch

CHUNK = 1 << 24
"""Most logits that are held at once."""
T = torch.Tensor


def _logits(x: T, weight: T, bias: T | None, softcap: float) -> T:
    logits = x @ weight.T
    if bias is not None:
        logits = logits + bias.to(x.dtype)
    return torch.tanh(logits / softcap) * softcap if softcap else logits


def top(
    x: T, weight: T, bias: T | None = None, count: int = 1, softcap: float = 0.0, sums: bool = True
) -> tuple[T, T, T]:
    """Return the largest logits of each row, their tokens, the first of equals first, and the log-sum-exp of all."""
    wide = torch.promote_types(x.dtype, torch.float32)
    rows = max(1, CHUNK // max(1, weight.shape[0]))
    values, tokens, whole = [], [], []
    for i in range(0, max(1, x.shape[0]), rows):
        logits = _logits(x[i : i + rows].to(wide), weight.to(wide), bias, softcap)
        found = logits.sort(dim=1, descending=True, stable=True)
        values.append(found.values[:, :count])
        tokens.append(found.indices[:, :count])
        whole.append(logits.logsumexp(1) if sums else logits.new_empty(0))
    return torch.cat(values), torch.cat(tokens), torch.cat(whole)


class Gradients:
    """Sums of what gradients of logits give to x, weight and bias, without the logits in memory."""

    def __init__(self, x: T, weight: T, bias: T | None, softcap: float) -> None:
        wide = torch.promote_types(x.dtype, torch.float32)
        self._given, self._softcap = (x, weight, bias), softcap
        self._x, self._weight, self._bias = x.to(wide), weight.to(wide), bias
        self._of_x, self._of_weight = torch.zeros_like(self._x), torch.zeros_like(self._weight)
        self._of_bias = self._weight.new_zeros(len(weight))

    def add_kept(self, slopes: T, values: T, tokens: T) -> None:
        """Add those of `values`, (rows, count) logits of `tokens`."""
        slopes = self._through_cap(slopes, values)
        for slope, token in zip(slopes.unbind(1), tokens.unbind(1), strict=True):
            each = slope[:, None]
            self._of_x = self._of_x + each * self._weight[token]
            self._of_weight.index_add_(0, token, each * self._x)
            self._of_bias.index_add_(0, token, slope)

    def add_sums(self, slopes: T, sums: T) -> None:
        """Add those of `sums`, the (rows,) log-sum-exp of all logits, which are made again, some rows at a time."""
        rows, parts = max(1, CHUNK // max(1, len(self._weight))), []
        for i in range(0, max(1, len(slopes)), rows):
            x = self._x[i : i + rows]
            logits = _logits(x, self._weight, self._bias, self._softcap)
            shares = torch.exp(logits - sums[i : i + rows, None]) * slopes[i : i + rows, None]
            shares = self._through_cap(shares, logits)
            parts.append(shares @ self._weight)
            self._of_weight.addmm_(shares.T, x)
            self._of_bias.add_(shares.sum(0))
        self._of_x = self._of_x + torch.cat(parts)

    def wanted(self, needs: Sequence[bool]) -> list[T | None]:
        """Return the gradients that are needed, as what they are of."""
        found = self._of_x, self._of_weight, self._of_bias
        return [
            g.to(t.dtype) if need and t is not None else None
            for g, t, need in zip(found, self._given, needs, strict=False)
        ]

    def _through_cap(self, slopes: T, logits: T) -> T:
        return slopes * (1 - (logits / self._softcap).square()) if self._softcap else slopes
