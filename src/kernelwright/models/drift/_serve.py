"""Serve requests as deployed: each alone, token by token through the cache, and all in one batch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import torch
from torch import Tensor

from ...errors import InputError
from ._decoder import Decoder, decoder_of


class Scene(StrEnum):
    """How requests are served."""

    ALONE = "alone"
    """Each request on its own, all tokens at once."""
    DECODED = "decoded"
    """Each on its own; the second part token by token through the cache."""
    BATCHED = "batched"
    """All in one batch, padded on the left; the second part token by token through the cache."""
    EXACT = "exact"
    """In float64, alone and in a batch: what the model computes, its rounding taken away."""


DEPLOYED = (Scene.ALONE, Scene.DECODED, Scene.BATCHED)
"""The scenes at the model's own dtype."""


@dataclass(frozen=True)
class Requests:
    """Tokens to be served to both models, the same to each."""

    tokens: tuple[Tensor, ...]
    """Each (length,), int64."""
    steps: int
    """How many tokens at the end of each are decoded one by one."""

    def __post_init__(self) -> None:
        """Check them.

        Raises:
            InputError: there are none, or one is no row of at least two tokens.
        """
        if not self.tokens or any(
            t.dim() != 1 or len(t) < 2 or t.dtype is not torch.int64 for t in self.tokens
        ):
            shapes = [(tuple(t.shape), str(t.dtype)) for t in self.tokens]
            raise InputError(f"requests are {shapes}; expected rows of at least 2 tokens, int64")


def serve(model: Any, requests: Requests, scene: Scene) -> list[Tensor]:
    """Return the logits of each request, (length, vocabulary), in a scene at the model's own dtype."""
    decode, pads = decoder_of(model)
    with torch.no_grad():
        if scene is Scene.ALONE:
            return [decode(row[None])[0][0] for row in requests.tokens]
        if scene is Scene.DECODED:
            return [_stepwise(decode, row[None], None, requests.steps)[0] for row in requests.tokens]
        return _batched(decode, requests, pads)


def _batched(decode: Decoder, requests: Requests, pads: bool) -> list[Tensor]:
    """Serve all at once; where the model knows no padding, those of one length at once."""
    rows = requests.tokens
    longest = max(len(row) for row in rows)
    if not pads:
        found: dict[int, Tensor] = {}
        for length in {len(row) for row in rows}:
            same = [n for n, row in enumerate(rows) if len(row) == length]
            logits = _stepwise(decode, torch.stack([rows[n] for n in same]), None, requests.steps)
            found |= dict(zip(same, logits, strict=True))
        return [found[n] for n in range(len(rows))]
    tokens = torch.stack([torch.cat((row.new_zeros(longest - len(row)), row)) for row in rows])
    mask = torch.stack([torch.arange(longest) >= longest - len(row) for row in rows]).to(tokens.device)
    logits = _stepwise(decode, tokens, mask, requests.steps)
    return [logits[n, longest - len(row) :] for n, row in enumerate(rows)]


def _stepwise(decode: Decoder, tokens: Tensor, mask: Tensor | None, steps: int) -> Tensor:
    """Serve the last tokens one by one, (batch, length, vocabulary)."""
    first = max(tokens.shape[1] - steps, 1)
    logits, cache = decode(tokens[:, :first], mask=None if mask is None else mask[:, :first])
    parts = [logits]
    for at in range(first, tokens.shape[1]):
        seen = None if mask is None else mask[:, : at + 1]
        logits, cache = decode(tokens[:, at : at + 1], cache=cache, mask=seen)
        parts.append(logits)
    return torch.cat(parts, 1)


Choose = Callable[[Tensor], Tensor]
"""Logits (batch, vocabulary) to tokens (batch,)."""


def generate(model: Any, prompt: Tensor, count: int, choose: Choose) -> Tensor:
    """Return the tokens that follow a prompt, (count,)."""
    decode, _ = decoder_of(model)
    with torch.no_grad():
        logits, cache = decode(prompt[None])
        chosen = [choose(logits[:, -1])]
        while len(chosen) < count:
            logits, cache = decode(chosen[-1][:, None], cache=cache)
            chosen.append(choose(logits[:, -1]))
    return torch.cat(chosen)


def vocabulary_of(model: Any) -> int:
    """Return how many tokens a model knows, by the width of its logits.

    Raises:
        InputError: it cannot be called with tokens.
    """
    decode, _ = decoder_of(model)
    try:
        with torch.no_grad():
            return decode(torch.zeros(1, 1, dtype=torch.int64))[0].shape[-1]
    except (RuntimeError, TypeError, IndexError, NotImplementedError, AttributeError) as error:
        what = " ".join(str(error).split())
        raise InputError(
            f"{type(model).__name__} cannot be called with tokens (1, 1), int64: {what}; expected a language model"
        ) from None


def own_text(model: Any, lengths: Sequence[int], steps: int, seed: int) -> Requests:
    """Let a model write requests of these lengths: its own distribution is what a drift moves it away from.

    A random first token, then samples at temperature 1, so that the perplexity of the text is the model's own.
    """
    random, size = torch.Generator().manual_seed(seed), vocabulary_of(model)

    def draw(logits: Tensor) -> Tensor:
        return torch.multinomial(logits.double().softmax(-1), 1, generator=random)[:, 0]

    rows = []
    for length in lengths:
        first = torch.randint(size, (1,), generator=random)
        rows.append(torch.cat((first, generate(model, first, length - 1, draw))))
    return Requests(tuple(rows), steps)
