"""Contraction → Kernel: its plain loops, which say what it means."""

import math

from ._expression import Call, Expression, Literal, Result, number
from ._parts import Member, Weights
from ._program import Begin, Contraction, Kernel, Let, Loop, Statement, Update


def as_loops(contraction: Contraction) -> Kernel:
    """Print a contraction as plain loops: for languages without a dedicated form."""
    kept_in = contraction.tiling.accumulate
    members = (Member(contraction.accumulator, contraction.right), *contraction.others)
    inner: tuple[Statement, ...] = ()
    results = list[Let]()
    for member in members:
        term: Expression = Call("mul", (contraction.left, member.right), (), "float32")
        found: Expression = Result(f"{member.accumulator}_sum", kind=kept_in)
        if kept_in != "float32":
            term, found = Call("cast", (term,), (), kept_in), Call("cast", (found,), (), "float32")
        inner = (*inner, Update(f"{member.accumulator}_sum", term))
        results.append(Let(member.accumulator, found))
    for axis in reversed(contraction.inner):
        inner = (Loop(axis.name, number(axis.size), inner),)
    begun = [Begin(f"{member.accumulator}_sum", "sum", kept_in) for member in members]
    body: tuple[Statement, ...] = (*begun, *inner, *results, *contraction.epilogue)
    if contraction.weights:
        body = _attended(contraction, contraction.weights)
    axes = (*contraction.batch, *contraction.rows, *contraction.columns)
    for place, axis in reversed(list(enumerate(axes))):
        last = place == len(axes) - 1 and len(axes) > 1
        body = (Loop(axis.name, number(axis.size), body, parallel=place == 0, vector=last),)
    return Kernel(contraction.name, body, contraction.comment)


def _attended(c: Contraction, w: Weights) -> tuple[Statement, ...]:
    """Return the loops of one element of an attention: largest score, sum of powers, sum over values."""
    top, total = Result(f"{w.name}_top"), Result(f"{w.name}_total")

    def over_scores(what: str, *then: Statement) -> Statement:
        sums = f"{w.accumulator}_{what}"
        dot: tuple[Statement, ...] = (Update(sums, Call("mul", (w.query, w.key))),)
        for axis in reversed(w.depth):
            dot = (Loop(axis.name, number(axis.size), dot),)
        begun: tuple[Statement, ...] = (Begin(sums, "sum"), *dot, Let(w.accumulator, Result(sums)), *then)
        for axis in reversed(c.inner):
            begun = (Loop(axis.name, number(axis.size), begun),)
        return begun[0]

    power = Call("exp", (Call("sub", (w.score, top)),))
    weight: Expression = Call("div", (power, total))
    if w.safe:
        dead = Call("eq", (top, Literal(-math.inf)), (), "bool")
        weight = Call("where", (dead, Literal(0.0), weight))
    sums = f"{c.accumulator}_sum"
    product = Update(sums, Call("mul", (c.left, c.right)))
    return (
        Begin(f"{w.name}_top", "max"), over_scores("first", Update(f"{w.name}_top", w.score)),
        Begin(f"{w.name}_total", "sum"), over_scores("second", Update(f"{w.name}_total", power)),
        Begin(sums, "sum"), over_scores("last", Let(w.name, weight), product),
        Let(c.accumulator, Result(sums)), *c.epilogue,
    )  # fmt: skip
