"""Small models at real widths: `benchmarks/gpu/_models/made.py:NAME`. Random weights; inputs are those of one call.

Each is made on the processor, as a user's would be before it is moved.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Made = tuple[nn.Module, tuple[Tensor, ...]]


class RMSNorm(nn.Module):
    """Root-mean-square norm in float32, as language models have it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """Return x, normed."""
        wide = x.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * self.weight


class Attention(nn.Module):
    """Causal attention with grouped heads and rotary positions."""

    cos: Tensor
    sin: Tensor

    def __init__(self, width: int, heads: int, groups: int, most: int) -> None:
        super().__init__()
        self.heads, self.groups, self.each = heads, groups, width // heads
        self.q = nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, groups * self.each, bias=False) for _ in range(2))
        self.o = nn.Linear(width, width, bias=False)
        angles = torch.outer(torch.arange(most), 10000.0 ** (-torch.arange(0, self.each, 2) / self.each))
        self.register_buffer("cos", angles.cos().repeat(1, 2))
        self.register_buffer("sin", angles.sin().repeat(1, 2))

    def turned(self, x: Tensor) -> Tensor:
        """Return heads, turned by their positions."""
        low, high = x.chunk(2, -1)
        rows = x.shape[2]
        return x * self.cos[:rows] + torch.cat((-high, low), -1) * self.sin[:rows]

    def forward(self, x: Tensor) -> Tensor:
        """Attend."""
        items, rows, width = x.shape
        q = self.turned(self.q(x).view(items, rows, self.heads, self.each).transpose(1, 2))
        k = self.turned(self.k(x).view(items, rows, self.groups, self.each).transpose(1, 2))
        v = self.v(x).view(items, rows, self.groups, self.each).transpose(1, 2)
        k, v = (t.repeat_interleave(self.heads // self.groups, 1) for t in (k, v))
        found = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(found.transpose(1, 2).reshape(items, rows, width))


class Block(nn.Module):
    """A layer of a language model."""

    def __init__(self, width: int, heads: int, groups: int, inner: int, most: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = RMSNorm(width), RMSNorm(width)
        self.attention = Attention(width, heads, groups, most)
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the next layer's input."""
        x = x + self.attention(self.norm1(x))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Seen(nn.Module):
    """A layer of a vision transformer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return the next layer's input."""
        items, rows, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(items, rows, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        x = x + self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(items, rows, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Residual(nn.Module):
    """Two convolutions with batch norm, and what goes past them."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = (nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(2))
        self.bn1, self.bn2 = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        """Return the next block's input."""
        return F.relu(x + self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))))


class Gated(nn.Module):
    """A norm, two layers and a gate."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.up, self.gate = nn.LayerNorm(width), nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return the next block's input."""
        y = self.norm(x)
        return x + F.gelu(self.up(y)) * torch.sigmoid(self.gate(y))


class Mixed(nn.Module):
    """What is between products, without them: norms, activations, sums by rows; memory bounds all of it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.randn(width)), nn.Parameter(torch.randn(width))
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the mixed rows."""
        z = F.silu(x * self.scale + self.shift) * torch.tanh(y)
        z = z - z.mean(-1, keepdim=True)
        return self.norm(z + x).softmax(-1) * y


def llama() -> Made:
    """Two layers, 16 heads of which 4 have keys, 256 tokens, bfloat16."""
    torch.manual_seed(0)
    layers = nn.Sequential(*(Block(1024, 16, 4, 2816, 256) for _ in range(2)))
    return layers.to(torch.bfloat16), (torch.randn(1, 256, 1024).bfloat16(),)


def vit() -> Made:
    """Two layers of width 384 on 4 pictures of 196 parts, float16."""
    torch.manual_seed(0)
    return nn.Sequential(*(Seen(384, 6) for _ in range(2))).half(), (torch.randn(4, 196, 384).half(),)


def resnet() -> Made:
    """Two blocks of 64 channels on 2 pictures of 56 x 56, float32."""
    torch.manual_seed(0)
    return nn.Sequential(*(Residual(64) for _ in range(2))), (torch.randn(2, 64, 56, 56),)


def mlp() -> Made:
    """Three gated blocks of width 1024 on 512 rows, bfloat16."""
    torch.manual_seed(0)
    return nn.Sequential(*(Gated(1024) for _ in range(3))).bfloat16(), (torch.randn(512, 1024).bfloat16(),)


def mixed() -> Made:
    """Rows of 2048 numbers, 4096 of them, float32."""
    torch.manual_seed(0)
    return Mixed(2048), (torch.randn(4096, 2048), torch.randn(4096, 2048))
