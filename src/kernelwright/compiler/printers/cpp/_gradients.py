"""An attention and its gradients as C++: factors, scores and what follows as functions of vectors, the loops in
`attention_gradient.h`.
"""

from collections.abc import Mapping, Sequence

from ...graph import product
from ...tile import (
    Axis,
    Call,
    Expression,
    Gradients,
    Literal,
    Load,
    Position,
    Program,
    Variable,
    positions,
    walk,
)
from ._contraction import print_contraction
from ._factors import factor, finish, parameter
from ._hidden import Hidden
from ._lanes import Lanes
from ._scalar import Scope, bare, size_text
from ._statements import Body

_ROWS = {"of_out": "value_rows", "of_query": "key_rows", "of_key": "query_rows", "of_value": "slope_rows"}
"""Product → the function of the rows that it multiplies weights or changes by."""


def gradients(g: Gradients, program: Program) -> list[str]:
    """Print the body of the kernel's function.

    Raises:
        Unprintable: a factor, the score or what follows has no lanes.
    """
    *items, row, key = g.axes
    s, t = g.scores, g.slopes
    lines = [
        "  // A tile of rows keeps its weights and what changes its scores in the second cache.",
        *factor(program, "query", {"item": s.batch, "row": s.rows, "inner": s.inner}, "inner", s.left),
        *factor(program, "key", {"item": s.batch, "column": s.columns, "inner": s.inner}, "inner", s.right),
        *factor(program, "slope", {"item": t.batch, "row": t.rows, "inner": t.inner}, "inner", t.left),
        *factor(program, "value", {"item": t.batch, "column": t.columns, "inner": t.inner}, "inner", t.right),
        *_function("score", [s.accumulator], g.axes, g.score, program),
        *_function("through", [g.weight, t.accumulator, g.total or "total"], g.axes, g.change, program),
        *(
            Hidden(program, [row], key, s.accumulator).function(g.score, items)
            if _vanishes(g.change, g.weight, key.name)
            else ["  const kw::Unmasked masked;"]
        ),
    ]  # fmt: skip
    members = dict(g.members)
    for role, rows in _ROWS.items():
        if role not in members:
            lines += [f"  constexpr kw::Unasked {rows}, {role};"]
            continue
        c = members[role]
        roles = {"item": c.batch, "inner": c.inner, "column": c.columns}
        lines += factor(program, rows, roles, "column", c.right)
        lines += finish(c, Body(program, contraction=print_contraction), name=role)
    sizes = [[a.size for a in items], [row.size], [key.size], [s.inner[0].size], [t.inner[0].size]]
    listed = ", ".join(bare(size_text(product(size))) for size in sizes)
    given = [f"{role}, {rows}" for role, rows in _ROWS.items()]
    return [
        *lines,
        f"  const kw::AttentionShape sizes{{{listed}}};  // batch, rows, keys, inner, columns",
        f"  kw::attend_with_gradients<{'true' if g.safe else 'false'}>(sizes, query, key, slope, value, score, "
        f"through, masked, {', '.join(given)});",
    ]


def _function(
    name: str, sums: Sequence[str], axes: Sequence[Axis], value: Expression, program: Program
) -> list[str]:
    """Print a function of vectors along keys."""
    *items, row, key = axes
    used = {e.axis for e in walk(value) if isinstance(e, Position)}
    roles: Mapping[str, Sequence[Axis]] = {"item": items, "row": [row], "key": [key]}
    parameters, lines = [f"kw::F {each}" for each in sums], list[str]()
    for role, of in roles.items():
        counter, apart = parameter(role, of, used)
        parameters.append(f"int64_t {counter}".rstrip())
        lines += apart
    scope = Scope(program, lanes=dict.fromkeys(sums, "float32"), axis=key.name)
    return [
        f"  const auto {name} = [=]({', '.join(parameters)}, auto lanes) KW_INLINED {{",
        *(f"    {line}" for line in lines), f"    return {bare(Lanes(scope).text(value))};", "  };",
    ]  # fmt: skip


def _vanishes(e: Expression, weight: str, key: str) -> bool:
    """Tell whether a change is zero where the weight is, if what it is multiplied by is finite.

    The kernel looks at each row's, so nothing that is read may vary along keys.
    """
    match e:
        case Variable(name):
            return name == weight
        case Literal(value):
            return value == 0
        case Call("mul", (a, b), ()):
            loads = (x for s in (a, b) if s is not None for x in walk(s) if isinstance(x, Load))
            return not any(key in positions(x) for x in loads) and any(
                x is not None and _vanishes(x, weight, key) for x in (a, b)
            )
        case Call("div" | "neg", (a, *_), ()) if a is not None:
            return _vanishes(a, weight, key)
        case Call("add" | "sub", (a, b), ()):
            return all(x is not None and _vanishes(x, weight, key) for x in (a, b))
        case Call("where", (_, a, b), ()):
            return all(x is not None and _vanishes(x, weight, key) for x in (a, b))
        case _:
            return False


__all__ = ["gradients"]
