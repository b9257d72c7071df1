"""Layers over typed edges against PyTorch Geometric's, inference and training.

    python -m benchmarks.ops.graph [--only rgcn] [--threads 1] [--rounds 5] [--out rows.jsonl]

Ends of edges are drawn evenly; sizes are nodes x edges x relations, inner x outer. `RGCNConv` goes over the relations
one by one, `FastRGCNConv` multiplies for every edge; both are asked, the second where its products fit into memory.
The graph is sorted ahead, as it is for all layers and steps of a training.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn.functional import gelu
from torch_geometric.nn import FastRGCNConv, HGTConv, RGATConv, RGCNConv

from benchmarks.ops._turns import Case, main
from kernelwright.ops import graph

SIZES = (
    (1_000, 10_000, 4, 32, 32), (2_700, 10_500, 3, 64, 16), (10_000, 100_000, 8, 64, 64),
    (10_000, 300_000, 20, 32, 64), (20_000, 200_000, 40, 64, 32), (50_000, 400_000, 5, 32, 32),
    (20_000, 60_000, 10, 128, 128), (8_000, 60_000, 90, 16, 16),
)  # fmt: skip
"""Nodes, edges, relations, inner and outer width."""
_MOST_EDGE_BYTES = 1 << 30


def cases(only: str) -> Iterator[Case]:
    """Make the cases."""
    for nodes, edges, relations, inner, outer in SIZES:
        torch.manual_seed(0)
        x, ends, kind = (
            torch.randn(nodes, inner),
            torch.randint(nodes, (2, edges)),
            torch.randint(relations, (edges,)),
        )
        typed = graph.RelationalGraph(ends, kind, nodes=nodes, relations=relations)
        size = f"{nodes}x{edges}x{relations} {inner}x{outer}"
        for op, forms in (("rgcn", _rgcn), ("rgat", _rgat), ("hgt", _hgt)):
            if only in op:
                made = forms(x, ends, kind, typed, inner, outer)
                yield Case(op, size, "float32", {n: _plain(f) for n, (f, _) in made.items()}, 1e-3)
                yield Case(
                    f"{op} training", size, "float32", {n: _step(f, p) for n, (f, p) in made.items()}, 1e-3
                )


Form = tuple[Callable[[], torch.Tensor], list[torch.Tensor]]


def _rgcn(
    x: torch.Tensor,
    ends: torch.Tensor,
    kind: torch.Tensor,
    typed: graph.RelationalGraph,
    inner: int,
    outer: int,
) -> dict[str, Form]:
    peer = RGCNConv(inner, outer, typed.relations, aggr="mean")
    w, root, bias = peer.weight, peer.root, peer.bias
    forms: dict[str, Form] = {
        "kernel": (lambda: graph.rgcn(x, typed, w, root=root, bias=bias), [w, root]),
        "RGCNConv": (lambda: peer(x, ends, kind), [w, root]),
    }
    if kind.numel() * inner * outer * 4 < _MOST_EDGE_BYTES:
        fast = FastRGCNConv(inner, outer, typed.relations, aggr="mean")
        fast.load_state_dict(peer.state_dict())
        forms["FastRGCNConv"] = (lambda: fast(x, ends, kind), [fast.weight, fast.root])
    return forms


def _rgat(
    x: torch.Tensor,
    ends: torch.Tensor,
    kind: torch.Tensor,
    typed: graph.RelationalGraph,
    inner: int,
    outer: int,
) -> dict[str, Form]:
    peer = RGATConv(inner, outer // 4, typed.relations, heads=4)
    w, q, k, bias = peer.weight, peer.q, peer.k, peer.bias
    forms: dict[str, Form] = {
        "kernel": (lambda: graph.rgat(x, typed, w, q, k, bias=bias), [w, q, k]),
    }
    if kind.numel() * inner * outer * 4 < 4 * _MOST_EDGE_BYTES:
        forms["RGATConv"] = (lambda: peer(x, ends, kind), [w, q, k])
    return forms


def _hgt(
    x: torch.Tensor,
    ends: torch.Tensor,
    kind: torch.Tensor,
    typed: graph.RelationalGraph,
    inner: int,
    outer: int,
) -> dict[str, Form]:
    """One type of nodes; the linear layers before and behind are the peer's own in both."""
    heads, width = 4, outer // 4
    names = [("node", str(r), "node") for r in range(typed.relations)]
    peer = HGTConv(inner, outer, (["node"], names), heads=heads)
    edges = {name: ends[:, kind == r] for r, name in enumerate(names)}
    prior = torch.cat([peer.p_rel["__".join(name)] for name in names])

    def own() -> torch.Tensor:
        kqv = peer.kqv_lin({"node": x})["node"].view(-1, 3, heads, width)
        relations = [
            w.weight.view(heads, typed.relations, width, width).transpose(0, 1)
            for w in (peer.k_rel, peer.v_rel)
        ]
        out = graph.hgt(kqv[:, 1], kqv[:, 0], kqv[:, 2], typed, *relations, prior)
        out = peer.out_lin({"node": gelu(out)})["node"]
        if inner != outer:
            return out
        share = peer.skip["node"].sigmoid()
        return share * out + (1 - share) * x

    leaves = [peer.k_rel.weight, peer.v_rel.weight]
    return {"kernel": (own, leaves), "HGTConv": (lambda: peer({"node": x}, edges)["node"], leaves)}


def _plain(form: Callable[[], torch.Tensor]) -> Callable[[], Any]:
    def call() -> Any:
        with torch.no_grad():
            return form()

    return call


def _step(form: Callable[[], torch.Tensor], leaves: list[torch.Tensor]) -> Callable[[], Any]:
    return lambda: torch.autograd.grad(form().square().sum(), leaves)


if __name__ == "__main__":
    main(cases, "benchmarks.ops.graph")
