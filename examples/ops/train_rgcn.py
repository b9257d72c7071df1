"""Train a relational graph convolution: nodes are told apart by the types of their edges alone.

Edges of relation r lead from nodes of class c to nodes of class c + r; features are noise, but for those of a fifth of
the nodes, which name their class. Run `python examples/ops/train_rgcn.py`.
"""

import argparse
import itertools

import torch
from torch import nn
from torch.nn import functional

from kernelwright.ops import graph, optim


def planted(
    nodes: int, edges: int, relations: int, labelled: float = 0.2
) -> tuple[graph.RelationalGraph, torch.Tensor, torch.Tensor]:
    """Return a graph, features that name the class of some nodes, and the classes of all."""
    classes = torch.randint(relations, (nodes,))
    members = [(classes == c).nonzero()[:, 0] for c in range(relations)]
    kinds, source = torch.randint(relations, (edges,)), torch.randint(nodes, (edges,))
    wanted = (classes[source] + kinds) % relations
    target = torch.stack([members[int(c)][torch.randint(len(members[int(c)]), ())] for c in wanted])
    known = torch.rand(nodes, 1) < labelled
    features = functional.one_hot(classes, relations) * known + 0.1 * torch.randn(nodes, relations)
    typed = graph.RelationalGraph(torch.stack([source, target]), kinds, nodes=nodes, relations=relations)
    return typed, features, classes


class Network(nn.Module):
    """Two layers."""

    def __init__(self, relations: int, widths: tuple[int, int, int]) -> None:
        super().__init__()
        pairs = list(itertools.pairwise(widths))
        self.weights = nn.ParameterList(torch.randn(relations, a, b) * a**-0.5 for a, b in pairs)
        self.roots = nn.ParameterList(torch.randn(a, b) * a**-0.5 for a, b in pairs)

    def forward(self, x: torch.Tensor, typed: graph.RelationalGraph) -> torch.Tensor:
        hidden = graph.rgcn(x, typed, self.weights[0], root=self.roots[0]).relu()
        return graph.rgcn(hidden, typed, self.weights[1], root=self.roots[1])


def main(arguments: list[str] | None = None) -> float:
    """Train on half of the nodes; return the share of the others whose class is found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--edges", type=int, default=50_000)
    parser.add_argument("--relations", type=int, default=5)
    parser.add_argument("--steps", type=int, default=60)
    given = parser.parse_args(arguments)
    torch.manual_seed(0)
    typed, x, classes = planted(given.nodes, given.edges, given.relations)
    model = Network(given.relations, (given.relations, 32, given.relations))
    optimizer = optim.AdamW(model.parameters(), lr=0.01)
    half = given.nodes // 2
    for step in range(given.steps):
        optimizer.zero_grad()
        found = functional.cross_entropy(model(x, typed)[:half], classes[:half])
        found.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step}: loss {float(found.detach()):.4f}")
    with torch.no_grad():
        right = float((model(x, typed).argmax(1) == classes)[half:].float().mean())
    print(f"{right:.1%} of the other nodes")
    return right


if __name__ == "__main__":
    main()
