"""Load: how evenly tokens are spread over experts."""

import math
from dataclasses import dataclass

import torch

from .._core import checked, refuse, told


@dataclass(frozen=True)
class Load:
    """How many tokens each expert has."""

    tokens: tuple[int, ...]
    """Tokens of each expert."""
    imbalance: float
    """The most that an expert has, over the mean: 1 is even, the number of experts is all on one."""
    entropy: float
    """Entropy of the spread over that of an even one, 0 to 1."""
    idle: int
    """Experts with no tokens."""
    dropped: int
    """Entries that were no expert's."""


@checked
def load(ids: torch.Tensor, experts: int) -> Load:
    """Count the tokens of each expert.

    Args:
        ids: The chosen experts, int64, of any shape; entries outside of 0 to experts - 1 are dropped.
        experts: How many there are.

    Raises:
        ArgumentError: there are no experts.

    Example:
        >>> load(torch.tensor([[0, 1], [0, 2]]), 4)
        Load(tokens=(2, 1, 1, 0), imbalance=2.0, entropy=0.75, idle=1, dropped=0)
    """
    if experts < 1:
        refuse("moe.load", "experts", experts, "1 or more")
    if ids.dtype not in (torch.int64, torch.int32):
        refuse("moe.load", "ids", told(ids), "whole numbers, torch.int64 or torch.int32")
    entries = ids.reshape(-1)
    known = entries[(entries >= 0) & (entries < experts)]
    tokens = tuple(torch.bincount(known, minlength=experts).tolist())
    total = sum(tokens)
    shares = [count / total for count in tokens if count]
    entropy = sum(share * math.log2(1 / share) for share in shares) / (
        math.log2(experts) if experts > 1 else 1.0
    )
    return Load(
        tokens,
        max(tokens) * experts / total if total else 0.0,
        entropy,
        tokens.count(0),
        len(entries) - len(known),
    )
