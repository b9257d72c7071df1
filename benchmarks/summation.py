"""Orders in which honest kernels add up in float32, and ways to take moments and products with them.

Sums add `(terms, ...)` to `(...)`; moments give the mean and the sum of squared deviations; products multiply
`(batch, rows, terms)` by `(batch, terms, columns)`. `benchmarks.rewritings` puts them together.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from kernelwright.tasks.numerics._orders import (
    Moments,
    Sum,
    one_pass,
    pairwise,
    serial,
    shifted,
    two_pass,
    welford,
)

LANES = 8
"""Float32 lanes of an AVX2 register."""
THREADS = 32
"""Threads of a warp."""
BLOCK = 128
"""Terms that one block adds up."""
K_TILE = 16
"""Terms that a tensor core multiplies and adds at a time."""


def _split(x: Tensor, size: int) -> Tensor:
    """Return (blocks, size, ...), filled up with zeros."""
    missing = -x.shape[0] % size
    return pad(x, [0, 0] * (x.dim() - 1) + [0, missing]).unflatten(0, (-1, size))


def kahan(x: Tensor) -> Tensor:
    """Add one term after another and carry what rounding lost into the next.

    Example:
        >>> bool((kahan(torch.full((4096,), 0.1)) - 409.6).abs() < 1e-4)
        True
    """
    total, lost = torch.zeros_like(x[0]), torch.zeros_like(x[0])
    for term in x:
        term = term - lost
        larger = total + term
        lost, total = ((larger - total) - term).nan_to_num_(0.0, 0.0, 0.0), larger
    return total


def lanes(x: Tensor) -> Tensor:
    """Keep eight running sums, as a vector register does, and add these pairwise.

    Example:
        >>> lanes(torch.arange(9.0))
        tensor(36.)
    """
    return pairwise(serial(_split(x, LANES)))


def tree(x: Tensor) -> Tensor:
    """Keep a running sum in each thread of a warp, and add halves of the warp to each other.

    Example:
        >>> tree(torch.arange(9.0))
        tensor(36.)
    """
    total = serial(_split(x, THREADS))
    while total.shape[0] > 1:
        total = total[: total.shape[0] // 2] + total[total.shape[0] // 2 :]
    return total[0]


def blocked(x: Tensor) -> Tensor:
    """Add up blocks of terms, each one after another, and then the blocks.

    Example:
        >>> blocked(torch.ones(300))
        tensor(300.)
    """
    return serial(serial(_split(x, BLOCK).transpose(0, 1).contiguous()))


def merged(means: Tensor, squares: Tensor, counts: list[int]) -> tuple[Tensor, Tensor]:
    """Merge the moments of parts, one after another.

    Source: Chan, Golub, LeVeque, Updating Formulae and a Pairwise Algorithm (1979), equation 2.1.

    Example:
        >>> merged(torch.tensor([1.0, 3.0]), torch.zeros(2), [1, 1])
        (tensor(2.), tensor(2.))
    """
    mean, square, count = means[0], squares[0], counts[0]
    for m, s, n in zip(means[1:], squares[1:], counts[1:], strict=True):
        off = m - mean
        mean = mean + off * (n / (count + n))
        square = square + s + off * off * (count * n / (count + n))
        count += n
    return mean, square


def welford_lanes(x: Tensor) -> tuple[Tensor, Tensor]:
    """Update moments in each lane of a register, and merge the lanes.

    Example:
        >>> welford_lanes(torch.tensor([1.0, 2.0, 3.0]))
        (tensor(2.), tensor(2.))
    """
    whole = x.shape[0] // LANES * LANES
    parts = [welford(x[:whole].unflatten(0, (-1, LANES)))] if whole else []
    means = [m for p in parts for m in p[0]] + list(x[whole:])
    squares = [s for p in parts for s in p[1]] + [torch.zeros_like(r) for r in x[whole:]]
    counts = [whole // LANES] * (LANES if whole else 0) + [1] * (x.shape[0] - whole)
    return merged(torch.stack(means), torch.stack(squares), counts)


def welford_blocks(x: Tensor) -> tuple[Tensor, Tensor]:
    """Take the moments of blocks in two passes, and merge them.

    Example:
        >>> welford_blocks(torch.tensor([1.0, 2.0, 3.0]))
        (tensor(2.), tensor(2.))
    """
    blocks = x.split(BLOCK)
    found = [two_pass(serial)(b) for b in blocks]
    means, squares = (torch.stack(list(part)) for part in zip(*found, strict=True))
    return merged(means, squares, [b.shape[0] for b in blocks])


def fused(left: Tensor, right: Tensor) -> Tensor:
    """Multiply and add in one rounding, one term after another.

    Example:
        >>> fused(torch.ones(1, 2, 5), torch.ones(1, 5, 3)).shape
        torch.Size([1, 2, 3])
    """
    return _in_tiles(left, right, 1)


def tensor_core(left: Tensor, right: Tensor) -> Tensor:
    """Round once for every tile of terms that a tensor core multiplies and adds.

    Example:
        >>> tensor_core(torch.ones(1, 2, 50), torch.ones(1, 50, 3))[0, 0, 0]
        tensor(50.)
    """
    return _in_tiles(left, right, K_TILE)


def _in_tiles(left: Tensor, right: Tensor, tile: int) -> Tensor:
    a, b = left.double(), right.double()
    total = torch.zeros(*left.shape[:-1], right.shape[-1], dtype=torch.float64)
    for k in range(0, left.shape[-1], tile):
        total = torch.baddbmm(total, a[..., k : k + tile], b[:, k : k + tile]).float().double()
    return total.float()


def split_k(left: Tensor, right: Tensor) -> Tensor:
    """Multiply quarters of the terms on their own, and add the quarters.

    Example:
        >>> split_k(torch.ones(1, 2, 50), torch.ones(1, 50, 3))[0, 0, 0]
        tensor(50.)
    """
    size = max(1, -(-left.shape[-1] // 4))
    parts = zip(left.split(size, -1), right.split(size, 1), strict=True)
    return serial(torch.stack([a @ b for a, b in parts]))


SUMS: dict[str, Sum] = {
    "pairwise": pairwise, "kahan": kahan, "lanes": lanes, "tree": tree, "blocked": blocked,
}  # fmt: skip
"""Orders of summation by name."""
MOMENTS: dict[str, Moments] = {
    "welford": welford, "welford-lanes": welford_lanes, "welford-blocks": welford_blocks, "one-pass": one_pass,
    "shifted": shifted,
}  # fmt: skip
"""Ways to take mean and variance by name."""
