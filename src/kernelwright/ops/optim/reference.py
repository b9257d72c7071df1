"""References of optimizer steps: torch alone, in float32 or wider; parameters are rounded once."""

import torch

T = torch.Tensor


def wide(x: T) -> T:
    """Return x in float32, or as it is where it is wider."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def adamw(
    param: T, grad: T, mean: T, square: T, largest: T | None = None, step: float = 1.0, lr: float = 1e-3,
    beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8, weight_decay: float = 1e-2, maximize: bool = False,
) -> tuple[T, T, T, T]:  # fmt: skip
    """Return a parameter after a step of AdamW, its moments, and the largest second moment (empty without one)."""
    g = -wide(grad) if maximize else wide(grad)
    mean = mean + (1 - beta1) * (g - mean)
    square = beta2 * square + (1 - beta2) * g * g
    if largest is not None:
        largest = torch.maximum(largest, square)
    root = (square if largest is None else largest).sqrt() / (1 - beta2**step) ** 0.5 + eps
    moved = wide(param) * (1 - lr * weight_decay) - lr / (1 - beta1**step) * mean / root
    return moved.to(param.dtype), mean, square, mean.new_empty(0) if largest is None else largest


def lion(
    param: T, grad: T, mean: T, lr: float = 1e-4, beta1: float = 0.9, beta2: float = 0.99, weight_decay: float = 0.0,
    maximize: bool = False,
) -> tuple[T, T]:  # fmt: skip
    """Return a parameter after a step of Lion, and the moment. What is NaN goes nowhere but to NaN."""
    g = -wide(grad) if maximize else wide(grad)
    way = mean + (1 - beta1) * (g - mean)
    signs = torch.where(way.isnan(), way, way.sign())  # torch's own sign of NaN is 0, which hides it
    moved = wide(param) * (1 - lr * weight_decay) - lr * signs
    return moved.to(param.dtype), mean + (1 - beta2) * (g - mean)


def above(x: T, least: float) -> T:
    """Return x where it is more than the least, else the least: for NaN too, as Python's `max` does."""
    return torch.where(x > least, x, least)


def moved_by(
    param: T,
    g: T,
    variance: T,
    step: float,
    lr: float,
    eps1: float,
    eps2: float,
    d: float,
    weight_decay: float,
) -> T:
    """Return a parameter moved against its gradient over the root of an estimate of its variance."""
    p, size = wide(param), max(param.numel(), 1) ** 0.5
    change = g * variance.clamp(min=eps1 * eps1).rsqrt()
    alpha = above(torch.linalg.vector_norm(p) / size, eps2) * min(lr, step**-0.5)
    alpha = alpha / above(torch.linalg.vector_norm(change) / (size * d), 1.0)
    moved: T = p * (1 - lr * weight_decay) - alpha * change
    return moved.to(param.dtype)


def adafactor(
    param: T, grad: T, row: T, column: T, step: float = 1.0, lr: float = 1e-2, beta2_decay: float = -0.8,
    eps1: float = 1.1920928955078125e-07, eps2: float = 1e-3, d: float = 1.0, weight_decay: float = 0.0,
    maximize: bool = False,
) -> tuple[T, T, T]:  # fmt: skip
    """Return a parameter of two or more axes after a step of Adafactor, and its means of squares by row and column."""
    g, new = -wide(grad) if maximize else wide(grad), float(step) ** beta2_decay
    squares = g * g
    row = row + new * (squares.mean(-1, keepdim=True) - row)
    column = column + new * (squares.mean(-2, keepdim=True) - column)
    variance = row / row.mean(-2, keepdim=True).clamp(min=eps1) * column
    return moved_by(param, g, variance, step, lr, eps1, eps2, d, weight_decay), row, column


def adafactor_vector(
    param: T, grad: T, variance: T, step: float = 1.0, lr: float = 1e-2, beta2_decay: float = -0.8,
    eps1: float = 1.1920928955078125e-07, eps2: float = 1e-3, d: float = 1.0, weight_decay: float = 0.0,
    maximize: bool = False,
) -> tuple[T, T]:  # fmt: skip
    """Return a parameter of one axis after a step of Adafactor, and its mean of squares."""
    g = -wide(grad) if maximize else wide(grad)
    variance = variance + float(step) ** beta2_decay * (g * g - variance)
    return moved_by(param, g, variance, step, lr, eps1, eps2, d, weight_decay), variance
