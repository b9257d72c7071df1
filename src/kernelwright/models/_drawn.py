"""Graph → graph without random numbers: what it drew becomes inputs, which torch draws before each call.

Covers: dropout, and every operator that fills a new tensor by one of torch's samplers, in the order of the model, so
that the same seed gives the same numbers.
Does not cover: numbers whose distribution depends on values, such as `multinomial`.
"""

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from ..tasks import dtype_name
from ._records import Drawn, Sampler
from .pieces import Unprintable, is_random

_aten = torch.ops.aten


def draw(drawn: Sequence[Drawn]) -> list[torch.Tensor]:
    """Draw the tensors of one call, in order, from torch's default generator.

    Example:
        >>> keeps = Drawn(sampler="bernoulli_", arguments=(1.0,), shape=(2,), dtype="bool")
        >>> draw([keeps])
        [tensor([True, True])]
    """
    return [
        getattr(torch.empty(one.shape, dtype=getattr(torch, one.dtype)), one.sampler)(*one.arguments)
        for one in drawn
    ]


def drawing_text(drawn: Drawn) -> str:
    """Return Python that draws a tensor.

    Example:
        >>> drawing_text(Drawn(sampler="bernoulli_", arguments=(0.9,), shape=(2, 3), dtype="bool"))
        'torch.empty((2, 3), dtype=torch.bool).bernoulli_(0.9)'
    """
    given = ", ".join(map(repr, drawn.arguments))
    return f"torch.empty({drawn.shape}, dtype=torch.{drawn.dtype}).{drawn.sampler}({given})"


def drawn_outside(graph: fx.Graph) -> dict[str, Drawn]:
    """Make what a graph draws its last inputs; return each by the name of its input.

    Raises:
        Unprintable: an operator draws numbers that cannot be drawn ahead of the call.
    """
    found: dict[str, Drawn] = {}
    for node in [n for n in graph.nodes if n.op == "call_function" and is_random(n)]:
        drawn = _drawn(node)
        last = [n for n in graph.nodes if n.op == "placeholder"][-1]
        with graph.inserting_after(last):
            given = graph.placeholder(f"drawn{len(found)}")
        given.meta["val"] = torch.empty(drawn.shape, dtype=getattr(torch, drawn.dtype), device="meta")
        found[given.name] = drawn
        if node.target is _aten.native_dropout.default:
            _dropped(graph, node, given)
        else:
            node.replace_all_uses_with(given)
        graph.erase_node(node)
    return found


def _drawn(node: fx.Node) -> Drawn:
    _, name, overload = str(node.target).split(".")
    args, value = list(node.args), node.meta["val"]
    sampler: Sampler | None = None
    given: list[Any] = args[1:]
    match name:
        case "native_dropout":
            sampler, given, value = "bernoulli_", [1.0 - float(str(args[1]))], value[1]
        case "bernoulli" if overload == "p":
            sampler = "bernoulli_"
        case "rand" | "rand_like":
            sampler, given = "uniform_", []
        case "randn" | "randn_like":
            sampler, given = "normal_", []
        case "randint" | "randint_like":
            given = args[:-1] if name == "randint" else args[1:]
            sampler, given = "random_", given if len(given) == 2 else [0, *given]
        case "uniform":
            sampler = "uniform_"
        case "exponential":
            sampler = "exponential_"
        case "normal_functional":
            sampler = "normal_"
    fixed = all(isinstance(g, bool | int | float) for g in given) and node.kwargs.get("generator") is None
    if sampler is None or not fixed:
        raise Unprintable(f"{node.target} draws random numbers that cannot be drawn before the call")
    shape, dtype = tuple(value.shape), dtype_name(value.dtype)
    return Drawn(sampler=sampler, arguments=tuple(given), shape=shape, dtype=dtype)


def _dropped(graph: fx.Graph, node: fx.Node, mask: fx.Node) -> None:
    """Put a product with the mask in the place of a dropout."""
    x, share = node.args[0], float(str(node.args[1]))
    assert isinstance(x, fx.Node)
    with graph.inserting_before(node):
        kept = graph.call_function(_aten.mul.Tensor, (x, mask))
        scaled = graph.call_function(_aten.mul.Scalar, (kept, 1.0 / (1.0 - share) if share < 1.0 else 0.0))
    kept.meta["val"] = scaled.meta["val"] = node.meta["val"][0]
    for part in list(node.users):
        assert part.target is operator.getitem
        part.replace_all_uses_with(mask if part.args[1] else scaled)
        graph.erase_node(part)
