"""Layers over typed edges: relational convolution and attention, on segments of edges sorted once.

| function | what it computes |
|---|---|
| `RelationalGraph(edge_index, edge_type, ...)` | edges of several relations, sorted once for all calls |
| `rgcn(x, graph, weight, ...)` | a relational graph convolution |
| `rgat(x, graph, weight, query, key, ...)` | a relational graph attention, over all edges into a node |
| `hgt(query, key, value, graph, ...)` | a heterogeneous graph transformer's attention, over all edges into a node |
| `edge_softmax(first, scores)` | a softmax over the edges into each node |

What comes first, the product with a relation's weights or the sum over edges, is chosen by how many rows either
multiplies, and each pair of a relation and a node is multiplied once. Gradients flow to everything that is real.
"""

from pathlib import Path
from typing import Any, Literal

import torch
from torch.nn import functional

from .._core import Kernel, Op, checked, cpu_only, floats, matrix, refuse, remembered, told
from ..sparse import entries, multiplied
from . import reference
from ._plan import Ends, RelationalGraph

__all__ = ["KERNEL", "RelationalGraph", "edge_softmax", "hgt", "rgat", "rgcn"]

KERNEL = Kernel(Path(__file__).with_name("kernel.cpp"))
"""The library of this family."""
_Tensor = torch.Tensor
_AT_ONCE = 8.0
"""Multiplications that take as long as reading one number."""


def _check(name: str, first: _Tensor, scores: _Tensor) -> None:
    if (
        not isinstance(first, torch.Tensor)
        or first.dtype is not torch.int64
        or first.dim() != 1
        or not len(first)
    ):
        refuse(name, "first", told(first), "(nodes + 1,) int64")
    matrix(name, "scores", scores)


def _check_gradient(first: _Tensor, weights: _Tensor, grad: _Tensor) -> None:
    _check("graph.edge_softmax", first, weights)
    if grad.shape != weights.shape or grad.dtype is not weights.dtype:
        refuse("graph.edge_softmax", "grad", told(grad), told(weights))


def _serves(first: _Tensor, *others: _Tensor) -> str | None:
    for x in others:
        if x.dtype is not torch.float32:
            return f"a tensor is of {x.dtype}, and the kernel takes float32"
    if not all(x.is_contiguous() for x in (first, *others)):
        return "a tensor is not contiguous"
    return cpu_only(first, *others)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: _Tensor) -> None:
    ctx.save_for_backward(inputs[0], output)


def _gradient(ctx: Any, grad: _Tensor) -> tuple[Any, ...]:
    first, weights = ctx.saved_tensors
    if torch.is_grad_enabled():  # gradients of gradients are asked for, which the reference has
        return None, reference.edge_softmax_gradient(first, weights, grad)
    return None, _softmax_gradient(first, weights, grad.contiguous())


_softmax_gradient = Op(
    "graph_edge_softmax_gradient(Tensor crow, Tensor weights, Tensor grad) -> Tensor",
    reference=reference.edge_softmax_gradient, kernel=KERNEL, serves=_serves, check=_check_gradient,
    outputs=lambda first, weights, grad: torch.empty_like(weights),  # noqa: ARG005
)  # fmt: skip
_softmax = Op(
    "graph_edge_softmax(Tensor crow, Tensor scores) -> Tensor",
    reference=reference.edge_softmax, kernel=KERNEL, serves=_serves,
    check=lambda first, scores: _check("graph.edge_softmax", first, scores),
    outputs=lambda first, scores: torch.empty_like(scores), gradient=(_keep, _gradient),  # noqa: ARG005
)  # fmt: skip


@remembered
@checked
def edge_softmax(first: _Tensor, scores: _Tensor) -> _Tensor:
    """Return the softmax of scores over the edges into each node.

    Args:
        first: (nodes + 1,) int64, where the edges into each node begin (`RelationalGraph.first`).
        scores: (edges, heads) float32, edges sorted by target; other floats run the reference.

    Raises:
        ArgumentError: shapes or dtypes do not fit.
        ValueError: `first` does not ascend within the edges.

    Example:
        >>> edge_softmax(torch.tensor([0, 1, 3]), torch.tensor([[5.0], [1.0], [1.0]]))
        tensor([[1.0000],
                [0.5000],
                [0.5000]])
    """
    found: _Tensor = _softmax(first, scores)
    return found


@checked
def rgcn(
    x: _Tensor,
    graph: RelationalGraph,
    weight: _Tensor,
    *,
    root: _Tensor | None = None,
    bias: _Tensor | None = None,
    aggregate: Literal["mean", "sum"] = "mean",
) -> _Tensor:
    """Return a relational graph convolution: for each node, sums over relations of means of sources' products.

    Source: Schlichtkrull and others, Modeling Relational Data with Graph Convolutional Networks (2017), equation 2.

    Args:
        x: (nodes, inner) float32; other floats run references.
        graph: The edges.
        weight: (relations, inner, outer).
        root: (inner, outer), for the node itself; none if it has no part.
        bias: (outer,).
        aggregate: Whether the edges of a relation into a node are averaged or added.

    Returns:
        (nodes, outer).

    Raises:
        ArgumentError: shapes or dtypes do not fit.

    Example:
        >>> graph = RelationalGraph(torch.tensor([[0, 1], [2, 2]]), torch.tensor([0, 0]), nodes=3, relations=1)
        >>> rgcn(torch.tensor([[1.0], [3.0], [0.0]]), graph, torch.tensor([[[10.0]]]))
        tensor([[ 0.],
                [ 0.],
                [20.]])
    """
    _check_layer("graph.rgcn", x, graph, weight)
    _check_more("graph.rgcn", x, root=(root, weight.shape[1:]), bias=(bias, weight.shape[2:]))
    scale = graph.mean if aggregate == "mean" else torch.ones(len(graph.source), device=x.device)
    scale = scale.to(x.dtype)
    if _sums_first(graph, weight):
        begins, order, source = graph.into_targets
        sums = multiplied(begins, source, scale[order], x)
        products = _products(sums, graph.targets, weight)
        out = multiplied(*graph.of_targets, products.new_ones(len(products)), products)
    else:
        products = _products(x.index_select(0, graph.sources.node), graph.sources, weight)
        out = multiplied(graph.first, graph.sources.pair, scale, products)
    if root is not None:
        out = torch.addmm(out, x, root)
    return out if bias is None else out + bias


@checked
def rgat(
    x: _Tensor,
    graph: RelationalGraph,
    weight: _Tensor,
    query: _Tensor,
    key: _Tensor,
    *,
    slope: float = 0.2,
    bias: _Tensor | None = None,
) -> _Tensor:
    """Return a relational graph attention: products of sources, weighted by a softmax over all edges into a node.

    A score is `leaky_relu(x_i W_r q + x_j W_r k)` for an edge from j to i. Source: Busbridge and others, Relational
    Graph Attention Networks (2019), additive, across relations.

    Args:
        x: (nodes, inner) float32; other floats run references.
        graph: The edges.
        weight: (relations, inner, heads * outer).
        query: (heads * outer, heads).
        key: (heads * outer, heads).
        slope: Of the leaky relu below zero.
        bias: (heads * outer,).

    Returns:
        (nodes, heads * outer): heads side by side.

    Raises:
        ArgumentError: shapes or dtypes do not fit.

    Example:
        >>> graph = RelationalGraph(torch.tensor([[0, 1], [2, 2]]), torch.tensor([0, 0]), nodes=3, relations=1)
        >>> one = torch.ones(1, 1)
        >>> rgat(torch.tensor([[1.0], [1.0], [0.0]]), graph, torch.tensor([[[10.0]]]), one, one)[2]
        tensor([10.])
    """
    _check_layer("graph.rgat", x, graph, weight)
    wide = weight.shape[2]
    for name, one in (("query", query), ("key", key)):
        matrix("graph.rgat", name, one)
        if one.dtype is not x.dtype:
            refuse("graph.rgat", name, f"of {one.dtype}", f"{x.dtype}, as x is")
        if one.shape[0] != wide or not one.shape[1] or wide % one.shape[1] or one.shape != query.shape:
            refuse(
                "graph.rgat", name, f"of shape {tuple(one.shape)}", f"({wide}, heads), heads dividing {wide}"
            )
    _check_more("graph.rgat", x, bias=(bias, weight.shape[2:]))
    heads = query.shape[1]
    products = _products(x.index_select(0, graph.sources.node), graph.sources, weight)
    asked = _products(x.index_select(0, graph.targets.node), graph.targets, weight @ query)
    both = asked.index_select(0, graph.targets.pair) + (products @ key).index_select(0, graph.sources.pair)
    scores = functional.leaky_relu(both, slope)
    weights = edge_softmax(graph.first, scores)
    parts = products.view(len(products), heads, wide // heads).unbind(1)
    each = [
        multiplied(graph.first, graph.sources.pair, w.contiguous(), part.contiguous())
        for w, part in zip(weights.unbind(1), parts, strict=True)
    ]
    out = torch.cat(each, 1)
    return out if bias is None else out + bias


@checked
def hgt(
    query: _Tensor, key: _Tensor, value: _Tensor, graph: RelationalGraph, key_weight: _Tensor, value_weight: _Tensor,
    prior: _Tensor,
) -> _Tensor:  # fmt: skip
    """Return the attention of a heterogeneous graph transformer: values of sources, weighted by a softmax over edges.

    The score of an edge of relation r from j to i is `q_i . (k_j key_weight[r]) * prior[r] / sqrt(width)`, its message
    `v_j value_weight[r]`, each head by itself. The linear layers of each type of node, before and behind, are torch's.
    Source: Hu and others, Heterogeneous Graph Transformer (2020), section 3.

    Args:
        query: (nodes, heads, width) float32; other floats run references.
        key: (nodes, heads, width).
        value: (nodes, heads, width).
        graph: The edges.
        key_weight: (relations, heads, width, width).
        value_weight: (relations, heads, width, width).
        prior: (relations, heads).

    Returns:
        (nodes, heads * width): heads side by side; zero where no edge comes in.

    Raises:
        ArgumentError: shapes or dtypes do not fit.

    Example:
        >>> graph = RelationalGraph(torch.tensor([[0, 1], [2, 2]]), torch.tensor([0, 0]), nodes=3, relations=1)
        >>> x, one = torch.tensor([1.0, 3.0, 0.0]).view(3, 1, 1), torch.ones(1, 1, 1, 1)
        >>> hgt(x, x, x, graph, one, one, torch.ones(1, 1)).tolist()
        [[0.0], [0.0], [2.0]]
    """
    _check_hgt(query, key, value, graph, key_weight, value_weight, prior)
    width, sources = query.shape[2], graph.sources
    scaled = key_weight * (prior / width**0.5)[:, :, None, None]
    keys = _products_of_heads(key.transpose(0, 1).index_select(1, sources.node), sources, scaled)
    values = _products_of_heads(value.transpose(0, 1).index_select(1, sources.node), sources, value_weight)
    queries = query.transpose(0, 1).contiguous()
    # Heads are unbound, as the gradient of one that is indexed is as large as all.
    pairs = zip(queries.unbind(), keys.unbind(), strict=True)
    scores = torch.stack([entries(graph.first, sources.pair, q, k) for q, k in pairs], 1)
    weights = edge_softmax(graph.first, scores)
    each = [
        multiplied(graph.first, sources.pair, w.contiguous(), v)
        for w, v in zip(weights.unbind(1), values.unbind(), strict=True)
    ]
    return torch.cat(each, 1)


def _check_hgt(
    query: _Tensor, key: _Tensor, value: _Tensor, graph: RelationalGraph, key_weight: _Tensor, value_weight: _Tensor,
    prior: _Tensor,
) -> None:  # fmt: skip
    name = "graph.hgt"
    if not isinstance(graph, RelationalGraph):
        refuse(name, "graph", f"a {type(graph).__name__}", "a RelationalGraph")
    floats(name, "query", query)
    if query.dim() != 3 or len(query) != graph.nodes or not query.shape[1] or not query.shape[2]:
        refuse(name, "query", told(query), f"({graph.nodes}, heads, width), as the graph has nodes")
    heads, width = query.shape[1:]
    square = (graph.relations, heads, width, width)
    for what, one, shape in (
        ("key", key, query.shape), ("value", value, query.shape), ("key_weight", key_weight, square),
        ("value_weight", value_weight, square), ("prior", prior, square[:2]),
    ):  # fmt: skip
        if not isinstance(one, torch.Tensor) or one.shape != shape or one.dtype is not query.dtype:
            refuse(name, what, told(one), f"{tuple(shape)}, {query.dtype}")


def _products_of_heads(rows: _Tensor, ends: Ends, weight: _Tensor) -> _Tensor:
    """Multiply the rows (heads, pairs, width) of each relation by its weights."""
    parts = [
        part @ one
        for part, one in zip(torch.split_with_sizes(rows, ends.sizes, 1), weight.unbind(), strict=True)
    ]
    return torch.cat(parts, 1)


def _check_layer(name: str, x: _Tensor, graph: RelationalGraph, weight: _Tensor) -> None:
    if not isinstance(graph, RelationalGraph):
        refuse(name, "graph", f"a {type(graph).__name__}", "a RelationalGraph")
    matrix(name, "x", x)
    floats(name, "weight", weight)
    if len(x) != graph.nodes:
        refuse(name, "x", f"of {len(x)} rows", f"{graph.nodes}, as the graph has nodes")
    if weight.dim() != 3 or weight.shape[:2] != (graph.relations, x.shape[1]) or weight.dtype is not x.dtype:
        refuse(name, "weight", told(weight), f"({graph.relations}, {x.shape[1]}, outer), {x.dtype}")


def _check_more(name: str, x: _Tensor, **given: tuple[_Tensor | None, torch.Size]) -> None:
    """Refuse what is added to a layer's result if it does not fit."""
    for what, (one, shape) in given.items():
        if one is not None and (one.shape != shape or one.dtype is not x.dtype):
            refuse(name, what, told(one), f"{tuple(shape)}, {x.dtype}")


def _sums_first(graph: RelationalGraph, weight: _Tensor) -> bool:
    """Tell whether to add up over edges before multiplying: where that reads and multiplies less."""
    _, inner, outer = weight.shape
    edges, into, out_of = len(graph.source), len(graph.targets.node), len(graph.sources.node)
    each = inner * outer / _AT_ONCE
    return edges * inner + into * (outer + each) < out_of * (inner + each) + edges * outer


def _products(rows: _Tensor, ends: Ends, weight: _Tensor) -> _Tensor:
    """Multiply the rows of each relation by its weights.

    They are split, and the weights unbound: gradients of slices would each be as large as all rows.
    """
    parts = zip(torch.split_with_sizes(rows, ends.sizes), weight.unbind(), strict=True)
    return torch.cat([part @ one for part, one in parts])
