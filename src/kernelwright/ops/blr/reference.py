"""References of products with structured matrices: the formulas as batched products and permutations, torch alone."""

import torch
from torch import Tensor


def monarch_of(x: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Return x times a Monarch matrix: [rows, K * p] by [K, L * t, p] and [L, S, K * t] to [rows, S * L]."""
    blocks, _, inner = first.shape
    groups, _, _ = second.shape
    between = torch.bmm(x.view(len(x), blocks, inner).transpose(0, 1), first.transpose(1, 2))
    between = between.transpose(0, 1).reshape(
        len(x), first.shape[0] * first.shape[1] // groups, groups
    )  # (rows, K * t, L)
    out = torch.bmm(between.permute(2, 0, 1), second.transpose(1, 2))  # (L, rows, S)
    return out.permute(1, 2, 0).flatten(1)


def blast_of(x: Tensor, right: Tensor, scale: Tensor, left: Tensor) -> Tensor:
    """Return x times a BLAST matrix: [rows, K * p] by [K, p, r], [L, K, r] and [L, S, r] to [rows, L * S]."""
    blocks, inner, _ = right.shape
    between = torch.bmm(x.view(len(x), blocks, inner).transpose(0, 1), right)  # (K, rows, r)
    mixed = torch.einsum("knr,lkr->lnr", between, scale)
    return torch.bmm(mixed, left.transpose(1, 2)).transpose(0, 1).flatten(1)


def _plain(panels: Tensor, columns: int) -> Tensor:
    """Return [groups, inner, columns] of [groups, panels, inner, 32]."""
    return panels.transpose(1, 2).flatten(2)[:, :, :columns]


def monarch(x: Tensor, first: Tensor, second: Tensor, rank: int = 1, each: int = 1) -> Tensor:
    """Return x times a packed Monarch matrix; the first factor's columns lie by group, then by rank."""
    groups = second.shape[0]
    dealt = _plain(first, groups * rank)
    one = dealt.reshape(*dealt.shape[:2], groups, rank).transpose(2, 3).flatten(2)
    return monarch_of(x, one.transpose(1, 2), _plain(second, each).transpose(1, 2))


def blast(x: Tensor, right: Tensor, scale: Tensor, left: Tensor, each: int = 1) -> Tensor:
    """Return x times a packed BLAST matrix."""
    return blast_of(x, _plain(right, scale.shape[2]), scale, _plain(left, each).transpose(1, 2))
