import torch
import torch.nn as nn


class Model(nn.Module):
    """A scan over chunks: the length is a multiple of the block."""

    def __init__(self, batch_size, seq_length, n_heads, d_head, block_len=64):
        super().__init__()
        assert seq_length % block_len == 0
        self.block_len = block_len
        self.A = nn.Parameter(torch.randn(batch_size, seq_length, n_heads))
        self.B = nn.Parameter(torch.randn(batch_size, seq_length, n_heads, d_head))

    def forward(self, x):
        b, s, h, d = x.shape
        blocks = (x * self.B).view(b, s // self.block_len, self.block_len, h, d)
        decay = torch.exp(-torch.nn.functional.softplus(self.A)).view(b, -1, self.block_len, h, 1)
        return torch.cumsum(blocks * decay, dim=2).reshape(b, s, h, d)


batch_size = 2048
seq_length = 128
n_heads = 8
d_head = 64
block_len = 64


def get_inputs():
    return [torch.rand(batch_size, seq_length, n_heads, d_head)]


def get_init_inputs():
    return [batch_size, seq_length, n_heads, d_head, block_len]
