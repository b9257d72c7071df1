"""Problem → WGSL variants for a browser with WebGPU, printed here by the compiler and tuned there."""

import math
from collections.abc import Iterator
from itertools import islice
from typing import Any

from ..compiler import schedules
from ..errors import KernelwrightError
from ..languages._launch import View
from ..languages.wgsl import Program
from ..records import Candidate, Configuration, Space, TensorSpec, Workload
from ..tasks import Problem

__all__ = ["shaders_of"]

_SCHEDULES, _EACH = 3, 12
Shader = dict[str, Any]


def shaders_of(problem: Problem, workload: Workload) -> list[Shader]:
    """Print a task in WGSL under some dozens of configurations, with the launches of one workload worked out.

    Covers: tasks that the compiler prints as one WGSL source on float32. Empty for any other.
    """
    return list(_printed(problem, workload))


def _printed(problem: Problem, workload: Workload) -> Iterator[Shader]:
    for schedule in islice(schedules(problem, ("wgsl",)), _SCHEDULES):
        for configuration in islice(_lite(schedule.space), _EACH):
            try:
                made = _shader(schedule.render(configuration), workload)
            except (KernelwrightError, NotImplementedError):
                continue
            if made is not None:
                yield {"name": schedule.name, "config": dict(configuration), **made}


def _lite(space: Space) -> list[Configuration]:
    """Order the configurations of a space, those that differ least from the default first."""
    place = {p.name: {value: i for i, value in enumerate(p.values)} for p in space.parameters}
    return sorted(space.configurations(), key=lambda c: sum(place[name][value] for name, value in c.items()))


def _shader(candidate: Candidate, workload: Workload) -> Shader | None:
    if len(candidate.sources) != 1 or candidate.style != "destination":
        return None
    [source] = candidate.sources
    program = Program(source.text, candidate.entry.rpartition(":")[2])
    arguments = [s for s in (*workload.arguments, *workload.state) if isinstance(s, TensorSpec)]
    called = [*arguments, *workload.outputs]
    if len(called) != len(program.called) or any(s.dtype != "float32" for s in called):
        return None
    views = {name: _view(spec) for name, spec in zip(program.called, called, strict=True)}
    temporaries = program.stages.views(dict(views))[1]
    buffers = [
        {"name": name, "tensor": spec.name if place < len(arguments) else "", "elements": _count(spec)}
        for place, (name, spec) in enumerate(zip(program.called, called, strict=True))
    ]
    buffers += [{"name": name, "tensor": "", "elements": count} for name, count in temporaries.items()]
    launches = [
        {
            "kernel": stage.kernel, "groups": list(geometry.global_size),
            "constants": {n: v for n, v in geometry.derived.items() if n in program.overrides},
            "bindings": {n: program.bindings[n] for n in stage.arguments},
        }
        for stage, geometry in zip(program.launched, program.geometries(dict(views)), strict=True)
    ]  # fmt: skip
    outputs = list(program.called[len(arguments) :])
    return {"source": source.text, "buffers": buffers, "launches": launches, "outputs": outputs}


def _view(spec: TensorSpec) -> View:
    return View(tuple(spec.shape), spec.dtype)


def _count(spec: TensorSpec) -> int:
    return math.prod(spec.shape)
