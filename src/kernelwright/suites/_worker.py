"""Script → Theirs: a benchmark's own rules, run in a sandboxed worker and never in the judge's process.

Covers: memory, time, files, network and processes, as for any candidate.
Does not cover: what the program reports. Problem and kernel share its process because the benchmark has it so; a
kernel that forges the report is right by the benchmark's rules, and shows in our verdict next to it.
"""

import json
import re
from importlib.resources import files

from pydantic import ValidationError

from ..errors import WorkerError
from ..languages import get_language
from ..records import BuildStatus, Candidate, SourceFile, TensorSpec
from ..sandbox import FailureKind, Payload, Pool, WorkerFailure
from ..tasks import builds_cuda
from ._protocol import Script
from ._records import Theirs
from .rules.entry import SIZE

_IMPORTED = re.compile(r"^from \.(\w+) import", re.MULTILINE)
_ANSWER = (TensorSpec(name="answer", shape=(SIZE,), dtype="uint8"),)
_REPORTED = frozenset(Theirs.model_fields)


def their_verdict(script: Script, pool: Pool, kernel: Candidate | None = None, device: str = "cpu") -> Theirs:
    """Run a benchmark's rules on one kernel.

    Args:
        script: The program and what it is given.
        pool: Makes the worker.
        kernel: A compiled kernel that the submission calls as `kernels`; none if the submission is all there is.
        device: `cpu`, or `cuda:N` for a script that runs there.
    """
    candidate = _program(script, kernel, device)
    build = get_language(candidate.language).build(candidate)
    if build.status is not BuildStatus.OK:
        return Theirs(status="error", message=build.diagnostics[:2000])
    payload = Payload(candidate=candidate, artefact=build.artefact, outputs=_ANSWER, device=device)
    try:
        with pool.worker(payload) as worker:
            reply = worker.call([worker.bind((), _ANSWER)], script.deadline_s)
            said = worker.fetch(reply.first).outputs[0]
    except WorkerFailure as failure:
        late = failure.kind is FailureKind.TIMEOUT
        return Theirs(status="timeout" if late else "error", message=failure.message)
    except WorkerError as error:
        return Theirs(status="unknown", message=str(error))
    return _read(bytes(said.tolist()))


def _program(script: Script, kernel: Candidate | None, device: str) -> Candidate:
    modules = _with_imports({"verdict": script.rules, "entry": "entry"})
    given = json.dumps({**script.given, "device": device})
    sources = (
        *(SourceFile(path=f"{name}.py", text=text) for name, text in modules.items()),
        SourceFile(path="given.py", text=f"GIVEN = {given!r}\n"),
    )
    if kernel is None:
        submission = str(script.given.get("submission", ""))
        if device == "cpu" or not builds_cuda(submission):
            return Candidate(sources=sources, language="torch", entry="entry.py:run")
        # Its extensions are built as a candidate's are: the rules' time is not for compilers.
        sources = (*sources, SourceFile(path="submission.py", text=submission))
        return Candidate(sources=sources, language="cuda", entry="entry.py:run")
    return kernel.model_copy(
        update={"sources": (*kernel.sources, *sources), "entry": "entry.py:run", "style": "function"}
    )


def _with_imports(wanted: dict[str, str]) -> dict[str, str]:
    """Return modules of the rules by the name that each gets, with what they import of their package."""
    texts: dict[str, str] = {}
    while wanted:
        name, module = wanted.popitem()
        text = (files("kernelwright.suites.rules") / f"{module}.py").read_text()
        texts[name] = _IMPORTED.sub(r"from \1 import", text)
        wanted |= {other: other for other in _IMPORTED.findall(text) if other not in texts}
    return texts


def _read(text: bytes) -> Theirs:
    try:
        answer = json.loads(text)
        return Theirs.model_validate({k: v for k, v in answer.items() if k in _REPORTED})
    except (ValueError, AttributeError, ValidationError):
        return Theirs(status="error", message="the program's report is not one: the kernel broke it")
