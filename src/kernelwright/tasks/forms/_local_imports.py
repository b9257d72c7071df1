"""Python files next to a task's file that it imports: part of the task, copied with it.

Covers: modules and packages in the file's own folder that an `import` statement names, and what those import.
Does not cover: imports by a computed name, data files, modules elsewhere on the path.
"""

import ast
import importlib
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ...records import SourceFile

_PLACED = "kernelwright-beside-"


def local_imports(path: Path, text: str) -> tuple[SourceFile, ...]:
    """Return the files next to `path` that `text` imports, directly or transitively."""
    found: dict[str, SourceFile] = {}
    waiting = [text]
    while waiting:
        for name in _imported(waiting.pop()):
            for file in _files_of(name, path.parent):
                relative = file.relative_to(path.parent).as_posix()
                if relative not in found and file != path:
                    found[relative] = SourceFile(path=relative, text=file.read_text(encoding="utf-8"))
                    waiting.append(found[relative].text)
    return tuple(found[name] for name in sorted(found))


@contextmanager
def importable(files: Sequence[SourceFile]) -> Iterator[None]:
    """Let the files be imported by their bare names, whatever else has those names in this process.

    Modules imported under these names before are restored afterwards, unless they belong to another task.
    """
    names = {Path(f.path).parts[0].removesuffix(".py") for f in files if f.path.endswith(".py")}
    if not names:
        yield
        return
    before = {n: sys.modules.pop(n) for n in list(sys.modules) if n.partition(".")[0] in names}
    with tempfile.TemporaryDirectory(prefix=_PLACED) as folder:
        for file in files:
            (Path(folder) / file.path).parent.mkdir(parents=True, exist_ok=True)
            (Path(folder) / file.path).write_text(file.text, encoding="utf-8")
        sys.path.insert(0, folder)
        importlib.invalidate_caches()
        try:
            yield
        finally:
            if folder in sys.path:
                sys.path.remove(folder)
            sys.modules.update({n: m for n, m in before.items() if _PLACED not in str(m.__file__)})


def _imported(text: str) -> set[str]:
    """Name the top-level packages that the source imports, as far as it parses."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):  # the latter for a null byte, before Python 3.11.4
        return set()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names - set(sys.stdlib_module_names)


def _files_of(name: str, folder: Path) -> list[Path]:
    package = folder / name
    if (package / "__init__.py").is_file():
        return sorted(package.rglob("*.py"))
    return [file for file in (folder / f"{name}.py",) if file.is_file()]
