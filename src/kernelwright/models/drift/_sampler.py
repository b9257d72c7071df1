"""Whether two samplers draw from one distribution."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from scipy.stats import chi2
from torch import Tensor

from ...errors import InputError
from ...records import Record
from ._decoder import Sampler

_FEWEST = 10
"""Draws of a token, by both together, below which it is counted with other rare ones: the test's limit distribution
needs about five expected on either side."""


class SamplerDrift(Record):
    """What two samplers drew from the same logits."""

    contexts: int
    """Rows of logits."""
    draws: int
    """Draws of each sampler from each row."""
    p_value: float
    """Chance of a difference as large between equal samplers, corrected for the number of rows (Bonferroni)."""
    context: int
    """The row where they differ most."""
    token: int
    """The token of that row whose frequency differs most."""
    native: float
    """Its frequency by the native sampler."""
    changed: float
    """Its frequency by the changed one."""


def compare_samplers(
    native: Sampler, changed: Sampler, logits: Tensor, *, draws: int = 20_000, seed: int = 0
) -> SamplerDrift:
    """Draw from the same logits with both samplers, independently, and compare frequencies by a G test.

    Args:
        native: The native sampler.
        changed: The changed one.
        logits: (contexts, vocabulary); both draw many times from each row.
        draws: Draws of each from each row.
        seed: Seed of the native's generator; the other one's follows.

    Raises:
        InputError: a sampler returns no row of tokens.
    """
    worst: list[tuple[float, int, int, float, float]] = []
    for context, row in enumerate(logits):
        many = row.expand(draws, -1)
        counts = np.stack([
            _counts(sampler, many, torch.Generator().manual_seed(seed * 7_919 + 2 * context + side))
            for side, sampler in enumerate((native, changed))
        ])  # fmt: skip
        token = int(np.abs(counts[0] - counts[1]).argmax())
        worst.append((_g_test(counts), context, token, counts[0][token] / draws, counts[1][token] / draws))
    p_value, context, token, by_native, by_changed = min(worst)
    return SamplerDrift(
        contexts=len(logits), draws=draws, p_value=min(p_value * len(logits), 1.0), context=context, token=token,
        native=by_native, changed=by_changed,
    )  # fmt: skip


def _counts(sampler: Sampler, many: Tensor, generator: torch.Generator) -> np.ndarray:
    tokens = sampler(many, generator)
    if not isinstance(tokens, Tensor) or tokens.shape != many.shape[:1]:
        got = tuple(tokens.shape) if isinstance(tokens, Tensor) else type(tokens).__name__
        raise InputError(
            f"a sampler returned {got} for logits {tuple(many.shape)}; expected tokens, one for each row"
        )
    counted: np.ndarray = torch.bincount(tokens.cpu(), minlength=many.shape[1]).double().numpy()
    return counted


def _g_test(counts: np.ndarray) -> float:
    """Return the p-value of two rows of counts with as many draws each; rare tokens are one."""
    total = counts.sum(0)
    rare = counts[:, total < _FEWEST].sum(1, keepdims=True)
    table = np.concatenate([counts[:, total >= _FEWEST], rare], 1)
    table = table[:, table.sum(0) > 0]
    if table.shape[1] < 2:
        return 1.0
    expected = table.sum(0) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(table > 0, table * np.log(table / expected), 0.0)
    return float(chi2.sf(2 * terms.sum(), table.shape[1] - 1))


def contexts_of(logits: Sequence[Tensor], count: int) -> Tensor:
    """Return evenly spaced rows of the logits of all requests, (contexts, vocabulary), in float32."""
    rows = torch.cat([row.float() for row in logits])
    places = torch.linspace(0, len(rows) - 1, min(count, len(rows))).round().long()
    return rows[places]


def nucleus(logits: Tensor, share: float, temperature: float) -> Tensor:
    """Return probabilities of the fewest tokens that hold a share of them, (batch, vocabulary).

    Example:
        >>> nucleus(torch.tensor([[2.0, 1.0, -9.0]]), 0.5, 1.0)
        tensor([[1., 0., 0.]])
    """
    values, order = (logits / temperature).softmax(-1).sort(-1, descending=True)
    kept = values.cumsum(-1) - values < share
    values = values * kept
    return torch.zeros_like(values).scatter(-1, order, values / values.sum(-1, keepdim=True))


def top_p(share: float, temperature: float = 1.0) -> Sampler:
    """Return a sampler of the fewest tokens that hold a share of the probability.

    Example:
        >>> top_p(0.5)(torch.tensor([[2.0, 1.0, -9.0]]), torch.Generator())
        tensor([0])
    """
    if not (0 < share <= 1 and math.isfinite(temperature) and temperature > 0):
        raise InputError(
            f"top-p is {share!r} at temperature {temperature!r}; expected a share in (0, 1] and one above 0"
        )

    def sample(logits: Tensor, generator: torch.Generator) -> Tensor:
        return torch.multinomial(nucleus(logits, share, temperature), 1, generator=generator)[:, 0]

    return sample
