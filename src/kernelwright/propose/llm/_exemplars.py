"""Example kernels for prompts: a library template's default, for the task itself or one of its category.

Covers: a template that computes the whole task, else one of the same category (matmul, softmax, norm, loss,
reduction, pointwise) on a small task, in each language that has one.
Does not cover: GPU languages without a family of their own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ...errors import KernelwrightError
from ...ops import KernelTemplate, match_all
from ...records import SourceFile, Split
from ...tasks import Problem
from ...tasks.capture import Graph, capture
from ...tasks.forms import own
from .._feedback import shown_sources

_CATEGORIES = {
    "matmul": frozenset({"mm", "addmm", "bmm", "baddbmm", "linear"}),
    "softmax": frozenset({"_softmax", "_safe_softmax", "_log_softmax", "logsumexp"}),
    "norm": frozenset({"native_layer_norm", "native_group_norm", "rsqrt"}),
    "scan": frozenset({"cumsum", "cumprod", "cummax"}),
    "pool": frozenset({"max_pool2d_with_indices", "avg_pool2d", "avg_pool1d"}),
    "reduce": frozenset(
        {"sum", "mean", "prod", "amax", "amin", "argmax", "argmin", "var", "linalg_vector_norm"}
    ),
}
"""Operators that determine a task's category, the most specific first; else it is `pointwise`."""

_TASKS = {
    "matmul": ("a, b", 'a="float32[m, k]", b="float32[k, n]"', "a @ b", '{"m": 256, "k": 256, "n": 256}'),
    "softmax": ("x", 'x="float32[m, n]"', "torch.softmax(x, dim=-1)", '{"m": 256, "n": 1024}'),
    "norm": (
        "x, w",
        'x="float32[m, n]", w="float32[n]"',
        "torch.nn.functional.layer_norm(x, (x.shape[-1],), w)",
        '{"m": 256, "n": 1024}',
    ),
    "scan": ("x", 'x="float32[m, n]"', "torch.cumsum(x, dim=-1)", '{"m": 256, "n": 1024}'),
    "pool": (
        "x",
        'x="float32[c, m, n]"',
        "torch.nn.functional.avg_pool2d(x, 2)",
        '{"c": 16, "m": 64, "n": 64}',
    ),
    "reduce": ("x", 'x="float32[m, n]"', "x.sum(dim=-1)", '{"m": 256, "n": 1024}'),
    "pointwise": ("x", 'x="float32[m, n]"', "torch.nn.functional.gelu(x)", '{"m": 256, "n": 1024}'),
}
"""By category: arguments, their declarations, the expression computed, and sizes."""


@dataclass(frozen=True)
class Exemplar:
    """One example kernel."""

    category: str
    """Its category."""
    what: str
    """What it does well."""
    language: str
    """Its language."""
    sources: tuple[SourceFile, ...]
    """Its files, without headers."""
    same_task: bool
    """Whether it computes the task itself."""


def exemplars(problem: Problem, languages: Sequence[str], most: int = 2) -> tuple[Exemplar, ...]:
    """Return example kernels in the requested languages, at most one per language."""
    workload = (problem.task.split(Split.SEARCH) or problem.task.workloads)[0]
    try:
        graph = capture(problem, workload)
    except KernelwrightError:
        return ()
    category = category_of(graph)
    found: dict[str, Exemplar] = {}
    for template in match_all(graph, workload):
        found.setdefault(template.language, _exemplar(template, category, same_task=True))
    for template in _of_category(category):
        found.setdefault(template.language, _exemplar(template, category, same_task=False))
    return tuple(found[language] for language in languages if language in found)[:most]


def category_of(graph: Graph) -> str:
    """Return the category of a graph, by its operators."""
    names = {node.op.split(".")[1] if node.op.startswith("aten.") else node.op for node in graph.ops}
    return next((category for category, ops in _CATEGORIES.items() if names & ops), "pointwise")


@cache
def _of_category(category: str) -> tuple[KernelTemplate, ...]:
    arguments, declared, result, sizes = _TASKS[category]
    text = (
        "import torch\nimport kernelwright as kw\n\n"
        f"@kw.task({declared}, workloads=[{sizes}], hidden=[], confirm=[])\n"
        f"def {category}({arguments}):\n    return {result}\n"
    )
    problem = Problem(own.load(Path(f"{category}.py"), text, category))
    workload = problem.task.workloads[0]
    return tuple(match_all(capture(problem, workload), workload))


def _exemplar(template: KernelTemplate, category: str, *, same_task: bool) -> Exemplar:
    candidate = template.render(template.default())
    return Exemplar(
        category,
        template.reason or template.name,
        template.language,
        shown_sources(candidate.sources),
        same_task,
    )
