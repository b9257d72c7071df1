"""Do two samplers draw from the same distribution? Numbers that sum up single calls, compared by exact tests.

Of every call a few numbers are taken: moments, the share of zeros, how near the values are to those seen before,
how elements hang together; of groups of calls, how calls hang together. If the candidate's calls are independent
draws from the reference's distribution on the same inputs, each number has the same distribution for both, whatever it
is, and the two-sample Kolmogorov-Smirnov test says so with exact error probabilities. The error is shared out
over all numbers, outputs and workloads (Bonferroni), so that an honest candidate fails once in a million.

Covers: wrong probability or scale, constant or repeated masks, masks shared by rows, columns or at a distance,
cycles of few masks, values that the reference never gives.
Does not cover: differences below the noise of some hundred calls; joint distributions of several outputs; the precision
of values that mix many random ones.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import scipy
import torch

FALSE_POSITIVES = 1e-6
"""Share of honest candidates that may be rejected by all tests of one verification together."""
LEARNT = 48
"""Reference calls that means, spreads and known values come from; the tests use others."""
_SIDE = 64
"""Rows and columns of the window in which elements are looked at one by one."""
_FEW, _MANY = (40, 2), (120, 6)
"""Calls and calls a group: for large outputs, and for small ones."""
_LARGE = 1 << 16
_NEAR_EPS = 64
_TESTS = 10
"""Upper limit of the numbers taken; what the error is shared out over."""


def calls_for(elements: int, *, searched: bool) -> int:
    """Return how many calls are compared: fewer of large outputs, which say more, and of hidden workloads."""
    return (_MANY if searched and elements <= _LARGE else _FEW)[0]


@dataclass(frozen=True)
class SampledOutput:
    """What the reference's first calls show of one output, and the numbers of its later ones."""

    window: tuple[slice, slice]
    """Rows and columns looked at, of the output as a matrix."""
    known: torch.Tensor
    """(calls, elements) float64, values met in the window."""
    mean: torch.Tensor
    """(elements,) of the window."""
    spread: torch.Tensor
    """(elements,) standard deviation; infinite where the output does not vary or is not finite."""
    near: torch.Tensor
    """(elements,) how far apart two values are the same."""
    quartiles: tuple[float, float]
    """Values, away from any that is met, below and above which about a quarter of the elements are."""
    size: float
    """Root mean square of the reference's first calls."""
    slack: float
    """How far apart two numbers are the same, where the reference's do not vary; relative to `size`."""
    group: int
    """Calls a group."""
    expected: dict[str, torch.Tensor]
    """By number: its values over the reference's later calls."""


def learn(draws: Sequence[torch.Tensor], seed: int, cap: float) -> SampledOutput:
    """Learn one output's distribution from `LEARNT + calls_for(...)` independent calls of the reference.

    Args:
        draws: The output of each call, any shape, all on the same inputs.
        seed: Where the window lies.
        cap: Relative distance above which two values are never the same (`Contract.error_cap`).
    """
    first, later = draws[:LEARNT], draws[LEARNT:]
    window = _window(first[0], seed)
    known = torch.stack([_matrix(d)[window].flatten().double() for d in first])
    fine = torch.isfinite(known).all(0)
    known = torch.where(fine, known, 0.0)
    mean, spread = known.mean(0), known.std(0)
    eps = torch.finfo(draws[0].dtype).eps if draws[0].is_floating_point() else 0.0
    scale = known.abs().amax(0) + known.square().mean().sqrt()
    slack = max(min(_NEAR_EPS * eps, cap), 1e-12)
    pooled = _finite(torch.stack([d.flatten()[: 1 << 14] for d in first[:16]])).flatten().sort().values
    size = max(float(pooled.square().mean().sqrt()) if pooled.numel() else 0.0, 1e-300)
    sampled = SampledOutput(
        window=window,
        known=known.sort(0).values,
        mean=mean,
        spread=torch.where(fine & (spread > 1e-12 * scale), spread, torch.inf),
        near=torch.where(fine, slack * scale, torch.inf),
        quartiles=(
            _gap(pooled, pooled.numel() // 4, slack * size),
            _gap(pooled, pooled.numel() * 3 // 4, slack * size),
        ),
        size=size,
        slack=slack,
        group=dict((_FEW, _MANY))[len(later)],
        expected={},
    )
    sampled.expected.update(numbers(sampled, later))
    return sampled


def numbers(sampled: SampledOutput, draws: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
    """Sum up calls: for each number its value in every call or group of calls."""
    whole = [_whole(sampled, d) for d in draws]
    inside = torch.stack([_matrix(d)[sampled.window].flatten().double() for d in draws])
    inside = torch.where(torch.isfinite(sampled.near), inside, 0.0).nan_to_num_(0.0, 0.0, 0.0)
    residual = (inside - sampled.mean) / sampled.spread
    groups = residual[: len(draws) // sampled.group * sampled.group].view(
        -1, sampled.group, residual.shape[1]
    )
    return {
        **{name: torch.tensor([of_call[name] for of_call in whole]) for name in whole[0]},
        "values never seen": _strange(sampled, inside),
        "spread of each element": residual.square().mean(1),
        "dependence between elements": _autocorrelation(residual * sampled.mean.sign()),
        "dependence on the element": groups.mean(1).square().mean(1),
        "dependence between calls": _correlation(groups),
    }


def differences(sampled: SampledOutput, draws: Sequence[torch.Tensor], cases: int) -> list[str]:
    """Name the numbers in which the draws differ from the reference's beyond chance.

    Args:
        sampled: What `learn` found.
        draws: As many calls of the candidate.
        cases: Over how many workloads and outputs the error is shared out.
    """
    found = numbers(sampled, draws)
    limit = FALSE_POSITIVES / (_TESTS * max(1, cases))
    return [
        name
        for name, values in found.items()
        if _probability(values, sampled.expected[name], sampled.slack) < limit
    ]


def _probability(ours: torch.Tensor, theirs: torch.Tensor, slack: float) -> float:
    if float((torch.cat([ours, theirs]) - theirs.median()).abs().max()) <= slack:
        return 1.0
    rounded = [v.to(torch.float32).tolist() for v in (ours, theirs)]
    return float(scipy.stats.ks_2samp(*rounded, method="exact").pvalue)


def _gap(ordered: torch.Tensor, place: int, least: float) -> float:
    """Return the middle of the widest gap near a place among ordered values: rounding moves nothing across it."""
    near = ordered[max(0, place - 32) : place + 32]
    if near.numel() < 2:
        return 0.0
    widest = int(near.diff().argmax())
    return float(near[widest]) + max(float(near[widest + 1] - near[widest]) / 2, least)


def _matrix(draw: torch.Tensor) -> torch.Tensor:
    return draw.reshape(-1, draw.shape[-1]) if draw.dim() > 1 else draw.reshape(1, -1)


def _finite(draw: torch.Tensor) -> torch.Tensor:
    return draw.double().nan_to_num_(0.0, 0.0, 0.0)


def _window(draw: torch.Tensor, seed: int) -> tuple[slice, slice]:
    """Choose about `_SIDE` squared neighbouring elements, wider where there are few rows."""
    rows, columns = _matrix(draw).shape
    height = min(rows, max(_SIDE, _SIDE * _SIDE // max(1, columns)))
    width = min(columns, _SIDE * _SIDE // max(1, height))
    random = torch.Generator().manual_seed(seed % (1 << 62))
    top, left = (
        int(torch.randint(n - m + 1, (), generator=random)) for n, m in ((rows, height), (columns, width))
    )
    return slice(top, top + height), slice(left, left + width)


def _whole(sampled: SampledOutput, draw: torch.Tensor) -> dict[str, float]:
    """Sum up one call over all its elements."""
    flat = draw.flatten() if draw.is_floating_point() else draw.flatten().double()
    total = float(flat.sum(dtype=torch.float64))
    if not math.isfinite(total):
        flat = _finite(flat)
        total = float(flat.sum())
    count, (low, high) = max(1, flat.numel()), sampled.quartiles
    return {
        "mean": total / count / sampled.size,
        "mean square": float(torch.linalg.vector_norm(flat, dtype=torch.float64) / sampled.size) ** 2 / count,
        "share of zeros": int((flat.abs() <= sampled.slack * sampled.size).sum()) / count,
        "lower quarter": int((flat < low).sum()) / count,
        "upper quarter": int((flat > high).sum()) / count,
    }


def _strange(sampled: SampledOutput, inside: torch.Tensor) -> torch.Tensor:
    """Return the share of elements that are near no value that the reference gave there."""
    known, ours = sampled.known.t().contiguous(), inside.t().contiguous()
    after = torch.searchsorted(known, ours).clamp_(max=known.shape[1] - 1)
    before = (after - 1).clamp_(min=0)
    distance = torch.minimum((known.gather(1, after) - ours).abs(), (known.gather(1, before) - ours).abs())
    return (distance > sampled.near[:, None]).double().mean(0)


def _autocorrelation(residual: torch.Tensor) -> torch.Tensor:
    """Return the largest correlation of a call with itself at any distance."""
    count = residual.shape[1]
    if count < 2:
        return torch.zeros(len(residual), dtype=torch.float64)
    power = torch.fft.rfft(residual, 2 * count).abs().square_()
    shifted = torch.fft.irfft(power, 2 * count)
    largest: torch.Tensor = shifted[:, 1:count].abs().amax(1) / shifted[:, 0].clamp_min(1e-300)
    return largest


def _correlation(groups: torch.Tensor) -> torch.Tensor:
    """Return the largest correlation between two calls of each group."""
    length = groups.norm(dim=2, keepdim=True).clamp_min(1e-300)
    unit = groups / length
    largest: torch.Tensor = (unit @ unit.transpose(1, 2)).abs().triu(1).amax((1, 2))
    return largest
