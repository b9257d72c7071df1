"""What a change does to logits, to ranks, to text and to the likelihood of text."""

from collections.abc import Sequence
from typing import Any

import torch
from scipy.stats import rankdata
from torch import Tensor

from ...records import Record
from ._decoder import Deployment, Sampler
from ._paired import Paired, paired
from ._sampler import top_p
from ._serve import Choose, Requests, generate


class Agreement(Record):
    """How near two models' next-token distributions are, over all positions of all requests."""

    kl: float
    """Mean Kullback-Leibler divergence of the changed model from the native one, nats."""
    native_kl: float
    """The same of the native model at its dtype from itself in float64: what its own rounding does."""
    first: float
    """Share of positions with the same likeliest token."""
    flips: int
    """Positions whose likeliest token differs although the native model's margin is beyond its own noise."""
    five: float
    """Mean share of the five likeliest tokens in common."""
    rank: float
    """Mean rank correlation (Spearman's) over the vocabulary."""


class Generation(Record):
    """Greedy and sampled text of both models after the same prompts."""

    prompts: int
    """How many prompts."""
    tokens: int
    """Tokens written after each."""
    same: int
    """Prompts after which both wrote the same greedily."""
    first: int
    """The earliest token in which they differ; as many as were written if none."""
    sampled: int | None = None
    """Prompts after which both drew the same by the same random numbers."""
    first_sampled: int | None = None
    """The earliest drawn token in which they differ; as many as were written if none."""


def agreement_of(
    native: Sequence[Tensor], changed: Sequence[Tensor], exact: Sequence[Tensor], noise: Tensor
) -> Agreement:
    """Compare next-token distributions.

    Args:
        native: Logits of each request, (positions, vocabulary), by the native model.
        changed: By the changed model.
        exact: By the native model in float64.
        noise: Root mean square error of honest evaluations at each position of all requests.
    """
    n, c, t = (torch.cat([row.double() for row in rows]) for rows in (native, changed, exact))
    c = c.nan_to_num(0.0, 0.0, 0.0)
    top = t.topk(2, -1)
    margin = top.values[:, 0] - top.values[:, 1]
    differs = n.argmax(-1) != c.argmax(-1)
    few = min(5, t.shape[-1])
    fives = (n.topk(few, -1).indices[:, :, None] == c.topk(few, -1).indices[:, None]).any(-1).double().mean()
    ranks = [rankdata(rows.numpy(), axis=-1) for rows in (n, c)]
    correlation = torch.stack(
        [torch.corrcoef(torch.tensor([*pair])) for pair in zip(*map(_lists, ranks), strict=True)]
    )
    return Agreement(
        kl=_kl(n, c), native_kl=_kl(t, n), first=float((~differs).double().mean()),
        flips=int((differs & (margin > 4 * noise)).sum()), five=float(fives),
        rank=float(correlation[:, 0, 1].nan_to_num(0.0).mean()),
    )  # fmt: skip


def _lists(rows: Any) -> list[list[float]]:
    listed: list[list[float]] = rows.tolist()
    return listed


def _kl(reference: Tensor, other: Tensor) -> float:
    first, second = reference.log_softmax(-1), other.log_softmax(-1)
    return float((first.exp() * (first - second)).sum(-1).mean().clamp(min=0))


def perplexity_of(requests: Requests, native: Sequence[Tensor], changed: Sequence[Tensor]) -> Paired | None:
    """Compare the mean negative log likelihood of each request's tokens, nats; None for a single request."""
    if len(requests.tokens) < 2:
        return None
    rows = [
        [float(_surprise(logits, tokens)) for logits, tokens in zip(side, requests.tokens, strict=True)]
        for side in (native, changed)
    ]
    return paired(*rows)


def _surprise(logits: Tensor, tokens: Tensor) -> Tensor:
    likelihood = logits[:-1].double().nan_to_num(0.0, 0.0, 0.0).log_softmax(-1)
    return -likelihood.gather(-1, tokens[1:, None]).mean()


def generation_of(
    native: Deployment, changed: Deployment, requests: Requests, count: int, seed: int = 0
) -> Generation:
    """Let both models go on after the first half of each request: greedily, and by draws with the same random numbers.

    Args:
        native: The native model; its sampler draws, at temperature 1 where it has none.
        changed: The changed model, with its own sampler where both have one.
        requests: What the prompts are taken from.
        count: Tokens to write.
        seed: Seed of the random numbers.
    """
    prompts = [row[: max(len(row) // 2, 1)] for row in requests.tokens]
    both = native.sample is not None and changed.sample is not None
    firsts: dict[str, list[int]] = {"greedy": [], "drawn": []}
    for number, prompt in enumerate(prompts):
        for how, found in firsts.items():
            ours, theirs = (
                generate(side.model, prompt, count, _choosing(how, sample, seed + number))
                for side, sample in (
                    (native, native.sample),
                    (changed, changed.sample if both else native.sample),
                )
            )
            differs = (ours != theirs).nonzero()
            found.append(int(differs[0]) if len(differs) else count)
    same, sampled = (sum(f == count for f in found) for found in firsts.values())
    return Generation(
        prompts=len(prompts), tokens=count, same=same, first=min(firsts["greedy"]), sampled=sampled,
        first_sampled=min(firsts["drawn"]),
    )  # fmt: skip


def _choosing(how: str, sample: Sampler | None, seed: int) -> Choose:
    """Return what chooses tokens, with random numbers of its own."""
    if how == "greedy":
        return lambda logits: logits.argmax(-1)
    draw, random = sample or top_p(1.0), torch.Generator().manual_seed(seed)
    return lambda logits: draw(logits.nan_to_num(0.0, 0.0), random)
