"""Published kernels → rows: what of a result set holds, and what stands out where nothing can be run."""

import ast
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ..records import Candidate, SourceFile, content_key
from ..verify import triage
from ._both import Setup, judge_both, unknown
from ._finished import laid_out
from ._journal import Journal
from ._modules import ModuleForm, needs_gpu
from ._protocol import Suite
from ._published import Published
from ._records import Row, Theirs

NEEDS_GPU = "it needs a GPU"
_LACKS_GPU = re.compile(
    r"not compiled with CUDA|dummy base class|Found no NVIDIA driver|No CUDA GPUs|no attribute '_cuda_\w+'"
)
"""What torch says without a GPU where a kernel uses one."""
_ASKS = re.compile(r"torch\.cuda\.is_available\(\)|\.is_cuda\b")
_RAISES = frozenset({"loads", "runs"})
"""Our checks that a kernel fails by raising."""
SHRUNK = "it may be written for the declared sizes, and was judged at less"
OTHER_TEXT = "judged on the set's own text of the problem, which is not the checkout's"
ELSEWHERE = "asks whether there is a GPU: what was judged here may not be what was published"


def audit_all(
    suite: Suite,
    published: Sequence[Published],
    given: Setup | None,
    to: Path | None = None,
    *,
    gpu: bool = False,
) -> Iterator[Row]:
    """Yield a row for every published kernel; with `to`, each row is on disk before the next is begun.

    Args:
        suite: The benchmark that they are for.
        published: The kernels.
        given: How both verdicts are made. None to run nothing, and only to read the code.
        to: File for the rows; a row is taken again if kernel, problem and setup are the same.
        gpu: Whether kernels that need a GPU can run here.
    """
    journal = Journal(to)
    for one in published:
        runs = given if one.problem is not None and one.text and (gpu or not needs_gpu(one.text)) else None
        key = (
            content_key("read", one.label, one.text, suite.commit)
            if runs is None or one.problem is None
            else runs.key(
                one.problem,
                one.label,
                one.text,
                one.reference,
                *(part for file in one.files for part in file),
            )
        )
        if key not in journal.rows:
            row = _read(suite, one, given) if runs is None else _run(suite, one, runs, gpu=gpu)
            out = (*stands_out(one.text), *(_told(one, runs, gpu=gpu) if runs is not None else ()))
            told = {"candidate": one.label, "claimed": one.claimed, "stands_out": out}
            journal.keep(key, row.model_copy(update=told))
        yield journal.rows[key]


def _run(suite: Suite, one: Published, runs: Setup, *, gpu: bool) -> Row:
    """Judge a kernel; what this machine or shrunk sizes refuse is no verdict on it."""
    row = _judged(runs, one)
    if not gpu and _LACKS_GPU.search(f"{row.theirs.message}\n{row.ours.reason}"):
        return _read(suite, one, runs, NEEDS_GPU)
    reason = row.ours.reason
    if row.sizes != "declared" and row.ours.failed and set(row.ours.failed) <= _RAISES:
        return row.model_copy(update={"ours": unknown(f"{SHRUNK}: {reason}", row.ours.run)})
    return row


def _told(one: Published, runs: Setup, *, gpu: bool) -> Iterator[str]:
    if differs(runs, one):
        yield OTHER_TEXT
    if not gpu and _ASKS.search(one.text):
        yield ELSEWHERE


def stands_out(text: str) -> tuple[str, ...]:
    """Name what a person should read in a kernel's Python text.

    Example:
        >>> stands_out("import sys\\nsys._getframe()\\n")
        ('suspect: looks into other code (kernel.py:2)',)
    """
    source = SourceFile(path="kernel.py", text=text)
    said = triage(Candidate(sources=(source,), language="torch", entry="kernel.py:ModelNew")).message
    return tuple(filter(None, said.split("; ")))


def _judged(given: Setup, one: Published) -> Row:
    assert one.problem is not None, "only kernels with a problem are judged"
    with tempfile.TemporaryDirectory() as folder:
        stem = one.problem.name.rpartition("/")[2]
        files = dict(one.files) or {f"{stem}{one.suffix}": one.text}
        known = _as_published(given, one, Path(folder, "data"))
        return judge_both(known, one.problem, laid_out(files, Path(folder)))


def _as_published(given: Setup, one: Published, data: Path) -> Setup:
    """Return the setup with the problem's text as the set has it, which may be an older one."""
    if not differs(given, one):
        return given
    assert one.problem is not None, "only kernels with a problem are judged"
    path = data / one.problem.file
    path.parent.mkdir(parents=True)
    path.write_text(one.reference)
    return replace(given, data=data)


def differs(given: Setup, one: Published) -> bool:
    """Whether a set has the problem's text itself, and it says something else than the checkout's."""
    if not one.reference or one.problem is None or not isinstance(given.suite, ModuleForm):
        return False
    return said(one.reference) != said((given.data / one.problem.file).read_text())


def said(text: str) -> str:
    """Return what a problem's text says, without comments, docstrings, annotations and form.

    Example:
        >>> said("# made\\ndef f(x: int): return (x)") == said("def f(x):\\n    return x")
        True
    """
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return text
    for node in ast.walk(tree):
        match node:
            case ast.Module() | ast.ClassDef() | ast.FunctionDef():
                node.body = [n for n in node.body if not _is_text(n)]
                if isinstance(node, ast.FunctionDef):
                    node.returns = None
            case ast.arg():
                node.annotation = None
    return ast.dump(tree)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _read(suite: Suite, one: Published, given: Setup | None, reason: str = "") -> Row:
    """Return the row of a kernel that was not run, or could not be, with the reason."""
    reason = reason or _unread(suite, one, given)
    return Row(
        suite=suite.name, problem=one.problem.name if one.problem else one.label,
        group=one.problem.group if one.problem else one.label.partition("/")[0], candidate=one.label,
        sizes="declared", theirs=Theirs(status="unknown", message=reason, flags=suite.flags(one.text)),
        ours=unknown(reason), seconds=0.0,
    )  # fmt: skip


def _unread(suite: Suite, one: Published, given: Setup | None) -> str:
    """Say why a kernel was not run."""
    if one.fault:
        return one.fault
    if not one.text:
        return "the set does not have its code"
    if one.problem is None and given is not None:
        return f"{suite.name} has no problem of that name"
    return NEEDS_GPU if needs_gpu(one.text) else "nothing was run: only its text was read"
