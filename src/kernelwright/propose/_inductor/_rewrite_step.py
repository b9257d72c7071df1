"""Joins the two parts of a training step, and its head's kernel where there is one, into one candidate."""

from collections.abc import Sequence

from ...languages.cpp import header
from ...ops.loss import KERNEL
from ...records import Candidate, SourceFile
from ...tasks.capture import UNPACK
from ._harvest import HarvestError, Parting, Step
from ._rewrite import RUN, Part, cut, statements

KEEPS = {
    "default": "what autograd would keep", "min-cut": "what torch.compile would keep",
    "everything": "every value that both compute", "inputs": "the inputs alone",
    "half": "at most half as many bytes as torch.compile would",
}  # fmt: skip
"""What the forward part keeps for the backward part, in words."""
_PRELUDE = '''"""What TorchInductor writes for the two parts of {task}.

`kernels` is the library built from the C++ files next to this one.
"""

import torch

{names}
{unpack}
'''
_STEP = """def step_{n}(t):
    t = [*t, *CONSTANTS_{n}]
    f = forward_{n}(list(t)){head}
    kept = [{kept}]
    r = [{known}]
    f = h = None
    b = backward_{n}(kept)
    return [{results}]
"""
_HEAD = """def head_{n}(x, weight, target, {bias}share):
    made = [{made}]
    x, weight, target, share = (t.contiguous() for t in (x, weight, target, share))
    kernels.linear_cross_entropy_gradients(x, weight, target, {given}, {ignored}, 0.0, 0.0, 0.0, share, *made)
    return made


"""


def rewrite_step(steps: Sequence[Step], task: str, parting: Parting) -> Candidate:
    """Make one candidate from the parts of a step on all search workloads.

    Raises:
        HarvestError: the code is not in a form that can be split.
    """
    if any("async_compile.triton" in one.code for step in steps for one in (step.forward, step.backward)):
        raise HarvestError("steps are parted on the CPU only")
    sources, bodies, parts, calls = list[SourceFile](), list[str](), list[Part](), list[str]()
    for n, step in enumerate(steps):
        forward, backward = cut(step.forward.code), cut(step.backward.code)
        parts += (forward, backward)
        sources += (*forward.sources(f"w{n}f"), *backward.sources(f"w{n}b"))
        bodies += (forward.function(f"forward_{n}", f"w{n}f"), backward.function(f"backward_{n}", f"w{n}b"))
        constants = "".join(f"    {text},\n" for text in step.constants)
        bodies.append(f"CONSTANTS_{n} = [\n{constants}]\n\n\n{_joined(step, n)}")
        calls.append(f"    {step.tensors!r}: step_{n},")
    head = KERNEL if any(step.head for step in steps) else None
    files = {s.path: s for s in (*sources, *(head.sources if head else ()))}
    text = "\n\n\n".join(bodies)
    prelude = _PRELUDE.format(
        task=task.replace('"', "'"), names=statements(text, parts),
        unpack=UNPACK if any(step.constants for step in steps) else "",
    )  # fmt: skip
    run = f"{prelude}\n{text}{RUN.format(calls=chr(10).join(calls))}"
    return Candidate(
        sources=(SourceFile(path="run.py", text=run), *files.values(), *((header(),) if files else ())),
        language="cpp" if files else "torch", entry="run.py:run", style="function", proposer="partition",
        flags=(*steps[0].forward.flags, *(head.candidate().flags if head else ())) if files else (),
        reason=f"keeps {KEEPS[parting.keeps]} for the backward part{'; the loss head by one kernel' if head else ''}",
    )  # fmt: skip


def _joined(step: Step, n: int) -> str:
    """Return the function of a step, which frees what is kept as the backward part reads it."""
    early = list(dict.fromkeys(name for name in step.results if name[0] != "b"))
    results = [name if name[0] == "b" else f"r[{early.index(name)}]" for name in step.results]
    head = step.head
    text = _STEP.format(
        n=n, head=f"\n    h = head_{n}({', '.join(step.asked)})" if head else "", kept=", ".join(step.kept),
        known=", ".join(early), results=", ".join(results),
    )  # fmt: skip
    if head is None:
        return text
    made = ", ".join(f"torch.empty({shape})" for shape in head.shapes)
    bias, given = ("bias, ", "bias.contiguous()") if head.bias else ("", "None")
    return _HEAD.format(n=n, bias=bias, given=given, made=made, ignored=head.ignored) + text
