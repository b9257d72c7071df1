"""Attention as C++: query, key, value, score and what follows as functions of vectors, the loops in `attention.h`."""

from ...graph import product
from ...tile import Contraction, Expression, Position, Program, lies_along, walk
from .. import Unprintable
from ._factors import PAIRS, factor, finish, is_of_pairs, parameter
from ._hidden import Hidden
from ._lanes import Lanes
from ._scalar import Scope, bare, size_text
from ._statements import Body


def attention(c: Contraction, program: Program, body: Body) -> list[str]:
    """Print the body of the kernel's function.

    Args:
        c: An attention whose indices are offsets (`merged`).
        program: What it is a step of.
        body: Prints what follows.

    Raises:
        Unprintable: keys, values or depth run along several axes, or the score has no lanes.
    """
    w = c.weights
    assert w is not None
    if len(c.inner) != 1 or len(c.columns) != 1 or len(w.depth) != 1:
        raise Unprintable("attention whose keys, values or depth are not one axis each")
    (key,) = c.inner
    along = "column" if lies_along(w.key, key.name) and not lies_along(w.key, w.depth[0].name) else "inner"
    sizes = [product([a.size for a in axes]) for axes in (c.batch, c.rows, c.inner, w.depth, c.columns)]
    listed = ", ".join(bare(size_text(size)) for size in sizes)
    way = {"column": "kColumns", "inner": "kInner"}[along]
    return [
        "  // A block of keys and values stays in the second cache, a tile's scores in the first.",
        *factor(program, "query", {"item": c.batch, "row": c.rows, "inner": w.depth}, "inner", w.query),
        *factor(program, "key", {"item": c.batch, "inner": w.depth, "column": c.inner}, along, w.key),
        *factor(program, "value", {"item": c.batch, "inner": c.inner, "column": c.columns}, "column", c.right),
        *_score(c, program, w.score),
        *Hidden(program, c.rows, key, w.accumulator).function(w.score, c.batch),
        *finish(c, body),
        f"  const kw::AttentionShape sizes{{{listed}}};  // batch, rows, keys, inner, columns",
        f"  kw::attend<kw::Along::{way}, {'true' if w.safe else 'false'}, {c.tiling.block}, "
        f"{PAIRS if is_of_pairs(program, w.query, w.key, c.right) else 'float'}>"
        "(sizes, query, key, value, score, masked, finish);",
    ]  # fmt: skip


def _score(c: Contraction, program: Program, score: Expression) -> list[str]:
    """Print the function of a vector of scores."""
    assert c.weights is not None
    used = {e.axis for e in walk(score) if isinstance(e, Position)}
    parameters, lines = [], list[str]()
    for role, axes in {"item": c.batch, "row": c.rows, "inner": c.inner}.items():
        counter, apart = parameter(role, axes, used)
        parameters.append(f"int64_t {counter}".rstrip())
        lines += apart
    scope = Scope(program, lanes={c.weights.accumulator: "float32"}, axis=c.inner[0].name)
    return [
        f"  const auto score = [=](kw::F {c.weights.accumulator}, {', '.join(parameters)}, auto lanes) KW_INLINED {{",
        *(f"    {line}" for line in lines), f"    return {bare(Lanes(scope).text(score))};", "  };",
    ]  # fmt: skip


__all__ = ["attention"]
