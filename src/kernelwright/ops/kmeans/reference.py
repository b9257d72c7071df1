"""References of k-means: torch alone, chunk by chunk, so that no matrix of all distances is stored."""

import torch

CHUNK = 1 << 24
"""Most distances that are held at once."""


def assign(
    x: torch.Tensor, centroids: torch.Tensor, shift: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return each row's nearest centroid, the first of equals, and the squared distance to it.

    What is no number is farthest: a centroid with NaN is chosen by no row that has another, the first by one with NaN.
    """
    wide = torch.promote_types(x.dtype, torch.float32)
    c = centroids.to(wide)
    half = c.square().sum(1) / 2
    labels = torch.empty(len(x), dtype=torch.int64, device=x.device)
    distances = torch.empty(len(x), dtype=wide, device=x.device)
    rows = max(1, CHUNK // max(1, len(c)))
    for first in range(0, len(x), rows):
        part = x[first : first + rows].to(wide)
        part = part if shift is None else part - shift.to(wide)
        scores = (half - part @ c.T).nan_to_num_(nan=torch.inf, posinf=torch.inf, neginf=-torch.inf)
        labels[first : first + rows] = nearest = scores.argmin(1)
        distances[first : first + rows] = (part - c[nearest]).square().sum(1)
    return labels, distances


def step(
    x: torch.Tensor,
    centroids: torch.Tensor,
    shift: torch.Tensor | None = None,
    weights: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return labels, distances, the sums of weighted differences to the nearest centroid, and the sums of weights."""
    return moves(x, centroids, shift, weights, *assign(x, centroids, shift))


def moves(
    x: torch.Tensor,
    centroids: torch.Tensor,
    shift: torch.Tensor | None,
    weights: torch.Tensor | None,
    labels: torch.Tensor,
    distances: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return what `step` does for labels and distances that are known."""
    weights = torch.ones_like(distances) if weights is None else weights.to(distances.dtype)
    c = centroids.to(distances.dtype)
    sums, counts = torch.zeros_like(c), torch.zeros_like(c[:, 0])
    rows = max(1, CHUNK // max(1, c.shape[1]))
    for first in range(0, len(x), rows):
        part = slice(first, first + rows)
        differences = x[part].to(c.dtype) - c[labels[part]] - (0 if shift is None else shift.to(c.dtype))
        sums.index_add_(0, labels[part], differences * weights[part, None])
    counts.index_add_(0, labels, weights)
    return labels, distances, sums, counts
