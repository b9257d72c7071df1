"""References of nearest neighbours: torch alone, some queries at a time, so that all distances are never stored."""

import torch

CHUNK = 1 << 24
"""Most distances that are held at once."""
T = torch.Tensor


def nearest(x: T, points: T, count: int, metric: int) -> tuple[T, T]:
    """Return the `count` nearest points to each row of x, nearest first, of equals the first: values and places.

    The metric is 0 for squared distances, 1 for inner products, 2 for cosines. What is no number is farthest.
    """
    wide = torch.promote_types(x.dtype, torch.float32)
    c = points.to(wide)
    more = min(len(c), count + 4 + count // 8)
    if metric == 2:
        c = torch.nn.functional.normalize(c)
    rows = max(1, CHUNK // max(1, len(c), more * c.shape[1]))
    values, places = [], []
    for i in range(0, max(1, len(x)), rows):
        part = x[i : i + rows].to(wide)
        if metric == 0:
            roots = torch.cdist(part, c, compute_mode="donot_use_mm_for_euclid_dist")
            found = _first(roots, more).sort(dim=1).values
            squares = (part[:, None] - c[found]).square().sum(2)
            chosen = _first(squares, count)
            value, place = squares.gather(1, chosen), found.gather(1, chosen)
        else:
            products = part @ c.T
            place = _first(-products, count)
            value = products.gather(1, place)
            if metric == 2:
                value = value / part.norm(dim=1, keepdim=True).clamp(min=1e-12)
        values.append(value)
        places.append(place)
    return torch.cat(values), torch.cat(places)


def nearness(x: T, points: T, metric: int) -> T:
    """Return how near each row of x is to the point in the same row, in the metric: (rows,)."""
    if metric == 0:
        return (x - points).square().sum(1)
    if metric == 2:
        x, points = (torch.nn.functional.normalize(t) for t in (x, points))
    return (x * points).sum(1)


def _first(key: T, count: int) -> T:
    """Return the places of the least of each row, of equals the first; NaN is as infinity."""
    return (
        torch.where(key.isnan(), torch.full_like(key, torch.inf), key)
        .sort(dim=1, stable=True)
        .indices[:, :count]
    )
