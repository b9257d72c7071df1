"""Read a candidate's Python for what cheats have in common: told with a verdict, and never part of one.

A rule says how much it tells. `suspect`: hardly ever needed by a kernel, so that a person should read the line.
`note`: honest kernels do it too. There is no rule that rejects: of the honest candidates in `tests/benign` a good part
does what some rule names, and a cheat need not.

Covers: names and imports as they are written.
Does not cover: what is built from strings, aliases, other languages; the dynamic checks decide.
"""

import ast
from collections.abc import Iterator

from ..records import Candidate, Finding
from ._protocol import passed

TRIAGE = "triage"
"""Name of the finding; its status is always `pass`."""
_CHANGES, _CATCHES = "changes another module", "answers in spite of an exception"
_SUSPECT = {
    "looks into other code": (
        "sys._getframe",
        "sys.modules",
        "gc.get_objects",
        "gc.get_referrers",
        "inspect.stack",
    ),
    "ends the process": ("os._exit", "sys.exit", "atexit.register", "signal.signal"),
    "runs text as code": ("exec", "eval", "compile", "marshal.loads", "base64.b64decode"),
    "starts processes": ("os.fork", "subprocess.run", "subprocess.Popen", "multiprocessing.Process"),
    _CHANGES: ("setattr", "object.__setattr__"),
}
_NOTE = {
    "starts threads": ("threading.Thread", "concurrent.futures.ThreadPoolExecutor", "ThreadPoolExecutor"),
    "reads a clock": ("time.time", "time.monotonic", "time.perf_counter", "time.perf_counter_ns"),
    "asks for addresses or versions": (".data_ptr", "._version", "id"),
    "reads the environment or files": (
        "os.environ",
        "os.getenv",
        "open",
        ".read_text",
        "tempfile.gettempdir",
    ),
    "calls native code by ctypes": ("ctypes.CDLL", "ctypes.memmove", "ctypes.c_void_p"),
}
_RULES = {
    name: (severity, what)
    for severity, rules in (("suspect", _SUSPECT), ("note", _NOTE))
    for what, names in rules.items()
    for name in names
}
"""Severity and words by name; one that begins with a dot is an attribute of anything."""
_LONGEST = 4
"""Parts of a name that are looked at: more than any rule has."""


def triage(candidate: Candidate) -> Finding:
    """Name what stands out, with the first line where it does, and count it by severity.

    Example:
        >>> from kernelwright.records import SourceFile
        >>> text = "import sys, time\\ndef run(x):\\n    sys._getframe(); time.time()\\n    return x + 1\\n"
        >>> made = Candidate(sources=(SourceFile(path="k.py", text=text),), language="torch", entry="k.py:run")
        >>> found = triage(made)
        >>> found.status.value, found.message
        ('pass', 'suspect: looks into other code (k.py:3); note: reads a clock (k.py:3)')
    """
    seen: dict[tuple[str, str], str] = {}
    for source in candidate.sources:
        if source.path.endswith(".py"):
            for (severity, what), line in _marks(source.text):
                seen.setdefault((severity, what), f"{severity}: {what} ({source.path}:{line})")
    counts = {s: float(sum(severity == s for severity, _ in seen)) for s in ("suspect", "note")}
    told = sorted(seen.values(), key=lambda text: not text.startswith("suspect"))
    return passed(TRIAGE, **counts).model_copy(update={"message": "; ".join(told)})


def _marks(text: str) -> Iterator[tuple[tuple[str, str], int]]:
    """Yield severity and words, and the line, of everything that a rule names."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    modules = {a.asname or a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in _RULES:
            yield _RULES[node.id], node.lineno
        elif isinstance(node, ast.Attribute):
            name = _dotted(node)
            found = _RULES.get(name) or _RULES.get(f".{node.attr}")
            if found is not None:
                yield found, node.lineno
            if isinstance(node.ctx, ast.Store) and name.partition(".")[0] in modules:
                yield ("suspect", _CHANGES), node.lineno
        elif isinstance(node, ast.ExceptHandler) and any(isinstance(n, ast.Return) for n in ast.walk(node)):
            yield ("note", _CATCHES), node.lineno


def _dotted(node: ast.expr) -> str:
    """Return `a.b.c` of names alone, and of anything else what follows it, however deep that is."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute) and len(parts) < _LONGEST:
        parts.append(node.attr)
        node = node.value
    return ".".join(reversed([*parts, node.id if isinstance(node, ast.Name) else ""]))
