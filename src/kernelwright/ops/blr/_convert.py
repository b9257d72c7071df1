"""A dense weight → the nearest factors, as far as it is known how to find them, and how far they are from it."""

from dataclasses import dataclass

import torch

from .._core import checked, floats, refuse, told

T = torch.Tensor
_RIDGE = 1e-10
"""Of a least-squares problem, as a share of the mean of its diagonal."""
_LEAST_GAIN = 1e-4
"""Share of the error that a round must take off for another to follow."""


@dataclass(frozen=True)
class Report:
    """How near factors are to the weight that they stand for."""

    relative_error: float
    """Frobenius norm of the difference over that of the weight."""
    worst_block: float
    """The largest of the same of any block."""
    parameters: int
    """Numbers of the factors."""
    dense_parameters: int
    """Numbers of the weight."""
    rounds: int = 0
    """Rounds of alternating least squares."""
    low_rank_error: float | None = None
    """The relative error of one low rank for the whole weight, from which BLAST begins."""


def blocks_of(op: str, weight: T, groups: int, blocks: int) -> T:
    """Cut a weight (outputs, inputs) into (groups, blocks, outputs / groups, inputs / blocks).

    Raises:
        ArgumentError: it is no matrix, or its sizes are no multiples.
    """
    floats(op, "weight", weight)
    if weight.dim() != 2 or not weight.numel() or not bool(weight.isfinite().all()):
        refuse(op, "weight", told(weight), "a matrix of finite numbers")
    check_sizes(op, weight.shape[1], weight.shape[0], groups, blocks)
    parts = weight.detach().double()
    cut: T = parts.unflatten(0, (groups, -1)).unflatten(2, (blocks, -1)).transpose(1, 2)  # type: ignore[no-untyped-call]  # torch does not annotate it
    return cut


def check_sizes(op: str, inputs: int, outputs: int, groups: int, blocks: int, rank: int = 1) -> None:
    """Refuse blocks that do not divide a weight's sizes, and a rank that is none."""
    if rank < 1:
        refuse(op, "rank", rank, "1 or more")
    for name, size, parts in (("blocks", inputs, blocks), ("groups", outputs, groups)):
        if size < 1:
            refuse(op, f"the size that {name} divide,", size, "1 or more")
        if parts < 1 or size % parts:
            refuse(op, name, parts, f"a divisor of {size}")


def _report(dense: T, near: T, parameters: int, **more: float) -> Report:
    off, whole = (dense - near).square().sum((2, 3)), dense.square().sum((2, 3))
    worst = (off / whole.clamp(min=1e-300)).max().sqrt()
    error = (off.sum() / whole.sum().clamp(min=1e-300)).sqrt()
    return Report(float(error), float(worst), parameters, dense.numel(), **more)  # type: ignore[arg-type]


@checked
def monarch_factors(weight: T, groups: int, blocks: int, rank: int) -> tuple[T, T, Report]:
    """Return the nearest Monarch matrix to a weight: a truncated singular value decomposition of each block.

    Source: Dao and others, Monarch: Expressive Structured Matrices (2022), section 3.3. Block (l, k) is that of outputs
    l, l + L, l + 2 L ... and of inputs k * p to (k + 1) * p, of the given rank.

    Args:
        weight: (outputs, inputs), finite.
        groups: L, of outputs.
        blocks: K, of inputs.
        rank: Of each block.

    Returns:
        (blocks, groups * rank, inputs / blocks), (groups, outputs / groups, blocks * rank), and the report.

    Raises:
        ArgumentError: sizes do not divide, or the rank is not one that a block can have.
    """
    op = "blr.monarch_factors"
    blocks_of(op, weight, groups, blocks)
    each, inner = weight.shape[0] // groups, weight.shape[1] // blocks
    if not 1 <= rank <= min(each, inner):
        refuse(op, "rank", rank, f"1 to {min(each, inner)}, the most that a block has")
    dealt = weight.detach().double().unflatten(0, (each, groups)).unflatten(2, (blocks, inner))  # type: ignore[no-untyped-call]  # torch does not annotate it
    dense = dealt.permute(1, 2, 0, 3)
    u, s, v = torch.linalg.svd(dense, full_matrices=False)
    root = s[..., :rank].sqrt()
    left, right = u[..., :rank] * root[..., None, :], v[..., :rank, :] * root[..., None]
    report = _report(dense, left @ right, groups * blocks * rank * (each + inner))
    first = right.permute(1, 2, 0, 3).flatten(
        1, 2
    )  # (K, rank, L, p): the column of rank i and group l is i * L + l
    second = left.permute(0, 2, 1, 3).flatten(2)  # (L, S, K, rank)
    return first.to(weight.dtype).contiguous(), second.to(weight.dtype).contiguous(), report


@checked
def blast_factors(weight: T, groups: int, blocks: int, rank: int, rounds: int = 40) -> tuple[T, T, T, Report]:
    """Return a BLAST matrix near a weight, by alternating least squares from its low-rank approximation.

    Source: Lee and others, BLAST: Block-Level Adaptive Structured Matrices for Efficient Deep Neural Network Inference
    (2024), section 3; each factor is solved for exactly, in place of a preconditioned step.

    Args:
        weight: (outputs, inputs), finite.
        groups: L, of outputs.
        blocks: K, of inputs.
        rank: Columns of the factors, at most the weight's smaller size.
        rounds: The most there are.

    Returns:
        (blocks, inputs / blocks, rank), (groups, blocks, rank), (groups, outputs / groups, rank), and the report, whose
        error is at most the one of a low rank.

    Raises:
        ArgumentError: sizes do not divide, or the rank is more than the weight has.
    """
    op = "blr.blast_factors"
    dense = blocks_of(op, weight, groups, blocks)
    if not 1 <= rank <= min(weight.shape):
        refuse(op, "rank", rank, f"1 to {min(weight.shape)}, the most that the weight has")
    u, s, v = torch.linalg.svd(weight.detach().double(), full_matrices=False)
    root = s[:rank].sqrt()
    left = (u[:, :rank] * root).unflatten(0, (groups, -1))
    right = (v[:rank].T * root).unflatten(0, (blocks, -1))
    scale = left.new_ones(groups, blocks, rank)

    def near() -> T:
        return torch.einsum("lsr,lkr,kpr->lksp", left, scale, right)

    begun = found = _distance(dense, near())
    best, done = (right, scale, left), 0
    while done < rounds:
        done += 1
        left = _solved(dense, right, scale)
        right = _solved(dense.permute(1, 0, 3, 2), left, scale.transpose(0, 1))
        scale = _scaled(dense, left, right)
        now = _distance(dense, near())
        if now < found:
            best = right, scale, left
        if not now < found * (1 - _LEAST_GAIN):
            break
        found = now
    right, scale, left = best
    count = right.numel() + scale.numel() + left.numel()
    report = _report(dense, near(), count, rounds=done, low_rank_error=begun)
    return right.to(weight.dtype), scale.to(weight.dtype), left.to(weight.dtype), report


def _distance(dense: T, near: T) -> float:
    return float((dense - near).norm() / dense.norm().clamp(min=1e-300))


def _solved(dense: T, others: T, scale: T) -> T:
    """Return the factor of each row of blocks that is nearest, the other factors given."""
    scaled = torch.einsum("kpr,lkr->lkpr", others, scale)
    grams = torch.einsum("lkpr,lkpq->lrq", scaled, scaled)
    sides = torch.einsum("lksp,lkpr->lrs", dense, scaled)
    found: T = torch.linalg.solve(_ridged(grams), sides).transpose(1, 2)
    return found


def _scaled(dense: T, left: T, right: T) -> T:
    grams = (left.transpose(1, 2) @ left)[:, None] * (right.transpose(1, 2) @ right)[None]
    sides = torch.einsum("lsr,lksp,kpr->lkr", left, dense, right)
    found: T = torch.linalg.solve(_ridged(grams), sides)
    return found


def _ridged(grams: T) -> T:
    mean = grams.diagonal(dim1=-2, dim2=-1).mean(-1).clamp(min=1e-300)
    return (
        grams
        + torch.eye(grams.shape[-1], dtype=grams.dtype, device=grams.device)
        * (_RIDGE * mean)[..., None, None]
    )
