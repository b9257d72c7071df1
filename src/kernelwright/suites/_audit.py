"""Published kernels → rows: what of a result set holds, and what stands out where nothing can be run."""

import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..records import Candidate, SourceFile, content_key
from ..verify import triage
from ._both import Setup, judge_both, unknown
from ._journal import Journal
from ._modules import needs_gpu
from ._protocol import Suite
from ._published import Published
from ._records import Row, Theirs

NEEDS_GPU = "it needs a GPU"
_LACKS_GPU = re.compile(
    r"not compiled with CUDA|dummy base class|Found no NVIDIA driver|No CUDA GPUs|no attribute '_cuda_\w+'"
)
"""What torch says without a GPU where a kernel uses one."""
_ASKS = re.compile(r"torch\.cuda\.is_available\(\)|\.is_cuda\b")
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
            else runs.key(one.problem, one.label, one.text)
        )
        if key not in journal.rows:
            row = _read(suite, one, given) if runs is None else _judged(runs, one)
            if not gpu and _LACKS_GPU.search(f"{row.theirs.message}\n{row.ours.reason}"):
                row = _read(suite, one, given, NEEDS_GPU)
            elsewhere = (ELSEWHERE,) if runs is not None and not gpu and _ASKS.search(one.text) else ()
            out = (*stands_out(one.text), *elsewhere)
            told = {"candidate": one.label, "claimed": one.claimed, "stands_out": out}
            journal.keep(key, row.model_copy(update=told))
        yield journal.rows[key]


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
        file = Path(folder, f"{stem}{one.suffix}")
        file.write_text(one.text)
        return judge_both(given, one.problem, file)


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
    if not one.text:
        return "the set does not have its code"
    if one.problem is None and given is not None:
        return f"{suite.name} has no problem of that name"
    return NEEDS_GPU if needs_gpu(one.text) else "nothing was run: only its text was read"
