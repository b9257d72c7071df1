"""A small transformer of random weights with what real ones have: RoPE, grouped heads, experts, a soft cap, a KV cache.

Trained models are sure of many tokens, random ones of none: the head is scaled up, so that the logits spread.
"""

import math
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class Sizes:
    vocab: int = 64
    width: int = 48
    heads: int = 4
    groups: int = 2
    layers: int = 3
    hidden: int = 64
    cap: float = 15.0
    sharp: float = 6.0

    @property
    def head(self) -> int:
        return self.width // self.heads


def wide_of(x):
    """Return float32 for half precision, and wider dtypes as they are."""
    return torch.promote_types(x.dtype, torch.float32)


class Norm(nn.Module):
    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.weight, self.eps = nn.Parameter(1 + 0.1 * torch.randn(width)), eps

    def forward(self, x):
        wide = x.to(wide_of(x))
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * wide.to(x.dtype)


class Rotary(nn.Module):
    def __init__(self, head, base=10_000.0):
        super().__init__()
        self.head, self.base = head, base

    def angles(self, positions):
        steps = torch.arange(0, self.head, 2, device=positions.device).double() / self.head
        angles = positions[..., None].double() * self.base**-steps
        return torch.cat((angles, angles), -1)

    def turned(self, x):
        left, right = x.chunk(2, -1)
        return torch.cat((-right, left), -1)

    def forward(self, x, positions):
        angles = self.angles(positions)[:, None]
        return x * angles.cos().to(x.dtype) + self.turned(x) * angles.sin().to(x.dtype)


class Attention(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.sizes = sizes
        self.q = nn.Linear(sizes.width, sizes.width)
        self.k = nn.Linear(sizes.width, sizes.groups * sizes.head)
        self.v = nn.Linear(sizes.width, sizes.groups * sizes.head)
        self.out = nn.Linear(sizes.width, sizes.width)
        self.rotary = Rotary(sizes.head)
        self.scale = 1 / math.sqrt(sizes.head)

    def widened(self, x):
        return x.repeat_interleave(self.sizes.heads // self.sizes.groups, 1)

    def probabilities(self, scores):
        return torch.softmax(scores, -1, dtype=wide_of(scores)).to(scores.dtype)

    def attend(self, q, k, v, mask):
        scores = (q @ k.mT) * self.scale
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        return self.probabilities(scores) @ v

    def remember(self, past, k, v):
        return (k, v) if past is None else (torch.cat((past[0], k), 2), torch.cat((past[1], v), 2))

    def forward(self, x, positions, mask, past):
        batch, new, _ = x.shape
        heads = lambda y: y.view(batch, new, -1, self.sizes.head).transpose(1, 2)  # noqa: E731
        q, k = self.rotary(heads(self.q(x)), positions), self.rotary(heads(self.k(x)), positions)
        k, v = self.remember(past, k, heads(self.v(x)))
        y = self.attend(q, self.widened(k), self.widened(v), mask)
        return self.out(y.transpose(1, 2).reshape(batch, new, -1)), (k, v)


class Gelu(nn.Module):
    def forward(self, x):
        return nn.functional.gelu(x)


class MLP(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.up, self.down = nn.Linear(sizes.width, sizes.hidden), nn.Linear(sizes.hidden, sizes.width)
        self.gelu, self.drop = Gelu(), nn.Dropout(0.0)

    def forward(self, x):
        return self.drop(self.down(self.gelu(self.up(x))))


class Experts(nn.Module):
    """Each token goes to one of three; the last two tie."""

    def __init__(self, sizes):
        super().__init__()
        self.router = nn.Linear(sizes.width, 3, bias=False)
        self.experts = nn.ModuleList(MLP(sizes) for _ in range(3))
        self.router.weight.data[2] = self.router.weight.data[1]

    def choose(self, scores):
        return (scores == scores.amax(-1, keepdim=True)).int().argmax(-1)

    def forward(self, x):
        scores = self.router(x)
        scores = torch.stack((scores[..., 0], scores[..., 1], scores[..., 1]), -1)
        weights = torch.softmax(scores, -1, dtype=wide_of(scores)).to(x.dtype)
        chosen = self.choose(scores)
        y = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            y = torch.where((chosen == number)[..., None], expert(x) * weights[..., number, None], y)
        return y


class Layer(nn.Module):
    def __init__(self, sizes, experts):
        super().__init__()
        self.before, self.attention = Norm(sizes.width), Attention(sizes)
        self.between, self.mlp = Norm(sizes.width), Experts(sizes) if experts else MLP(sizes)

    def forward(self, x, positions, mask, past):
        y, past = self.attention(self.before(x), positions, mask, past)
        x = x + y
        return x + self.mlp(self.between(x)), past


class Cap(nn.Module):
    def __init__(self, most):
        super().__init__()
        self.most = most

    def forward(self, x):
        return self.most * torch.tanh(x / self.most)


class Tiny(nn.Module):
    """Tokens (batch, new) int64, with a cache and a mask (batch, past + new) of what is no padding, to logits."""

    def __init__(self, sizes=Sizes(), seed=0, experts=True):
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.sizes = sizes
            self.embed = nn.Embedding(sizes.vocab, sizes.width)
            self.embed.weight.data.mul_(0.05)
            self.layers = nn.ModuleList(Layer(sizes, experts and n == 1) for n in range(sizes.layers))
            self.norm = Norm(sizes.width)
            self.head = nn.Linear(sizes.width, sizes.vocab, bias=False)
            self.head.weight.data.mul_(sizes.sharp)
            self.cap = Cap(sizes.cap)
        self.eval()

    def positions(self, mask, new):
        return (mask.long().cumsum(-1) - 1).clamp(min=0)[:, -new:]

    def allowed(self, mask, new):
        total = mask.shape[1]
        causal = torch.ones(new, total, dtype=torch.bool).tril(total - new)
        return mask[:, None, None] & causal | torch.eye(total, dtype=torch.bool)[-new:]

    def forward(self, tokens, cache=None, mask=None):
        new = tokens.shape[1]
        total = new + (cache[0][0].shape[2] if cache else 0)
        mask = torch.ones(len(tokens), total, dtype=torch.bool) if mask is None else mask
        positions, allowed = self.positions(mask, new), self.allowed(mask, new)
        x, kept = self.embed(tokens), []
        for number, layer in enumerate(self.layers):
            x, past = layer(x, positions, allowed, cache[number] if cache else None)
            kept.append(past)
        return self.cap(self.head(self.norm(x))), kept
