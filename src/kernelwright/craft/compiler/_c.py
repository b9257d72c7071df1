"""Statements → C, which a C compiler turns into the baseline for RISC-V."""

from collections.abc import Mapping, Sequence

from ..expression import Array, Expr, Gather, Map, MatMul, Reduce, Size, Statement, Transpose, measure

_BINARY = {"add": "({a} + {b})", "sub": "({a} - {b})", "mul": "({a} * {b})", "div": "({a} / {b})",
           "max": "({a} > {b} ? {a} : {b})", "min": "({a} < {b} ? {a} : {b})", "gt": "(float)({a} > {b})"}  # fmt: skip


def c_source(statements: Sequence[Statement], arrays: Sequence[Array], most: Mapping[str, int]) -> str:
    """Return the C of a kernel: `void kernel(const long *p)`, whose words are addresses and then sizes.

    Args:
        statements: What to do, in order.
        arrays: Every array; `p` holds the address of each that is given or wanted, then of the workspace.
        most: The largest value of every size, in the order in which `p` holds them.
    """
    known = {a.name: a for a in arrays}
    outside = [a for a in arrays if a.role != "temp"]
    lines = ["void kernel(const long *p) {"]
    for n, a in enumerate(outside):
        qualifier = "const " if a.role == "in" else ""
        lines.append(f"  {qualifier}float *restrict {a.name}_ = ({qualifier}float *)p[{n}];")
    work, at = len(outside), 0
    for a in arrays:
        if a.role == "temp":
            lines.append(f"  float *restrict {a.name}_ = (float *)p[{work}] + {at};")
            at += measure(a.rows, most) * measure(a.cols, most)
    lines += [f"  long {name} = p[{work + 1 + n}];" for n, name in enumerate(most)]
    for statement in statements:
        lines += [f"  {line}" for line in _statement(statement, known)]
    return "\n".join([*lines, "}", ""])


def _statement(s: Statement, arrays: Mapping[str, Array]) -> list[str]:
    out = arrays[s.out]
    match s:
        case Map():
            return [
                *_loops(out.rows, out.cols),
                f"    {s.out}_[r * ({out.cols}) + c] = {_value(s.expr, arrays)};",
            ]
        case Reduce():
            over, value = arrays[s.over], _value(s.expr, arrays)
            fold = f"t += {value};" if s.op == "add" else f"{{ float u = {value}; t = u > t ? u : t; }}"
            return [
                f"for (long r = 0; r < {over.rows}; r++) {{",
                f"  float t = {'0.0f' if s.op == 'add' else '-__builtin_inff()'};",
                f"  for (long c = 0; c < {over.cols}; c++) {fold}",
                f"  {s.out}_[r] = t; }}",
            ]
        case MatMul():
            inner = arrays[s.a].cols
            factor = f"{s.b}_[c * ({inner}) + j_]" if s.transposed else f"{s.b}_[j_ * ({out.cols}) + c]"
            return [
                *_loops(out.rows, out.cols),
                "  { float t = 0.0f;",
                f"    for (long j_ = 0; j_ < {inner}; j_++) t += {s.a}_[r * ({inner}) + j_] * {factor};",
                f"    {s.out}_[r * ({out.cols}) + c] = t; }}",
            ]
        case Transpose():
            return [
                *_loops(out.rows, out.cols),
                f"    {s.out}_[r * ({out.cols}) + c] = {s.a}_[c * ({out.rows}) + r];",
            ]
        case Gather():
            row = f"(long){s.index}_[r]"
            return [
                *_loops(out.rows, out.cols),
                f"    {s.out}_[r * ({out.cols}) + c] = {s.table}_[{row} * ({out.cols}) + c];",
            ]


def _loops(rows: Size, cols: Size) -> list[str]:
    return [f"for (long r = 0; r < {rows}; r++)", f"  for (long c = 0; c < {cols}; c++)"]


def _value(e: Expr, arrays: Mapping[str, Array]) -> str:
    match e.op:
        case "const":
            return f"{e.number!r}f"
        case "size":
            return f"(float)({e.name})"
        case "row" | "col":
            return f"(float){e.op[0]}"
        case "ref":
            cols, place = arrays[e.name].cols, int(e.number)
            index = {"full": f"r * ({cols}) + c", "row": "c", "col": "r", "elem": str(place)}
            return f"{e.name}_[{index.get(e.mode, f'r * ({cols}) + c + {place}')}]"
        case "exp" | "sqrt":
            return f"__builtin_{e.op}f({_value(e.args[0], arrays)})"
    a, b = (_value(x, arrays) for x in e.args)
    return _BINARY[e.op].format(a=a, b=b)
