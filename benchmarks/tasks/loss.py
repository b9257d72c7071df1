"""Losses: the whole input to one number, or one a row."""

import torch
import torch.nn.functional as F

import kernelwright as kw

SIZES = [{"rows": 256, "classes": 1000}, {"rows": 384, "classes": 32000}]
PAIRS = [{"rows": 256, "dim": 1024}, {"rows": 4096, "dim": 1500}]


@kw.task(logits="float32[rows, classes]", target="int64[rows] index(classes)", workloads=SIZES)
def cross_entropy(logits, target):
    return F.cross_entropy(logits, target)


@kw.task(logp="float32[rows, classes]", target="int64[rows] index(classes)", workloads=SIZES)
def nll_of_log_softmax(logp, target):
    return F.nll_loss(torch.log_softmax(logp, -1), target, reduction="none")


@kw.task(x="float32[rows, dim]", y="float32[rows, dim]", workloads=PAIRS)
def mse(x, y):
    return F.mse_loss(x, y)


@kw.task(x="float32[rows, dim]", y="float32[rows, dim]", workloads=PAIRS)
def smooth_l1(x, y):
    return F.smooth_l1_loss(x, y)


@kw.task(x="float32[rows, dim] probabilities", y="float32[rows, dim] probabilities", workloads=PAIRS)
def kl_div(x, y):
    return F.kl_div(torch.log(x), y, reduction="batchmean")


@kw.task(x="float32[rows, dim]", y="float32[rows, dim] uniform(0, 1)", workloads=PAIRS)
def bce_with_logits(x, y):
    return F.binary_cross_entropy_with_logits(x, y)


@kw.task(x="float32[rows, dim]", y="float32[rows, dim]", workloads=PAIRS)
def cosine_loss(x, y):
    return torch.mean(1 - F.cosine_similarity(x, y, dim=1))
