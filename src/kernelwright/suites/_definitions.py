"""What one file of a checkout takes from others: definitions with all that they need, in one text."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

_Statement = ast.FunctionDef | ast.ClassDef | ast.Assign


def definitions(
    homes: Mapping[str, Path], module: str, names: Iterable[str], *, without: str
) -> dict[str, str]:
    """Return the text of each name that can be defined without a package: what it needs first, then itself.

    Args:
        homes: Packages whose modules are read, and the folder that each is in.
        module: Where the names are, `test.transformers.test_dyt`.
        names: What is wanted.
        without: The package that must not be imported; a name that needs it, or is not there, is left out.
    """
    found = {}
    for name in names:
        parts = dict(_needed(homes, module, name, set()))
        if parts and not any(_imports(node, without) for node in parts.values()):
            found[name] = "\n".join(dict.fromkeys(ast.unparse(node) for node in parts.values()))
    return found


def needed(homes: Mapping[str, Path], module: str, name: str) -> dict[tuple[str, str], ast.stmt]:
    """Return the statements that define a name and all that it needs, by module and name; what is needed first."""
    return dict(_needed(homes, module, name, set()))


def _needed(
    homes: Mapping[str, Path], module: str, name: str, seen: set[tuple[str, str]]
) -> Iterator[tuple[tuple[str, str], ast.stmt]]:
    """Yield the statements that define a name, and before them those that define what they name."""
    if (module, name) in seen:
        return
    seen.add((module, name))
    file = homes[module.partition(".")[0]].joinpath(*module.split(".")).with_suffix(".py")
    statements = ast.parse(file.read_text()).body if file.is_file() else []
    for node in statements:
        match node:
            case ast.ImportFrom(names=aliases) if source := _source(module, node):
                for alias in (a for a in aliases if (a.asname or a.name) == name):
                    if source.partition(".")[0] in homes:
                        yield from _needed(homes, source, alias.name, seen)
                        if alias.asname:
                            yield (module, name), ast.parse(f"{alias.asname} = {alias.name}").body[0]
                    else:
                        yield (module, name), ast.ImportFrom(source, [alias], 0)
            case ast.Import(names=aliases):
                for alias in (a for a in aliases if (a.asname or a.name.partition(".")[0]) == name):
                    yield (module, name), ast.Import([alias])
            case ast.FunctionDef() | ast.ClassDef() | ast.Assign() if name in _defined(node):
                for used in _names(node):
                    yield from _needed(homes, module, used, seen)
                yield (module, name), node
            case _:
                continue


def _source(module: str, node: ast.ImportFrom) -> str:
    """Return the module that an import names, from where it stands.

    Example:
        >>> [_source("a.b.c", ast.parse(text).body[0]) for text in ("from ..d import e", "from c import d")]
        ['a.d', 'c']
    """
    home = module.split(".")[: -node.level] if node.level else []
    return ".".join([*home, *([node.module] if node.module else [])])


def _defined(node: _Statement) -> set[str]:
    if isinstance(node, ast.Assign):
        return {target.id for target in node.targets if isinstance(target, ast.Name)}
    return {node.name}


def _names(node: ast.stmt) -> list[str]:
    return list(dict.fromkeys(n.id for n in ast.walk(node) if isinstance(n, ast.Name)))


def _imports(node: ast.stmt, package: str) -> bool:
    match node:
        case ast.ImportFrom(module=str(name)) | ast.Import(names=[ast.alias(name=name)]):
            return name.partition(".")[0] == package
        case _:
            return False
