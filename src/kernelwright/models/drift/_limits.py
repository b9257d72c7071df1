"""How far honest evaluations of the native model are from exact, and what is farther than the next one would be."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from scipy.stats import t as t_distribution
from torch import Tensor

DRIFTED, SAME = 0.001, 0.05
"""Chances, over all statistics of a comparison together, that an honest model passes the limit beyond which it has
drifted, and the one below which it is the same. Between the two, nothing is concluded."""
_TWICE = math.sqrt(2)
"""How much larger errors are if each step rounds twice where the native model rounds once, as a step that is split
does; independent errors add up by their squares."""


@dataclass(frozen=True)
class Statistics:
    """What is compared of a model's errors, each in units of the native model's noise at the same position."""

    largest: float
    """The largest error of a position."""
    overall: float
    """Root mean square over positions."""


@dataclass(frozen=True)
class Limits:
    """What honest evaluations reach, and what the next one would hardly reach."""

    noise: Tensor
    """(positions,): root mean square error of honest evaluations."""
    honest: tuple[Statistics, ...]
    """Statistics of each of them, its own error left out of the noise."""
    comparisons: int
    """How many statistics are compared with these limits."""
    least: Tensor
    """(positions,): half a unit in the last place of the outputs, the least noise that is assumed."""

    def limit(self, name: str, chance: float) -> float:
        """Return what a further honest evaluation exceeds with this chance, over all comparisons together.

        A prediction limit of the statistic's logarithm, by Student's t distribution, with every step rounded twice.
        """
        logs: list[float] = [math.log(max(getattr(one, name), 1e-30)) for one in self.honest]
        mean = math.fsum(logs) / len(logs)
        spread = math.sqrt(math.fsum((v - mean) ** 2 for v in logs) / (len(logs) - 1) * (1 + 1 / len(logs)))
        quantile = float(t_distribution.ppf(1 - chance / self.comparisons, len(logs) - 1))
        return _TWICE * math.exp(mean + quantile * spread)

    def excess(self, found: Statistics, chance: float) -> float:
        """Return how many times a limit the farthest statistic is; above 1 it passes."""
        return max(
            found.largest / self.limit("largest", chance), found.overall / self.limit("overall", chance)
        )


def errors_of(found: Sequence[Tensor], exact: Sequence[Tensor]) -> Tensor:
    """Return the root mean square error of each position, (positions,), of all requests one after another.

    Args:
        found: Outputs of each request, (positions, features).
        exact: The same in float64.

    Example:
        >>> errors_of([torch.tensor([[3.0, 4.0]])], [torch.zeros(1, 2).double()])
        tensor([3.5355], dtype=torch.float64)
    """
    rows = [(f.double() - e).pow(2).mean(-1).sqrt() for f, e in zip(found, exact, strict=True)]
    return torch.cat(rows).nan_to_num(math.inf, math.inf)


def limits_of(errors: Tensor, exact: Sequence[Tensor], eps: float, *, comparisons: int) -> Limits:
    """Take limits from the errors of honest evaluations.

    Args:
        errors: (evaluations, positions).
        exact: Outputs in float64; half a unit of them is the least noise of a position.
        eps: Epsilon of the native model's dtype.
        comparisons: How many statistics will be compared.
    """
    least = torch.cat([e.pow(2).mean(-1).sqrt() for e in exact]) * (eps / 4) + torch.finfo(torch.float64).tiny
    total = errors.pow(2).sum(0)
    count = len(errors)
    honest = [
        statistics_of(row, torch.maximum(((total - row.pow(2)) / (count - 1)).clamp(min=0).sqrt(), least))
        for row in errors
    ]
    return Limits(torch.maximum((total / count).sqrt(), least), tuple(honest), comparisons, least)


def statistics_of(errors: Tensor, noise: Tensor) -> Statistics:
    """Return the statistics of errors, (positions,), in units of the noise, (positions,)."""
    ratios = errors / noise
    return Statistics(float(ratios.max()), float(ratios.pow(2).mean().sqrt()))
