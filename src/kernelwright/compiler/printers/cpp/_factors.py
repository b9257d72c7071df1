"""The factors of a product and what follows it, as C++ functions of vectors."""

from collections.abc import Mapping, Sequence

from ...graph import Size, product
from ...tile import Axis, Contraction, Expression, Load, Position, Program, expressions, side_by_side, walk
from .. import Unprintable
from ._lanes import Lanes
from ._scalar import Scalar, Scope, bare, size_text
from ._statements import Body

PAIRS = "kw::Multiplied<kw::bfloat16>"
"""What factors are multiplied as that are read as bfloat16: pairs of it where the machine has them, else float32."""


def is_of_pairs(program: Program, *factors: Expression) -> bool:
    """Tell whether factors are multiplied as pairs of bfloat16: each is read as such, and nothing is done to it."""
    return all(isinstance(f, Load) and program.buffer(f.buffer).dtype == "bfloat16" for f in factors)


def factor(
    program: Program, name: str, roles: Mapping[str, Sequence[Axis]], along: str, value: Expression,
    *, is_walked: bool = False, is_asked: bool = False,
) -> list[str]:  # fmt: skip
    """Print the function of a factor.

    Args:
        program: What it is in.
        name: Of the function.
        roles: Name of a parameter → the axes that it counts through, in the order of the parameters.
        along: The role whose last axis lanes run along.
        value: An element.
        is_walked: Whether it is read from end to end, so that what is read a little later is asked for.
        is_asked: Whether the loops ask for what they read next, which only neighbours in memory answer.

    Raises:
        Unprintable: the factor is of another kind than float32, or has no lanes.
    """
    if value.kind != "float32":
        raise Unprintable(f"a factor of {value.kind}")
    used = {e.axis for e in walk(value) if isinstance(e, Position)}
    joined = side_by_side(value, roles[along]) if len(roles[along]) > 1 and along == "inner" else None
    if joined is not None:  # the other factor tells the axes apart, this one does not
        last, whole = roles[along][-1], product([a.size for a in roles[along]])
        value, roles = joined, {**roles, along: (Axis(last.name, whole),)}
    lanes = roles[along]
    apart = len(lanes) > 1 and along == "inner"
    parameters, lines = [], list[str]()
    for role, axes in roles.items():
        counter, apart_lines = parameter(role, axes, used)
        parameters.append(f"int64_t {counter}".rstrip())
        if not (apart and role == along):
            lines += apart_lines
    scope = Scope(program, axis="" if apart or not lanes else lanes[-1].name)
    if apart:
        one = " ".join(taken_apart("(inner + k)", lanes, used))
        text = f"kw::each(lanes, [&](int k) {{ {one} return {bare(Scalar(scope).text(value))}; }})"
        returned = [f"return {text};"]
    else:
        returned = [f"return {bare(Lanes(scope).text(value))};"]
        if is_walked and (asked := Lanes(scope).read_ahead(value)):
            returned.insert(0, asked)
    if is_asked:
        line = "" if apart else Lanes(scope).line(value)
        known = f"kw::asked_for({line})" if line else "kw::F{}"
        returned = [
            f"if constexpr (kw::is_ahead<decltype(lanes)>) return {known};",
            "else {", *(f"  {one}" for one in returned), "}",
        ]  # fmt: skip
    return [
        f"  const auto {name} = [=]({', '.join(parameters)}, auto lanes) KW_INLINED {{",
        *(f"    {one}" for one in (*lines, *returned)), "  };",
    ]  # fmt: skip


def finish(
    c: Contraction, body: Body, roles: Mapping[str, Sequence[Axis]] | None = None, along: Axis | None = None,
    *, name: str = "finish",
) -> list[str]:  # fmt: skip
    """Print the function of what follows the sums of a product; `body` prints its statements.

    `roles` are the parameters after the sums, each with the axes that it counts through: items, rows and columns.
    Lanes run along the last axis of columns, or along another one. `name` is the function's.
    """
    used = {e.axis for s in c.epilogue for x in expressions(s) for e in walk(x) if isinstance(e, Position)}
    parameters, lines = [], list[str]()
    for role, axes in (roles or {"item": c.batch, "row": c.rows, "column": c.columns}).items():
        counter, apart_lines = parameter(role, axes, used)
        parameters.append(f"int64_t {counter}".rstrip())
        lines += apart_lines
    if c.columns:
        body.scope.axis = (along or c.columns[-1]).name
        sums = [c.accumulator, *(other.accumulator for other in c.others)]
        body.scope.lanes |= dict.fromkeys(sums, "float32")
        head = ", ".join(f"kw::F {name}" for name in sums)
    else:
        head, lines = "kw::F sums", [*lines, f"const float {c.accumulator} = sums[0];"]
    return [
        f"  const auto {name} = [=]({head}, {', '.join(parameters)}, auto lanes) KW_INLINED {{",
        *(f"    {line}" for line in lines), *body.print(c.epilogue, 2), "  };",
    ]  # fmt: skip


def parameter(role: str, axes: Sequence[Axis], used: set[str]) -> tuple[str, list[str]]:
    """Return the parameter that counts through the axes of a role, and the statements that take it apart."""
    if not any(a.name in used for a in axes):
        return "", []
    return (axes[0].name, []) if len(axes) == 1 else (role, taken_apart(role, axes, used))


def taken_apart(whole: str, axes: Sequence[Axis], used: set[str]) -> list[str]:
    """Print the position on each axis from the count through all of them, the last fastest."""
    lines, behind = list[str](), 1
    for place, axis in reversed(list(enumerate(axes))):
        over = "" if not isinstance(behind, Size) and behind == 1 else f" / {size_text(behind)}"
        below = f" % {size_text(axis.size)}" if place else ""
        if axis.name in used:
            lines.append(f"const int64_t {axis.name} = {whole}{over}{below};")
        behind = behind * axis.size
    return lines
