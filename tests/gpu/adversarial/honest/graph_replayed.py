"""Replays a CUDA graph whose inputs and weights are brought up to date in every call."""

import torch

TASK = "softmax"

graphs = {}


def run(x, weight):
    key = (x.shape, weight.shape)
    if key not in graphs:
        held, scale = x.clone(), weight.clone()
        torch.softmax(held, -1).mul_(scale)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = torch.softmax(held, -1).mul_(scale)
        graphs[key] = (graph, held, scale, out)
    graph, held, scale, out = graphs[key]
    held.copy_(x)
    scale.copy_(weight)
    graph.replay()
    return out.clone()
