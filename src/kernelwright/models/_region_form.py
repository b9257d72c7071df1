"""Task of a region → RegionForm: by what it is found in other graphs.

Does not cover: regions whose inputs have fixed values, such as complex numbers: they were verified on those alone.
"""

import ast

from ..records import Task, TensorSpec, Workload
from .pieces import RegionForm, form_of_lines

__all__ = ["RegionForm", "form_of_task", "signature_of"]


def form_of_task(task: Task) -> RegionForm | None:
    """Return the form of a region's task, from the text that was judged; None where it is no region of this kind."""
    text = task.reference.files[0].text
    if not task.name.startswith("region_") or "_unpacked" in text:
        return None
    forward = next(
        (n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef) and n.name == "forward"), None
    )
    if forward is None:
        return None
    rows = text.splitlines()
    lines = [rows[s.lineno - 1].strip() for s in forward.body]
    returned = lines[-1].removeprefix("return ").strip(",").split(", ")
    workload = task.workloads[0]
    shapes = {
        s.name: (tuple(s.shape), f"torch.{s.dtype}")
        for s in (*workload.arguments, *workload.state)
        if isinstance(s, TensorSpec)
    }
    return form_of_lines([line for line in lines[:-1] if " = self." not in line], returned, shapes)


def signature_of(
    workload: Workload,
) -> tuple[tuple[tuple[str, tuple[int, ...], str], ...], tuple[tuple[tuple[int, ...], str], ...]]:
    """Return name, shape and dtype of each argument of a region's kernel, and shape and dtype of each result."""
    taken = [s for s in (*workload.arguments, *workload.state) if isinstance(s, TensorSpec)]
    arguments = tuple((s.name, tuple(s.shape), s.dtype) for s in taken)
    return arguments, tuple((tuple(s.shape), s.dtype) for s in workload.outputs)
