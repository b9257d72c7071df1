"""Extensions that Python builds with `load_inline(cuda_sources=...)`: read off the file, and built before it is run.

With torch's headers such a build takes half a minute. It is made once, by torch's own `load_inline` in a closed
process, and workers import what it left; they would each make it anew.

Covers: calls whose arguments are literals, names of literals, or f-strings, sums and replacements of these, any number
in a file.
Does not cover: sources put together at run time, which the worker has torch build; `load` of files.
"""

import ast
import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from ..errors import InputError
from ..records import Build, BuildStatus, Candidate, content_key
from ._process import installation, run_tool

FOLDER: Final = "inline"
"""Of an artefact: the extensions."""
_SOURCES: Final = ("cpp_sources", "cuda_sources", "functions")
_OPTIONS: Final = (
    "extra_cflags", "extra_cuda_cflags", "extra_ldflags", "extra_include_paths", "with_cuda",
    "with_pytorch_error_handling", "no_implicit_headers",
)  # fmt: skip
_ARGUMENTS: Final = (*_SOURCES, "extra_cflags", "extra_cuda_cflags", "extra_ldflags", "extra_include_paths")
"""Those of `load_inline` after the name, in order."""
_METHODS: Final = frozenset({"strip", "lstrip", "rstrip", "replace"})
"""Of a literal string, whose result is one too."""
_NAME: Final = "inline_extension"
_ERROR: Final = "error.txt"
"""Of the folder of an extension: what the compiler said, where it failed."""
_BUILD: Final = """\
import json, sys
from torch.utils.cpp_extension import load_inline

load_inline(**json.load(open(sys.argv[1])))
"""


class NotLiteralError(InputError):
    """A source or an option of `load_inline` is put together at run time."""


def calls_in(text: str, options: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return the sources, functions and `options` of each `load_inline` in a Python file that has CUDA sources.

    Raises:
        NotLiteralError: an argument is no literal and no name of one.
    """
    tree = ast.parse(text)
    names = _assigned_once(tree)
    return [
        {
            name: _literal(value, names)
            for name, value in asked_for(call.args[1:], _named(call), options).items()
        }
        for call in _calls(tree)
    ]


def asked_for(
    arguments: Sequence[Any], named: Mapping[str, Any], options: Sequence[str] = _OPTIONS
) -> dict[str, Any]:
    """Return the sources, functions and `options` among the arguments of `load_inline` that follow the name.

    Example:
        >>> asked_for(["c", "u"], {"functions": ["f"], "verbose": True})
        {'cpp_sources': 'c', 'cuda_sources': 'u', 'functions': ['f']}
    """
    wanted = (*_SOURCES, *options)
    given = dict(zip(_ARGUMENTS, arguments, strict=False)) | dict(named)
    return {name: value for name, value in given.items() if name in wanted}


def key_of(call: Mapping[str, Any]) -> str:
    """Name what a call of `load_inline` builds: by its sources, functions and options."""
    parts = [part for name in _SOURCES for part in (*texts(call.get(name)), "--")]
    options = [json.dumps([name, call[name]], default=str) for name in _OPTIONS if name in call]
    return content_key(*parts[:-1], *options)


def texts(value: Any) -> Sequence[str]:
    """Return an argument that may be one text, several or none as a sequence."""
    return () if not value else (value,) if isinstance(value, str) else tuple(value)


def build_inline(
    candidate: Candidate, folder: Path, architectures: Sequence[str], deadline_s: float
) -> Build:
    """Have torch build each extension of a candidate's Python files, into a folder of an artefact.

    One that fails is a failed build where the file would not survive it: if it is asked for as the file is run, and
    outside of a `try`. Else the file finds out as ever, when it asks.

    Args:
        candidate: Python files.
        folder: Where the artefact is made.
        architectures: What torch is to build for, like `9.0a`.
        deadline_s: Seconds for each.
    """
    calls: dict[str, dict[str, Any]] = {}
    needed: set[str] = set()
    for source in candidate.sources:
        if source.path.endswith(".py"):
            try:
                found = calls_in(source.text, _OPTIONS)
            except NotLiteralError as left:
                return Build(status=BuildStatus.OK, findings=(f"{left}: each worker builds it again",))
            calls |= {key_of(call): call for call in found}
            needed |= {key_of(call) for call in found if _certain(source.text)}
    with ThreadPoolExecutor() as pool:
        builds = pool.map(
            lambda key: _built(calls[key], folder / FOLDER / key, architectures, deadline_s), calls
        )
        built = dict(zip(calls, builds, strict=True))
    failed = {key: build for key, build in built.items() if build.status is not BuildStatus.OK}
    for key, build in failed.items():
        if key in needed or build.status is BuildStatus.TIMEOUT:
            return build
        (folder / FOLDER / key / _ERROR).write_text(build.diagnostics)
    findings = tuple(f"an extension does not compile: {_first_error(b.diagnostics)}" for b in failed.values())
    said = "\n".join(build.diagnostics for build in built.values())
    return Build(status=BuildStatus.OK, diagnostics=said, findings=findings)


def _built(call: Mapping[str, Any], folder: Path, architectures: Sequence[str], deadline_s: float) -> Build:
    folder.mkdir(parents=True)
    asked = {"name": _NAME, **call, "build_directory": str(folder)}
    (folder / "call.json").write_text(json.dumps(asked))
    compilers = (os.environ.get("CXX", "c++"), os.environ.get("CC", "cc"), "g++", "gcc", "nvcc", "ninja")
    done = run_tool(
        [sys.executable, "-c", _BUILD, "call.json"], deadline_s=deadline_s, folder=folder, closed=True,
        env={"TORCH_CUDA_ARCH_LIST": ";".join(architectures), "TORCHINDUCTOR_CACHE_DIR": str(folder / "tmp")},
        readable=[Path(part) for name in compilers for part in installation(name)],
    )  # fmt: skip
    for left in folder.glob("*.o"):
        left.unlink()
    if done.timed_out:
        return Build(status=BuildStatus.TIMEOUT, diagnostics=f"no end after {deadline_s:g} s\n{done.output}")
    status = BuildStatus.OK if done.returncode == 0 else BuildStatus.FAILED
    return Build(status=status, diagnostics=done.output)


def _first_error(output: str) -> str:
    lines = output.splitlines()
    return next(
        (line for line in lines if "error" in line.lower()), lines[-1] if lines else "it said nothing"
    )


def hand_out(artefact: Path) -> None:
    """Have `load_inline` import, in this process, what the build left; what it did not build, torch builds."""
    extension: Any = importlib.import_module("torch.utils.cpp_extension")
    by_torch = extension.load_inline

    def load_inline(name: str, *arguments: Any, **named: Any) -> Any:
        library = artefact / FOLDER / key_of(asked_for(arguments, named)) / f"{_NAME}.so"
        if library.with_name(_ERROR).is_file():
            raise RuntimeError(f"Error building extension {name!r}: {library.with_name(_ERROR).read_text()}")
        return _imported(library) if library.is_file() else by_torch(name, *arguments, **named)

    extension.load_inline = load_inline


def _imported(library: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(library.stem, library)
    assert spec is not None, "the name ends like an extension's"
    assert spec.loader is not None, "the name ends like an extension's"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _calls(tree: ast.AST) -> Sequence[ast.Call]:
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).rpartition(".")[2] == "load_inline"
        and "cuda_sources" in asked_for(node.args[1:], _named(node))
    ]


def _named(call: ast.Call) -> dict[str, ast.expr]:
    return {k.arg: k.value for k in call.keywords if k.arg is not None}


def _assigned_once(tree: ast.AST) -> dict[str, ast.expr]:
    """Return what is assigned to each name and attribute that a file assigns to once, wherever it does."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name | ast.Attribute):
            found.setdefault(ast.unparse(node.targets[0]), []).append(node.value)
    return {name: values[0] for name, values in found.items() if len(values) == 1}


def _certain(text: str) -> bool:
    """Tell whether a file's extensions are all asked for as it is run, outside of a `try`."""
    inner = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.Try, ast.If)
    tree = ast.parse(text)
    hidden = {id(call) for node in ast.walk(tree) if isinstance(node, inner) for call in _calls(node)}
    return all(id(call) not in hidden for call in _calls(tree))


def _literal(node: ast.expr, names: Mapping[str, ast.expr]) -> Any:
    try:
        if isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) in names:
            return _literal(names[ast.unparse(node)], names)
        if isinstance(node, ast.List | ast.Tuple):
            return [_literal(item, names) for item in node.elts]
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return _literal(node.left, names) + _literal(node.right, names)
        if isinstance(node, ast.JoinedStr):
            return "".join(str(_literal(part, names)) for part in node.values)
        if isinstance(node, ast.FormattedValue) and node.format_spec is None and node.conversion == -1:
            return _literal(node.value, names)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
            text = _literal(node.func.value, names)
            given = [_literal(a, names) for a in node.args]
            return getattr(text, node.func.attr)(
                *given, **{n: _literal(v, names) for n, v in _named(node).items()}
            )
        return ast.literal_eval(node)
    except (ValueError, TypeError, AttributeError, LookupError):
        raise NotLiteralError(
            f"load_inline of {ast.unparse(node)[:60]!r} at line {node.lineno}, which is no literal string"
        ) from None
