"""A small Llama-like language model with random weights, to optimise as a whole.

Four layers of RMSNorm, attention with rotary embedding and a gated MLP, over 64 tokens. `build` returns the module and
the inputs of one call; that makes this file a model for Kernelwright.

Run `python examples/small_transformer.py` for a check, `kernelwright plan examples/small_transformer.py:build` to see
what is worth changing, and `kernelwright optimize examples/small_transformer.py:build` to change it.
"""

import torch
from torch import nn
from torch.nn import functional

LAYERS, HIDDEN, HEADS, INNER, VOCABULARY, TOKENS = 4, 256, 4, 688, 1024, 64


class RMSNorm(nn.Module):
    """Scale each token to unit root mean square."""

    def __init__(self, width: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class Attention(nn.Module):
    """Causal attention with rotary embedding."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x, cos, sin):
        batch, tokens, width = x.shape
        split = (batch, tokens, self.heads, width // self.heads)
        q, k, v = (part(x).view(split).transpose(1, 2) for part in (self.q, self.k, self.v))
        q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(mixed.transpose(1, 2).reshape(batch, tokens, width))


class MLP(nn.Module):
    """Two products, one gated by the other, and a third back."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Layer(nn.Module):
    """Attention and MLP, each after a norm and added to what came in."""

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = RMSNorm(width), RMSNorm(width)
        self.attention, self.mlp = Attention(width, heads), MLP(width, inner)

    def forward(self, x, cos, sin):
        x = x + self.attention(self.norm1(x), cos, sin)
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    """Tokens to logits."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, HIDDEN)
        self.layers = nn.ModuleList(Layer(HIDDEN, HEADS, INNER) for _ in range(LAYERS))
        self.norm, self.head = RMSNorm(HIDDEN), nn.Linear(HIDDEN, VOCABULARY, bias=False)

    def forward(self, tokens):
        cos, sin = angles(tokens.shape[1], HIDDEN // HEADS)
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.head(self.norm(x))


def angles(tokens: int, width: int):
    """Return cosine and sine of each position's angles: (tokens, width) each."""
    rates = 10_000.0 ** (-torch.arange(0, width, 2) / width)
    turns = torch.outer(torch.arange(tokens).float(), rates).repeat(1, 2)
    return turns.cos(), turns.sin()


def rotated(x, cos, sin):
    """Turn pairs of features by each position's angles."""
    left, right = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-right, left), dim=-1) * sin


def build():
    """Return the model and the inputs of one call."""
    torch.manual_seed(0)
    return Transformer().eval(), (torch.randint(0, VOCABULARY, (1, TOKENS)),)


if __name__ == "__main__":
    model, inputs = build()
    with torch.no_grad():
        print("logits:", tuple(model(*inputs).shape))
