"""What is wanted of the logits of a linear layer, which are never stored.

| name | what it computes |
|---|---|
| `argmax(x, weight)` | the likeliest token of each row |
| `top_k(x, weight, count)` | the largest logits and their tokens |
| `logsumexp(x, weight)` | what turns logits into log-probabilities |
| `log_probs(x, weight, tokens)` | log-probabilities of given tokens, with gradients |
| `sample(x, weight, seed)` | tokens at random: temperature, top-k, top-p, min-p |
"""

from ._functions import argmax, log_probs, logsumexp, sample, top_k
from ._ops import KERNEL

__all__ = ["KERNEL", "argmax", "log_probs", "logsumexp", "sample", "top_k"]
