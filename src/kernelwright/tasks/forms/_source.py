"""Execute a user's Python file once per text, under a unique name, without side effects on the process."""

import ast
import os
import sys
import types
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ...errors import TaskError
from ...records import Reference, SourceFile, content_key
from ._local_imports import importable

_LOADED: dict[str, types.ModuleType] = {}
_MOST_LOADED = 64
_RUNNING: ContextVar[tuple[str, ...]] = ContextVar("running", default=())
"""Names of the modules whose text is being executed."""


def read_text(
    path: Path, kind: str = "task", expected: str = "a .py or .json file, or a task's folder"
) -> str:
    """Return the text of a file of that kind; raises `TaskError` if it is missing or not text."""
    if path.exists() and not path.is_file():
        raise TaskError(f"{str(path)!r} is no file; expected {expected}")
    if not path.exists():
        local_files = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        nearest = get_close_matches(path.name, local_files, n=1)
        meant = (
            f"; did you mean {str(path.with_name(nearest[0]))!r}?" if nearest else f"; expected {expected}"
        )
        raise TaskError(f"{kind} file {str(path)!r} does not exist{meant}")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise TaskError(
            f"{str(path)!r} is not UTF-8 text ({error.reason}); expected Python or JSON source"
        ) from None


def parse(text: str, origin: str) -> ast.Module:
    """Parse Python source; raises `TaskError` naming the line of a syntax error."""
    try:
        return ast.parse(text, filename=origin)
    except SyntaxError as error:
        raise TaskError(f"{origin}: line {error.lineno} is not Python: {error.msg}") from None
    except ValueError as error:  # a null byte, before Python 3.11.4
        raise TaskError(f"{origin} is not Python: {error}") from None


def run_reference(reference: Reference) -> types.ModuleType:
    """Execute the reference's first file, with the others importable, and return it as a module."""
    first, *local_files = reference.files
    return run_source(first.text, reference.origin or first.path, local_files)


def run_source(text: str, origin: str, local_files: Sequence[SourceFile] = ()) -> types.ModuleType:
    """Execute the text as a module and return it; the same text is executed once.

    Files `local_files` can be imported by their bare names; by default those in the folder of `origin`.

    The working directory, `sys.path` and `sys.argv` stay as they were, and the module is in
    `sys.modules` under a unique name, which `inspect` and `dataclasses` need.

    Raises:
        TaskError: it raised, or loads itself, as a script does that optimises what it defines wherever it is executed.
    """
    name = f"kernelwright_task_{content_key(origin, text, *(f.to_json() for f in local_files))}"
    if name in _LOADED:
        return _LOADED[name]
    if name in _RUNNING.get():
        raise TaskError(
            f"{origin} asks for what it defines to be loaded while it is executed for that: put what it runs under "
            "`if __name__ == '__main__':`"
        )
    code = compile(parse(text, origin), origin, "exec")
    module = types.ModuleType(name)
    module.__file__ = origin
    folder, path, argv = Path.cwd(), list(sys.path), list(sys.argv)
    sys.modules[name] = module
    running = _RUNNING.set((*_RUNNING.get(), name))
    sys.path.insert(0, str(Path(origin).resolve().parent))
    try:
        with importable(local_files):
            exec(code, module.__dict__)
    except TaskError:
        sys.modules.pop(name, None)
        raise
    except (Exception, SystemExit) as error:
        sys.modules.pop(name, None)
        raise TaskError(f"{origin} could not be run: {type(error).__name__}: {error}") from error
    finally:
        _RUNNING.reset(running)
        os.chdir(folder)
        sys.path[:], sys.argv[:] = path, argv
    _remember(name, module)
    return module


def resolve(reference: Reference) -> Callable[..., Any]:
    """Run the reference's first file and return its entry."""
    symbol = reference.entry.rpartition(":")[2]
    module = run_reference(reference)
    found: Callable[..., Any] | None = getattr(module, symbol, None)
    if found is None:
        raise TaskError(f"{module.__file__} has no symbol {symbol!r}; it defines {_public(module)}")
    return found


def _remember(name: str, module: types.ModuleType) -> None:
    while len(_LOADED) >= _MOST_LOADED:
        oldest = next(iter(_LOADED))
        del _LOADED[oldest]
        sys.modules.pop(oldest, None)
    _LOADED[name] = module


def _public(module: types.ModuleType) -> str:
    names = [
        n for n, v in vars(module).items() if callable(v) and getattr(v, "__module__", "") == module.__name__
    ]
    return ", ".join(repr(n) for n in names) or "no functions or classes"
