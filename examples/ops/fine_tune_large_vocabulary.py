"""Fine-tune a language model of 128,256 words on 4,096 tokens a step in less than 2 GiB of memory.

The logits of a step alone would take 2.1 GB, and their gradient as much again; `linear_cross_entropy` never has more
than those of 256 tokens. Run `python examples/ops/fine_tune_large_vocabulary.py`: it prints the loss of each step and
the most memory that the process had.
"""

import argparse
import resource

import torch
from torch import nn

from kernelwright.ops import activations, loss, norms, optim


class Block(nn.Module):
    """A gated layer behind a norm, on the mean of the tokens so far."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(2 * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        count = torch.arange(1, x.shape[1] + 1)[:, None]
        before = x + x.cumsum(1) / count
        return x + self.down(activations.swiglu(self.up(norms.rms_norm(before, self.scale))))


class Model(nn.Module):
    """An embedding that is the last layer's weight too, and blocks between."""

    def __init__(self, vocabulary: int, width: int, blocks: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.Sequential(*(Block(width) for _ in range(blocks)))
        nn.init.normal_(self.embedding.weight, std=0.02)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the loss of each token's successor."""
        hidden = self.blocks(self.embedding(tokens[:, :-1])).flatten(0, 1)
        return loss.linear_cross_entropy(hidden, self.embedding.weight, tokens[:, 1:].flatten())


def main(arguments: list[str] | None = None) -> tuple[list[float], float]:
    """Train on one batch; return the losses and the most memory that the process had, in GiB."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vocabulary", type=int, default=128_256)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=5)
    given = parser.parse_args(arguments)
    torch.manual_seed(0)
    model = Model(given.vocabulary, given.width)
    optimizer = optim.AdamW(model.parameters(), lr=3e-3)
    tokens = torch.randint(given.vocabulary, (8, given.tokens // 8 + 1))
    losses = []
    for step in range(given.steps):
        optimizer.zero_grad()
        found = model(tokens)
        found.backward()
        optimizer.step()
        losses.append(float(found.detach()))
        print(f"step {step}: loss {losses[-1]:.4f}")
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"most memory: {most:.2f} GiB")
    return losses, most


if __name__ == "__main__":
    main()
