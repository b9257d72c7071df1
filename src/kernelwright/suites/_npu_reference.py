"""References that call an operator of an Ascend NPU → the definition in PyTorch that their own docstring gives."""

import ast
import re
import textwrap

from ..errors import TaskError

_PACKAGE = "torch_npu"
_DEFINITION = re.compile(r"^ *def ", re.MULTILINE)


def without_npu(text: str, name: str) -> str:
    """Return a reference that needs no `torch_npu`: what it only imports is left out, what it calls is defined.

    Raises:
        TaskError: it calls an operator of the NPU, and its docstring does not define it.

    Example:
        >>> print(without_npu("import torch\\nimport torch_npu\\ny = torch.relu", "relu"))
        import torch
        y = torch.relu
    """
    if _PACKAGE not in text:
        return text
    tree = ast.parse(text)
    for model in tree.body:
        if isinstance(model, ast.ClassDef) and model.name == "Model" and _called(model):
            defined = _defined(ast.get_docstring(model) or "")
            replaced = {method.name for method in defined}
            model.body = [
                node
                for node in model.body
                if not (isinstance(node, ast.FunctionDef) and node.name in replaced)
            ]
            model.body += defined
    if called := _called(tree):
        raise TaskError(
            f"the reference of {name} calls {_PACKAGE}.{called}, which only an Ascend NPU has, and its docstring has "
            "no definition of it in PyTorch"
        )
    return ast.unparse(_Unimported().visit(tree))


def _called(tree: ast.AST) -> str:
    """Return an operator of the NPU that is called; empty if none is."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == _PACKAGE:
            return node.attr
    return ""


def _defined(docstring: str) -> list[ast.FunctionDef]:
    """Return the methods that a docstring defines from its first `def` to its end; none if that is no Python."""
    found = _DEFINITION.search(docstring)
    if found is None:
        return []
    try:
        return [
            n
            for n in ast.parse(textwrap.dedent(docstring[found.start() :])).body
            if isinstance(n, ast.FunctionDef)
        ]
    except SyntaxError:
        return []


class _Unimported(ast.NodeTransformer):
    """Leaves out imports of the NPU's torch."""

    def visit_Import(self, node: ast.Import) -> ast.Import | None:
        node.names = [alias for alias in node.names if alias.name != _PACKAGE]
        return node if node.names else None
