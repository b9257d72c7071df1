"""A causal language model of transformers with a large vocabulary, for training; random weights."""

from typing import Any

import torch
from torch import nn

_VOCABULARY, _TOKENS = 32_000, (2, 256)
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
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=256, intermediate_size=688, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=4,
        vocab_size=_VOCABULARY, max_position_embeddings=512, use_cache=False,
    )  # fmt: skip
    return CausalLm(LlamaForCausalLM(config)), token_batch(0)


def token_batch(seed: int) -> Batch:
    """Return tokens, each 31 more than the one before it."""
    first = torch.randint(0, _VOCABULARY, (_TOKENS[0], 1), generator=torch.Generator().manual_seed(seed))
    return ((first + 31 * torch.arange(_TOKENS[1])) % _VOCABULARY,)
