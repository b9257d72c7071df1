"""What a language model looks like here: tokens in, logits and a cache out."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from ...errors import InputError


class Decoder(Protocol):
    """A language model as it is served."""

    def __call__(
        self, tokens: Tensor, *, cache: Any = None, mask: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        """Return the logits of some tokens that follow those of the cache.

        Args:
            tokens: (batch, new), int64.
            cache: What the last call returned; None at the beginning.
            mask: (batch, past + new), bool, False where there is padding, which is on the left; None for no padding.

        Returns:
            Logits (batch, new, vocabulary), and the cache for the next call.
        """


Sampler = Callable[[Tensor, torch.Generator], Tensor]
"""Logits (batch, vocabulary) to tokens (batch,), drawn with a generator."""


@dataclass(frozen=True)
class Deployment:
    """A model with what chooses its tokens."""

    model: Any
    """A `Decoder`, a model of transformers, or any callable from tokens to logits."""
    sample: Sampler | None = None
    """Draws tokens from logits; None where the two sides are known to share the sampler."""


def deployment_of(target: object) -> Deployment:
    """Return a target as a deployment; a pair as `build()` returns them is taken without its inputs.

    Raises:
        InputError: it is nothing that can be called.
    """
    if isinstance(target, Deployment):
        return target
    if isinstance(target, tuple) and target:
        target = target[0]
    if not callable(target):
        raise InputError(
            f"a model is {type(target).__name__}; expected a module, a callable from tokens to logits, or a Deployment"
        )
    return Deployment(target)


def decoder_of(model: Any) -> tuple[Decoder, bool]:
    """Return a model as a decoder, and whether it takes a mask of padding."""
    if hasattr(model, "prepare_inputs_for_generation"):
        return _Transformers(model), True
    if hasattr(model, "config") and hasattr(model, "get_input_embeddings"):
        raise InputError(
            f"{type(model).__name__} gives no logits of a next token; expected a model with a head for that"
        )
    called = model.forward if isinstance(model, nn.Module) else model
    try:
        names = set(inspect.signature(called).parameters)
    except (TypeError, ValueError):
        names = set()
    if {"cache", "mask"} <= names:
        return model, True
    return _Plain(model), False


class _Plain:
    """A callable from all tokens to all logits, which keeps no cache."""

    def __init__(self, model: Callable[[Tensor], Any]) -> None:
        self._model = model

    def __call__(
        self, tokens: Tensor, *, cache: Any = None, mask: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        del mask
        new = tokens.shape[1]
        tokens = tokens if cache is None else torch.cat((cache, tokens), 1)
        logits = self._model(tokens)
        logits = logits[0] if isinstance(logits, tuple) else logits
        if not isinstance(logits, Tensor) or logits.dim() != 3 or logits.shape[:2] != tokens.shape:
            got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise InputError(
                f"a model returned {got} for tokens {tuple(tokens.shape)}; expected logits (batch, tokens, vocabulary)"
            )
        return logits[:, -new:], tokens


class _Transformers:
    """A causal language model of transformers."""

    def __init__(self, model: Any) -> None:
        self._model = model
        named = inspect.signature(model.forward).parameters
        self._name = "cache" if "cache" in named else "past_key_values"
        """What its cache is called; later versions say `cache`."""

    def __call__(
        self, tokens: Tensor, *, cache: Any = None, mask: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        more: dict[str, Any] = {}
        if mask is not None:
            more["attention_mask"] = mask.long()
            more["position_ids"] = (mask.long().cumsum(-1) - 1).clamp(min=0)[:, -tokens.shape[1] :]
        found = self._model(input_ids=tokens, use_cache=True, **{self._name: cache}, **more)
        return found.logits, found[self._name]
