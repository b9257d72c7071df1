"""Where centroids begin: greedy k-means++, random rows, or given ones."""

import math
from collections.abc import Sequence
from typing import Any

import torch

from .._core import refuse
from ._rows import Rows, numbers_of

_SAMPLE_BYTES = 1 << 28
"""Of a file, k-means++ looks at a random sample of so many bytes; of what lies in memory at every row."""


def first_centroids(
    op: str, rows: Rows, clusters: int, init: Any, weights: torch.Tensor | None, generator: torch.Generator
) -> torch.Tensor:
    """Return (clusters, columns) float64 centroids.

    Raises:
        ArgumentError: `init` is neither a known word nor centroids of the right shape.
    """
    if isinstance(init, str):
        if init == "random":
            chosen = _draw(weights, rows.count, clusters, generator)
            return rows[chosen.sort().values].double()
        if init == "k-means++":
            return _plus_plus(*_sample(rows, clusters, weights, generator), clusters, generator)
        refuse(op, "init", repr(init), "'k-means++', 'random' or an array of centroids")
    given = numbers_of(op, "init", init).double().to(rows.device)
    if given.shape != (clusters, rows.columns):
        refuse(op, "init", f"of shape {tuple(given.shape)}", f"({clusters}, {rows.columns})")
    if not bool(given.isfinite().all()):
        refuse(op, "init", "not finite", "finite centroids")
    return given.clone()


def _draw(weights: torch.Tensor | None, count: int, wanted: int, generator: torch.Generator) -> torch.Tensor:
    """Draw different rows; in proportion to their weights if they have some."""
    if weights is None or int((weights > 0).sum()) < wanted:
        return torch.randperm(count, generator=generator)[:wanted]
    keys = -torch.rand(count, generator=generator, dtype=torch.float64).log() / weights.double().cpu()
    return keys.topk(wanted, largest=False).indices


def _sample(
    rows: Rows, clusters: int, weights: torch.Tensor | None, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor | None]:
    parts = list(_first_parts(rows))
    if len(parts) == 1:
        return parts[0], weights
    most = max(8 * clusters, _SAMPLE_BYTES // max(1, rows.columns * 4))
    chosen = torch.randperm(rows.count, generator=generator)[:most].sort().values
    return rows[chosen], None if weights is None else weights[chosen]


def _first_parts(rows: Rows) -> Sequence[torch.Tensor]:
    found = []
    for _, part in rows.parts():
        found.append(part)
        if len(found) == 2:
            break
    return found


def _plus_plus(
    x: torch.Tensor, weights: torch.Tensor | None, clusters: int, generator: torch.Generator
) -> torch.Tensor:
    """Draw rows in proportion to their squared distance from those before; of some, the one that leaves the least.

    Source: Arthur and Vassilvitskii, k-means++: The Advantages of Careful Seeding (2007); greedy with
    2 + log(clusters) trials, as scikit-learn.
    """
    trials = 2 + int(math.log(clusters))
    shift = x[: 1 << 14].double().mean(0).to(x.dtype)
    centred = (x - shift).float()
    squares = centred.square().sum(1)
    weight = torch.ones(len(x), device=x.device) if weights is None else weights
    chosen = [int(_pick(weight, 1, generator))]
    closest = _distances(centred, squares, torch.tensor(chosen, device=x.device))[:, 0]
    for _ in range(1, clusters):
        candidates = _pick(closest * weight, trials, generator)
        distances = torch.minimum(_distances(centred, squares, candidates), closest[:, None])
        best = int((weight @ distances).argmin())
        chosen.append(int(candidates[best]))
        closest = distances[:, best].contiguous()
    return x[torch.tensor(chosen)].double()


def _pick(share: torch.Tensor, count: int, generator: torch.Generator) -> torch.Tensor:
    """Draw rows in proportion to their share, which need not sum to one."""
    sums = share.double().cumsum(0)
    at = torch.rand(count, generator=generator, dtype=torch.float64).to(sums.device) * sums[-1]
    return torch.searchsorted(sums, at, right=True).clamp(max=len(share) - 1)


def _distances(x: torch.Tensor, squares: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    found = torch.addmm(squares[:, None] + squares[candidates], x, x[candidates].T, alpha=-2).clamp_(min=0)
    found[candidates, torch.arange(len(candidates), device=x.device)] = 0
    return found
