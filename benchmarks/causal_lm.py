"""A causal language model of transformers with a large vocabulary, for training; random weights."""

from typing import Any

import torch
from torch import nn

_VOCABULARY, _TOKENS = 32_000, (2, 256)
_SMALL_VOCABULARY, _SMALL_TOKENS = 8_000, (1, 128)
Batch = tuple[torch.Tensor, ...]


class CausalLm(nn.Module):
    """Tokens → the loss of the next ones; the logits are no result."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the loss."""
        found: Any = self.inner(input_ids=tokens, labels=tokens)
        loss: torch.Tensor = found.loss
        return loss


def causal_lm() -> tuple[nn.Module, Batch]:
    """Return a Llama of four layers of 256 over 32,000 tokens, and a batch."""
    return _llama(256, 4, _VOCABULARY), token_batch(0)


def small_causal_lm() -> tuple[nn.Module, Batch]:
    """Return a Llama of two layers of 128 over 8,000 tokens, and a batch: a sixtieth of the work."""
    return _llama(128, 2, _SMALL_VOCABULARY), small_token_batch(0)


def _llama(width: int, layers: int, vocabulary: int) -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=width, intermediate_size=43 * width // 16, num_hidden_layers=layers, num_attention_heads=4,
        num_key_value_heads=4, vocab_size=vocabulary, max_position_embeddings=512, use_cache=False,
    )  # fmt: skip
    return CausalLm(LlamaForCausalLM(config))


def token_batch(seed: int) -> Batch:
    """Return tokens, each 31 more than the one before it."""
    return _tokens(_TOKENS, _VOCABULARY, seed)


def small_token_batch(seed: int) -> Batch:
    """Return tokens of the small model."""
    return _tokens(_SMALL_TOKENS, _SMALL_VOCABULARY, seed)


def _tokens(size: tuple[int, int], vocabulary: int, seed: int) -> Batch:
    first = torch.randint(0, vocabulary, (size[0], 1), generator=torch.Generator().manual_seed(seed))
    return ((first + 31 * torch.arange(size[1])) % vocabulary,)
