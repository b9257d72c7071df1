"""Softmax cross-entropy over a large vocabulary, one loss for each token.

With vocabularies of 32,000 to 256,000 words the logits are the largest tensor of a language model's step.
Eager torch writes a whole log-softmax of that size only to pick one number from each row; a fused kernel
reads the logits once, keeps a running maximum and sum, and writes one number a row.

Run `python examples/cross_entropy_large_vocab.py` for a check.
"""

import torch

import kernelwright as kw


@kw.task(
    logits="float32[tokens, vocab] normal(3)",
    targets="int64[tokens] index(vocab)",
    workloads=[{"tokens": 256, "vocab": 32000}, {"tokens": 64, "vocab": 128256}],
)
def cross_entropy_large_vocab(logits, targets):
    return torch.nn.functional.cross_entropy(logits, targets, reduction="none")


if __name__ == "__main__":
    logits, targets = torch.randn(4, 1000), torch.tensor([0, 10, 500, 999])
    losses = cross_entropy_large_vocab(logits, targets)
    expected = torch.logsumexp(logits, dim=-1) - logits[torch.arange(4), targets]
    print("largest difference to logsumexp - logit:", float((losses - expected).abs().max()))
