"""A language model of fixed sizes as servers run it: requests are padded to the next size, and no cache is kept."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import InputError


class Padded(nn.Module):
    """Serve a causal language model at fixed sizes, such as those that its kernels were verified at.

    Tokens are padded on the right to the smallest size that holds them, which a causal model does not see, and all
    tokens so far are given again for each new one. Rows that are missing in a batch are filled up, too.

    Covers: models in which no token depends on later ones.
    Does not cover: encoders; requests and batches beyond the largest size, which are refused.
    """

    def __init__(self, model: nn.Module, sizes: Sequence[tuple[int, int]]) -> None:
        """Serve `model` at sizes.

        Args:
            model: Takes tokens (batch, length), int64, and returns logits (batch, length, vocabulary) as they are,
                first in a tuple or as `.logits`; one of transformers gets them by the name `input_ids`.
            sizes: Each (batch, length).

        Raises:
            InputError: there are no sizes, or one is not two whole numbers of at least 1.

        Example:
            >>> served = Padded(nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 5)), [(1, 4), (2, 8)])
            >>> logits, cache = served(torch.tensor([[1, 2, 3]]))
            >>> logits.shape, served(torch.tensor([[4]]), cache=cache)[0].shape
            (torch.Size([1, 3, 5]), torch.Size([1, 1, 5]))
        """
        super().__init__()
        if not sizes or any(len(size) != 2 or min(size) < 1 for size in sizes):
            raise InputError(
                f"sizes are {list(sizes)!r}; expected pairs (batch, length) of whole numbers from 1 on"
            )
        self.model = model
        self.sizes = sorted(sizes, key=lambda size: size[0] * size[1])
        """The sizes, the smallest first."""
        self._named = hasattr(model, "prepare_inputs_for_generation")

    def forward(
        self, tokens: Tensor, *, cache: Tensor | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return logits of tokens that follow those of the cache, and all tokens so far (see `Decoder`).

        Raises:
            InputError: there is no size for so many.
        """
        new = tokens.shape[1]
        known = tokens if cache is None else torch.cat((cache, tokens), 1)
        rows, count = known.shape
        size = next((s for s in self.sizes if s[0] >= rows and s[1] >= count), None)
        if size is None:
            raise InputError(
                f"{rows} requests of {count} tokens are more than any of the sizes {self.sizes} holds"
            )
        if mask is None:
            order = torch.arange(count, device=known.device).expand(rows, -1)
        else:
            order = mask.logical_not().int().argsort(stable=True, dim=1)  # padding comes last
        given = known.new_zeros(size)
        given[:rows, :count] = known.gather(1, order)
        logits = _logits_of(self.model(input_ids=given) if self._named else self.model(given))[:rows, :count]
        back = order.argsort(1)[..., None].expand(-1, -1, logits.shape[-1])
        return logits.gather(1, back)[:, -new:], known


def _logits_of(found: Any) -> Tensor:
    logits: Any = getattr(found, "logits", found[0] if isinstance(found, tuple) else found)
    if not isinstance(logits, Tensor):
        raise InputError(
            f"a model returned {type(found).__name__}; expected logits (batch, tokens, vocabulary)"
        )
    return logits
