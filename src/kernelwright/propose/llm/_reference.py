"""The part of a task's file that a model may see: the computation, but not how it is judged.

Covers: hidden and confirm sizes, regimes, contracts and value distributions in `@kw.task(...)`; input
generators; everything else in the file that the entry does not use.
Does not cover: what a comment inside the entry itself reveals.
"""

import ast

from ...records import Reference


def shown_source(reference: Reference) -> str:
    """Return the entry and its dependencies, in file order, without task decorators.

    Example:
        >>> from kernelwright.records import SourceFile
        >>> text = "HIDDEN = [7]\\n@kw.task(x='float32[n]', hidden=HIDDEN)\\ndef f(x):\\n    return -x\\n"
        >>> file = SourceFile(path="f.py", text=text)
        >>> print(shown_source(Reference(files=(file,), entry="f.py:f", style="function")))
        def f(x):
            return -x
    """
    text, symbol = reference.files[0].text, reference.entry.rpartition(":")[2]
    body = [node for node in ast.parse(text).body if not _is_script(node)]
    needed = _needed(body, symbol)
    lines = text.splitlines()
    parts = ["\n".join(_lines(node, lines)) for node in body if _bound(node) & needed]
    return "\n\n".join(parts)


def _is_script(node: ast.stmt) -> bool:
    """Return whether a statement is only for running the file: `if __name__ == "__main__":`."""
    return isinstance(node, ast.If) and "__name__" in {
        n.id for n in ast.walk(node.test) if isinstance(n, ast.Name)
    }


def _needed(body: list[ast.stmt], symbol: str) -> set[str]:
    """Return the names that the entry uses, directly or indirectly."""
    needed: set[str] = set()
    waiting = {symbol}
    while waiting:
        needed |= waiting
        used = {name for node in body if _bound(node) & waiting for name in _used(node)}
        waiting = used - needed
    return needed


def _bound(node: ast.stmt) -> set[str]:
    """Return the names that a top-level statement binds."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _used(node: ast.stmt) -> set[str]:
    hidden = {id(n) for decorator in _task_decorators(node) for n in ast.walk(decorator)}
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and id(n) not in hidden}


def _task_decorators(node: ast.stmt) -> list[ast.expr]:
    if not isinstance(node, ast.FunctionDef):
        return []
    return [d for d in node.decorator_list if isinstance(d, ast.Call) and _name(d.func) == "task"]


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _lines(node: ast.stmt, lines: list[str]) -> list[str]:
    decorators = getattr(node, "decorator_list", [])
    cut = {n for d in _task_decorators(node) for n in range(d.lineno, (d.end_lineno or d.lineno) + 1)}
    first = min([node.lineno, *(d.lineno for d in decorators)])
    return [lines[n - 1] for n in range(first, (node.end_lineno or node.lineno) + 1) if n not in cut]
