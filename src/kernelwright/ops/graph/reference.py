"""References of graph ops: torch alone, in float32 or wider, rounded once."""

import torch


def edge_softmax(crow: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """Return the softmax of scores over the entries of each row, for each head; entries of no row are zero."""
    row, inside, wide = _rows(crow, scores)
    rows = max(1, len(crow) - 1)
    most = torch.full((rows, wide.shape[1]), -torch.inf, dtype=wide.dtype, device=wide.device)
    index = row[:, None].expand_as(wide)
    most = most.scatter_reduce(0, index, wide.masked_fill(~inside[:, None], -torch.inf), "amax")
    raised = torch.where(inside[:, None], (wide - most[row]).exp(), 0.0)
    total = torch.zeros_like(most).index_add(0, row, raised)
    return torch.where(inside[:, None], raised / total[row], 0.0).to(scores.dtype)


def edge_softmax_gradient(crow: torch.Tensor, weights: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    """Return the gradient of the scores from the weights that came of them and their gradient."""
    row, inside, wide = _rows(crow, weights)
    given = grad.to(wide.dtype)
    product = torch.where(inside[:, None], wide * given, 0.0)
    rows = max(1, len(crow) - 1)
    total = torch.zeros(rows, wide.shape[1], dtype=wide.dtype, device=wide.device).index_add(0, row, product)
    return torch.where(inside[:, None], wide * (given - total[row]), 0.0).to(weights.dtype)


def _rows(crow: torch.Tensor, scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    entries, rows = len(scores), len(crow) - 1
    if not (crow[0] >= 0 and crow[-1] <= entries and (crow[1:] >= crow[:-1]).all()):
        raise ValueError(
            f"graph.edge_softmax: first is no row of offsets; expected them to ascend from 0 to {entries}"
        )
    places = torch.arange(entries, dtype=crow.dtype, device=crow.device)
    row = torch.searchsorted(crow, places, right=True) - 1
    wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
    return row.clamp(0, max(0, rows - 1)), (row >= 0) & (row < rows), wide
