"""Recurrent layers over whole sequences: torch computes them, the graph form can interpret them."""

from typing import cast

from ....tasks.capture import Node as Captured
from ....tasks.capture import Ref
from .._nodes import Layer, Node, Recurrent
from .._reader import NotRead, Reader, Result, ints, number, rule


@rule("lstm", "gru", "rnn_tanh", "rnn_relu")
def _recurrent(b: Reader, op: Captured) -> Result:
    given = op.arguments()
    if not op.op.endswith(".input"):
        raise NotRead("a packed sequence")
    if number(given["dropout"]) and given["train"]:
        raise NotRead("random numbers between layers")
    states = given["hx"]
    sources = (
        given["input"],
        *(states if isinstance(states, tuple) else (states,)),
        *_several(given["params"]),
    )
    results: dict[int, Node] = {}
    for used in b.captured.users(op.name):
        place = ints(used.args[1])[0]
        results[place] = Recurrent(
            name=b.name(("rows", "last", "cell")[place]), shape=used.shape, dtype=used.dtype, op=op.op,
            sources=tuple(map(b.node, sources)), layer=cast(Layer, op.op.split(".")[1]),
            biased=bool(given["has_biases"]), layers=ints(given["num_layers"])[0],
            both_ways=bool(given["bidirectional"]), batch_first=bool(given["batch_first"]), result=place,
        )  # fmt: skip
    return tuple(results.get(place) for place in range(3))


def _several(refs: object) -> tuple[object, ...]:
    return refs if isinstance(refs, tuple) and all(isinstance(r, Ref) for r in refs) else ()
