"""Readable Python lines: no redundant parentheses, long calls with one argument per line."""

import ast

_WIDTH = 110


def tidied(line: str) -> list[str]:
    """Return a statement without needless parentheses; a long call takes several lines.

    Comments and heads of loops stay.

    Example:
        >>> tidied("    y = ((a * b) + c)")
        ['    y = a * b + c']
    """
    text = line.lstrip()
    indent = line[: len(line) - len(text)]
    if not text or text.startswith("#") or text.endswith(":"):
        return [line]
    (statement,) = ast.parse(text).body
    whole = indent + ast.unparse(statement)
    if len(whole) <= _WIDTH or not isinstance(statement, ast.Assign | ast.Expr):
        return [whole]
    call, named = statement.value, ast.unparse(statement)
    if not isinstance(call, ast.Call):
        return [whole]
    head = named.removesuffix(ast.unparse(call)) + ast.unparse(call.func)
    given = [*map(ast.unparse, call.args), *map(ast.unparse, call.keywords)]
    return [f"{indent}{head}(", *(f"{indent}    {each}," for each in given), f"{indent})"]
