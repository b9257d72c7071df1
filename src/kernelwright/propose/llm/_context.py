"""The part of the prompt that stays the same in a run: the task, the device and the languages."""

import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from ...languages import get_language
from ...records import ScalarSpec, SourceFile, Split, TensorSpec, Workload
from .._feedback import shown_sources
from .._protocol import Request
from ._exemplars import Exemplar, exemplars
from ._reference import shown_source

_CALLS = {
    "custom-only": "Only kernels that the candidate itself launches may compute the answer: no library, no operator.",
    "library-allowed": "Besides its own kernels the candidate may use torch's calls of vendor libraries (products, "
    "convolutions, transforms, solvers), and no other torch operator to compute.",
    "anything": "The candidate may call whatever it likes, torch operators included.",
}


@dataclass(frozen=True)
class Guide:
    """How to write a candidate in one language."""

    name: str
    """The language's name."""
    text: str
    """The docstring of its module, the only place where this is documented."""


@dataclass(frozen=True)
class Context:
    """Everything that stays the same in the calls of one run."""

    name: str
    """The task's name."""
    source: str
    """The reference, without what belongs to the judge."""
    modules: tuple[SourceFile, ...]
    """The user's modules that it imports."""
    style: str
    """`function` or `module`."""
    workloads: tuple[str, ...]
    """The search workloads, one line each."""
    rules: tuple[str, ...]
    """The rules of the contract."""
    start: tuple[SourceFile, ...]
    """Files of the kernel to start from; empty if there is none."""
    note: str
    """The user's note."""
    device: tuple[str, ...]
    """Facts of the device."""
    bounds: tuple[str, ...]
    """The binding resource of each workload."""
    guides: tuple[Guide, ...]
    """The languages that may be used."""
    exemplars: tuple[Exemplar, ...]
    """Kernels to learn from."""
    lessons: tuple[str, ...]
    """Lessons from earlier runs."""


def context_of(request: Request) -> Context:
    """Collect what stays the same in a run."""
    problem = request.problem
    task = problem.task
    search = task.split(Split.SEARCH) or task.workloads[:1]
    start, reference = problem.start(), problem.sources(search[0])
    return Context(
        name=task.name,
        source=shown_source(reference),
        modules=shown_sources([f for f in reference.files[1:] if f.path.endswith(".py")]),
        style=task.reference.style,
        workloads=tuple(_workload(w) for w in search),
        rules=tuple(_rules(request)),
        start=shown_sources(start.sources) if start is not None else (),
        note=str(request.options.get("note") or ""),
        device=tuple(_device(request)),
        bounds=tuple(_bounds(request)),
        guides=tuple(Guide(name, guide(name)) for name in request.languages),
        exemplars=exemplars(problem, request.languages),
        lessons=tuple(request.lessons),
    )


def guide(language: str) -> str:
    """Return how to write a candidate in a language, from its module's docstring.

    Example:
        >>> "KW_KERNEL" in guide("cpp")
        True
    """
    module = sys.modules[type(get_language(language)).__module__]
    return inspect.getdoc(module) or ""


def _workload(workload: Workload) -> str:
    arguments = ", ".join(
        f"{a.name} = {a.value!r}" if isinstance(a, ScalarSpec) else _tensor(a) for a in workload.arguments
    )
    state = ", ".join(map(_tensor, workload.state))
    outputs = ", ".join(map(_tensor, workload.outputs))
    return f"{workload.name}: ({arguments}){f'; state ({state})' if state else ''} -> ({outputs})"


def _tensor(spec: TensorSpec) -> str:
    layout = "" if spec.layout == "contiguous" else f" {spec.layout}"
    return f"{spec.name} {spec.dtype}{list(spec.shape)}{layout}"


def _rules(request: Request) -> Iterator[str]:
    contract = request.problem.task.contract
    yield _CALLS[contract.calls]
    if contract.mutates:
        yield f"The reference changes {', '.join(contract.mutates)} in place; the kernel must do the same."
    else:
        yield "Inputs and state must not be changed."
    if contract.stochastic:
        yield "The reference draws random numbers."
    if contract.backward:
        yield (
            "Forward and backward are one task. A Python kernel is called under autograd and must be differentiable; a "
            "compiled one takes (arguments, output gradients, state, outputs, gradients of the inputs and parameters) "
            "and writes the last two."
        )


def _device(request: Request) -> Iterator[str]:
    device = request.device
    yield f"{device.name} ({device.kind}), {device.cores} cores"
    for cache in device.caches:
        yield f"{cache.level}: {cache.size_bytes >> 10} KiB, {cache.instances} of them"
    if device.vector_units:
        yield f"vector units: {', '.join(device.vector_units)}"
    for name, value in device.facts.items():
        yield f"{name}: {value}"


def _bounds(request: Request) -> Iterator[str]:
    for bound in request.bounds:
        terms = ", ".join(
            f"{t.name} {t.time_us:.1f} us" for t in sorted(bound.terms, key=lambda t: -t.time_us)
        )
        yield f"{bound.workload}: attainable {bound.attainable_us:.1f} us, limited by {bound.limit} ({terms})"
