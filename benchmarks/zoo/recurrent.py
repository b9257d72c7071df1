"""State-space models and linear attention."""

import torch
import transformers
from _made import of, tokens


def mamba():
    return of(transformers, "MambaConfig", "MambaForCausalLM", state_size=8), tokens(16)


def mamba2():
    sizes = {"num_heads": 8, "head_dim": 64, "state_size": 16, "n_groups": 1, "expand": 2, "chunk_size": 16}
    return of(transformers, "Mamba2Config", "Mamba2ForCausalLM", **sizes), tokens(32)


def recurrent_gemma():
    sizes = {
        "lru_width": 256,
        "attention_window_size": 64,
        "block_types": ["recurrent", "recurrent", "attention"],
    }
    return of(transformers, "RecurrentGemmaConfig", "RecurrentGemmaForCausalLM", **sizes), tokens(16)


class LinearAttention(torch.nn.Module):
    """Attention without softmax: one matrix of state a head, causal by a triangle."""

    def __init__(self, width=256, heads=4):
        super().__init__()
        self.heads = heads
        self.into, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.norm = torch.nn.LayerNorm(width)

    def forward(self, x):
        batch, count, width = x.shape
        q, k, v = self.into(self.norm(x)).view(batch, count, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = torch.nn.functional.elu(q).add(1) @ torch.nn.functional.elu(k).add(1).transpose(-1, -2)
        scores = scores.tril()
        mixed = scores @ v / scores.sum(-1, keepdim=True).clamp_min(1e-6)
        return x + self.out(mixed.transpose(1, 2).reshape(batch, count, width))


def linear_attention():
    torch.manual_seed(0)
    return torch.nn.Sequential(*(LinearAttention() for _ in range(4))).eval(), (torch.randn(1, 128, 256),)


def lstm():
    torch.manual_seed(0)
    return Tagger().eval(), (torch.randint(0, 1000, (2, 32)),)


class Tagger(torch.nn.Module):
    """Embedding, LSTM, labels."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(1000, 128)
        self.lstm = torch.nn.LSTM(128, 128, num_layers=2, batch_first=True)
        self.head = torch.nn.Linear(128, 32)

    def forward(self, x):
        return self.head(self.lstm(self.embedding(x))[0])
