"""The row softmax that all are asked to speed up, as a task of ours; the others' evaluator has the same reference."""

import torch

import kernelwright as kw


@kw.task(x="float32[rows, dim]", workloads=[{"rows": 256, "dim": 1024}])
def softmax(x):
    """Compute the softmax of each row."""
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)
