"""Integer constants of a KernelBench file: where they are, and the file with other values substituted."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from ._source import parse

LEAST_LITERAL = 16
"""Literals inside a function below this count as options (kernel size, dimension), not as sizes."""
_FUNCTIONS = ("get_inputs", "get_init_inputs")
_MOST_BITS = 63


@dataclass(frozen=True)
class Constant:
    """One integer in the source."""

    name: str
    """The module-level name (`batch_size`, `shape[1]` inside a tuple), or `get_inputs.0` for a literal."""
    value: int
    """Its value in the file."""
    line: int
    """First line of its expression, from 1."""
    column: int
    """First byte of its expression in that line, from 0."""
    end: int
    """Byte after its expression, same line."""


def constants(text: str, origin: str = "task.py") -> dict[str, Constant]:
    """Find the integers that may be sizes, in the order of the file.

    At module level every integer assigned to a name counts, alone or inside a tuple or list (`[64] * 3`
    too), and arithmetic on literals counts as one (`64 * 1024`). In `get_inputs` and `get_init_inputs`
    literals from 16 up count.

    Example:
        >>> [(c.name, c.value) for c in constants("N = 4 * 8\\ndef get_inputs(): return [f(N, 64)]").values()]
        [('N', 32), ('get_inputs.0', 64)]
    """
    return {c.name: c for c in _constants(text, origin)}


@lru_cache(maxsize=64)
def _constants(text: str, origin: str) -> tuple[Constant, ...]:
    found: dict[str, Constant] = {}
    for node in parse(text, origin).body:
        if isinstance(node, ast.Assign):
            sites = _bound(node.targets[0], node.value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            sites = _assigned(node.target.id, node.value)
        elif isinstance(node, ast.FunctionDef) and node.name in _FUNCTIONS:
            sites = _literals(node)
        else:
            continue
        for name, expression, value in sites:
            if expression.lineno == expression.end_lineno and expression.end_col_offset is not None:
                found[name] = Constant(
                    name, value, expression.lineno, expression.col_offset, expression.end_col_offset
                )
    return tuple(found.values())


def substitute(text: str, values: Mapping[str, int], origin: str = "task.py") -> str:
    """Return the text with the named constants set to these values; everything else is unchanged.

    Example:
        >>> substitute("N = 64  # rows\\n", {"N": 8})
        'N = 8  # rows\\n'
    """
    sites = [c for c in constants(text, origin).values() if values.get(c.name, c.value) != c.value]
    lines = text.encode().split(b"\n")
    for site in sorted(sites, key=lambda c: (c.line, c.column), reverse=True):
        row = lines[site.line - 1]
        lines[site.line - 1] = row[: site.column] + str(values[site.name]).encode() + row[site.end :]
    return b"\n".join(lines).decode()


def used_by_init(text: str, origin: str = "task.py") -> frozenset[str]:
    """Name the constants that `get_init_inputs` reads, through other module-level names too."""
    tree = parse(text, origin)
    reads = {
        name: names
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        for name, names in _reads(node.targets[0], target, node.value)
    }
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "get_init_inputs"]
    waiting = [name for f in functions for name in _names(f)]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend(reads.get(name, ()))
    own = {n for n in constants(text, origin) if n.startswith("get_init_inputs.") or n.split("[")[0] in seen}
    return frozenset(own)


def _reads(first: ast.expr, target: ast.expr, value: ast.expr) -> Iterator[tuple[str, set[str]]]:
    """Pair each bound name with the names it depends on: in its own value, and the first of a chain."""
    parts = (first, target, value)
    if all(isinstance(part, ast.Tuple) for part in parts):
        for each in zip(*(part.elts for part in parts if isinstance(part, ast.Tuple)), strict=False):
            yield from _reads(*each)
    else:
        for name in _names(target):
            yield name, _names(value) | _names(first)


def _bound(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr, int]]:
    """Follow `n = 4`, `n = m = 4` (named by the first) and `n, m = 4, 8`."""
    if isinstance(target, ast.Name):
        yield from _assigned(target.id, value)
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for one, its in zip(target.elts, value.elts, strict=False):
            yield from _bound(one, its)


def _assigned(name: str, value: ast.expr) -> Iterator[tuple[str, ast.expr, int]]:
    folded = _fold(value)
    if folded is not None:
        yield name, value, folded
    elif isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult) and isinstance(value.left, ast.List):
        yield from _assigned(name, value.left)
    elif isinstance(value, ast.Tuple | ast.List):
        for index, element in enumerate(value.elts):
            yield from _assigned(f"{name}[{index}]", element)


def _literals(function: ast.FunctionDef) -> Iterator[tuple[str, ast.expr, int]]:
    found: list[tuple[ast.expr, int]] = []
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        folded = _fold(node) if isinstance(node, ast.expr) else None
        if folded is None:
            waiting.extend(ast.iter_child_nodes(node))
        elif folded >= LEAST_LITERAL and isinstance(node, ast.expr):
            found.append((node, folded))
    found.sort(key=lambda pair: (pair[0].lineno, pair[0].col_offset))
    for index, (expression, value) in enumerate(found):
        yield f"{function.name}.{index}", expression, value


def _fold(node: ast.expr) -> int | None:
    """Evaluate integer literals joined by arithmetic; none for anything else."""
    match node:
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            return value
        case ast.BinOp(left=left, op=operator, right=right):
            a, b = _fold(left), _fold(right)
            if a is None or b is None:
                return None
            return _arithmetic(operator, a, b)
    return None


def _arithmetic(operator: ast.operator, a: int, b: int) -> int | None:
    match operator:
        case ast.Add():
            return a + b
        case ast.Sub():
            return a - b
        case ast.Mult():
            return a * b
        case ast.FloorDiv() if b:
            return a // b
        case ast.Pow() if 0 <= b <= _MOST_BITS:
            return int(a**b)
        case ast.LShift() if 0 <= b <= _MOST_BITS:
            return a << b
    return None


def _names(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
