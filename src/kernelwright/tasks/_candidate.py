"""A file, a folder or a solution → Candidate."""

import ast
import json
import re
from pathlib import Path

from ..errors import TaskError
from ..records import Candidate, SourceFile, Task
from ._exported import exported
from ._headers import headers_of
from .forms._source import parse, read_text

_COMPILED = {
    ".cpp": "cpp",
    ".cc": "cpp",
    ".cxx": "cpp",
    ".cu": "cuda",
    ".hip": "hip",
    ".cl": "opencl",
    ".wgsl": "wgsl",
}
_INCLUDING = (".cpp", ".cc", ".cxx", ".cu", ".hip")
_HEADERS = (".h", ".hpp", ".cuh", ".inl")
_SOLUTION = "solution.json"
_EXPORTED = (
    re.compile(r"\bKW_KERNEL\s*\(\s*(\w+)"),
    re.compile(r"\bTVM_FFI_DLL_EXPORT_TYPED_FUNC\s*\(\s*(\w+)"),
    re.compile(r"\b__tvm_ffi_(\w+)\s*\("),
)
_ASCENDC = re.compile(r'^\s*#\s*include\s*[<"]kernel_operator\.h[>"]', re.MULTILINE)
_OPENCL_KERNEL = re.compile(r"\b(?:__kernel|kernel)\s+void\s+(?:__attribute__\s*\(\(.*?\)\)\s*)?(\w+)\s*\(")
_WGSL_KERNEL = re.compile(r"@compute\b[^{]*?\bfn\s+(\w+)\s*\(")
_BY_IMPORT = {
    "triton.experimental.gluon": "gluon",
    "helion": "helion",
    "tilelang": "tilelang",
    "cutlass": "cute",
    "jax.experimental.pallas": "pallas",
}
"""The package that a Python file of a language imports, looked for in this order."""
_LANGUAGES = {
    "python": "torch",
    "pytorch": "torch",
    "triton": "triton",
    "cuda": "cuda",
    "cpp": "cpp",
    "c++": "cpp",
}


def load_candidate(path: str | Path, task: Task, language: str = "") -> Candidate:
    """Load a candidate for the task.

    A `.py` file defines `ModelNew` or `run` (or the symbol given as `file.py:symbol`, or a function of the
    reference's name); a `.cpp`, `.cc`, `.cu`, `.hip`, `.cl` or `.wgsl` file exports one symbol, or it is given, with
    the headers it includes from its folder; a folder holds `solution.json`, or one such file with its headers, or is an
    exported package with one kernel.

    Args:
        path: the file or folder.
        task: what it is a candidate for.
        language: its language, if the suffix does not show it; a file of another suffix then has a
            function `run`, or the given symbol.

    Raises:
        TaskError: the path has nothing that can be called as a candidate.
    """
    file, symbol = _split(str(path))
    if language:
        return _in_language(file, symbol, task, language)
    if file.is_dir():
        return exported(file) or _from_folder(file, symbol, task)
    if file.suffix not in {".json", ".py", *_COMPILED}:
        raise TaskError(f"candidate {str(file)!r} is of no known kind; expected .py, .cpp, .cc, .cu, .hip, .cl, .wgsl, "
                        "solution.json or a folder, or say with --language what it is written in")  # fmt: skip
    text = read_text(file, "candidate", "a kernel's source, solution.json or a folder with one of them")
    if file.suffix == ".json":
        return _from_solution(file, text, task)
    if file.suffix == ".py":
        return _from_python(file.name, text, symbol, task, str(file))
    source = SourceFile(path=file.name, text=text)
    headers = headers_of(file, text) if file.suffix in _INCLUDING else ()
    return _compiled((source, *headers), symbol or _exported(file, text), _compiled_language(file, text))


def candidate_of(sources: tuple[SourceFile, ...], task: Task) -> Candidate:
    """Return the candidate of in-memory files; the first contains the entry.

    Raises:
        TaskError: the first exports nothing that can be called.
    """
    first = sources[0]
    path = Path(first.path)
    if path.suffix == ".py":
        return _from_python(first.path, first.text, "", task, first.path)
    return _compiled(sources, _exported(path, first.text), _compiled_language(path, first.text))


def start_of(task: Task) -> Candidate | None:
    """Return the kernel that a kernel-to-kernel task starts from; None for other tasks.

    Raises:
        TaskError: the kernel's source exports nothing that can be called.
    """
    if not task.start:
        return None
    made = candidate_of(task.start, task)
    return made.model_copy(update={"proposer": "start", "reason": "the kernel that the task starts from"})


def _split(target: str) -> tuple[Path, str]:
    head, colon, symbol = target.rpartition(":")
    if colon and symbol.isidentifier() and Path(head).suffix:
        return Path(head), symbol
    return Path(target), ""


def _in_language(file: Path, symbol: str, task: Task, language: str) -> Candidate:
    if file.is_dir() or file.suffix in {".json", ".py", *_COMPILED}:
        usual = load_candidate(f"{file}:{symbol}" if symbol else file, task)
        return usual.model_copy(update={"language": language})
    source = SourceFile(path=file.name, text=read_text(file, "candidate", "a kernel's source"))
    return Candidate(sources=(source,), language=language, entry=f"{file.name}:{symbol or 'run'}")


def _from_folder(folder: Path, symbol: str, task: Task) -> Candidate:
    if (folder / _SOLUTION).is_file():
        return _from_solution(folder / _SOLUTION, read_text(folder / _SOLUTION), task)
    files = sorted(p for p in folder.iterdir() if p.suffix in {".py", *_COMPILED})
    compiled = [p for p in files if p.suffix in _COMPILED]
    main = compiled or files
    if len(main) != 1:
        found = ", ".join(p.name for p in files) or "none"
        raise TaskError(
            f"candidate folder {str(folder)!r} should hold solution.json or one source; found {found}"
        )
    only = load_candidate(f"{main[0]}:{symbol}" if symbol else main[0], task)
    headers = [
        SourceFile(path=p.name, text=read_text(p))
        for p in sorted(folder.iterdir())
        if p.suffix in _HEADERS and p.name not in {s.path for s in only.sources}
    ]
    return only.model_copy(update={"sources": (*only.sources, *headers)})


def _from_python(name: str, text: str, symbol: str, task: Task, origin: str) -> Candidate:
    tree = parse(text, origin)
    classes = {n.name for n in tree.body if isinstance(n, ast.ClassDef)}
    functions = {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}
    known = [symbol] if symbol else ["ModelNew", "run", task.reference.entry.rpartition(":")[2]]
    entry = next((s for s in known if s in classes | functions), None)
    if entry is None:
        raise TaskError(f"{origin} defines none of {', '.join(map(repr, known))}; a candidate is a class "
                        "ModelNew or a function run (or file.py:symbol)")  # fmt: skip
    style = "module" if entry in classes else "function"
    if style == "module" and task.reference.style == "function":
        raise TaskError(f"{origin}: {entry!r} is a class and the task's reference a function; "
                        "expected a function that takes the task's arguments")  # fmt: skip
    language = _python_language(tree)
    source = SourceFile(path=name, text=text)
    return Candidate(sources=(source,), language=language, entry=f"{name}:{entry}", style=style)


def _compiled_language(file: Path, text: str) -> str:
    """Name the language of a compiled file: by its suffix; Ascend C by the header that it includes."""
    return "ascendc" if _ASCENDC.search(text) else _COMPILED[file.suffix]


def builds_cuda(source: str | ast.AST) -> bool:
    """Tell whether a Python file, its text or what that parses to, builds an extension from its own CUDA sources.

    Example:
        >>> builds_cuda("load_inline(name='a', cuda_sources=s)"), builds_cuda("import torch")
        (True, False)
    """
    try:
        tree = ast.parse(source) if isinstance(source, str) else source
    except SyntaxError:
        return False
    return any(
        isinstance(n, ast.Call)
        and ast.unparse(n.func).rpartition(".")[2] == "load_inline"
        and any(k.arg == "cuda_sources" for k in n.keywords)
        for n in ast.walk(tree)
    )


def _python_language(tree: ast.Module) -> str:
    """Name the kernel language of a Python file by what it imports; `torch` where it is none."""
    imported = [
        f"{n.module}.{alias.name}." if isinstance(n, ast.ImportFrom) else f"{alias.name}."
        for n in ast.walk(tree)
        if isinstance(n, ast.Import | ast.ImportFrom)
        for alias in n.names
    ]
    for package, language in _BY_IMPORT.items():
        if any(name.startswith(f"{package}.") for name in imported):
            return language
    if _uses_triton(tree):
        return "triton"
    return "cuda" if builds_cuda(tree) else "torch"


def _uses_triton(tree: ast.Module) -> bool:
    return any(
        (
            isinstance(n, ast.Attribute)
            and n.attr == "jit"
            and isinstance(n.value, ast.Name)
            and n.value.id == "triton"
        )
        or (isinstance(n, ast.ImportFrom) and n.module == "triton" and any(a.name == "jit" for a in n.names))
        for n in ast.walk(tree)
    )


def _exported(file: Path, text: str) -> str:
    patterns = {".cl": (_OPENCL_KERNEL,), ".wgsl": (_WGSL_KERNEL,)}.get(file.suffix, _EXPORTED)
    names = list(dict.fromkeys(n for p in patterns for n in p.findall(text)))
    if len(names) != 1:
        found = ", ".join(names) or "none"
        raise TaskError(f"{file}: exported symbols found: {found}; expected one KW_KERNEL(name), or give it as "
                        f"{file}:name")  # fmt: skip
    return str(names[0])


def _compiled(sources: tuple[SourceFile, ...], symbol: str, language: str) -> Candidate:
    return Candidate(
        sources=sources, language=language, entry=f"{sources[0].path}:{symbol}", style="destination"
    )  # fmt: skip


def _takes_outputs(sources: tuple[SourceFile, ...], path: str, symbol: str, task: Task) -> bool:
    """Whether a Python function takes more than the task's arguments: the outputs, to write into."""
    text = next((s.text for s in sources if s.path == path and path.endswith(".py")), "")
    functions = [n for n in parse(text, path).body if isinstance(n, ast.FunctionDef) and n.name == symbol]
    return any(len(n.args.posonlyargs + n.args.args) > len(task.workloads[0].arguments) for n in functions)


def _from_solution(file: Path, text: str, task: Task) -> Candidate:
    try:
        solution = json.loads(text)
        spec = solution["spec"]
        sources = tuple(SourceFile(path=s["path"], text=s["content"]) for s in solution["sources"])
        path, symbol = re.split("::?", spec["entry_point"], maxsplit=1)
    except (json.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise TaskError(f"{file} is no solution ({error}); expected 'spec' with 'language' and 'entry_point' "
                        "(file::symbol), and 'sources' with 'path' and 'content'") from None  # fmt: skip
    named = spec.get("language") or (spec.get("languages") or ["python"])[0]
    language = _LANGUAGES.get(str(named).lower(), str(named))
    destination = spec.get("destination_passing_style", _takes_outputs(sources, path, symbol, task))
    return Candidate(
        sources=sources, language=language, entry=f"{path}:{symbol}", proposer=str(solution.get("author", "user")),
        style="destination" if destination or language in {"cpp", "cuda"} else "function",
        reason=str(solution.get("description", "")),
    )  # fmt: skip
