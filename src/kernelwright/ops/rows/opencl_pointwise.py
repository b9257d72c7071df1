"""Pointwise chains: one work-item per element, no intermediates in memory."""

from functools import partial

from ...languages.vectors import Unprintable
from ...records import Configuration, Parameter, Space
from ...tasks.capture import Graph, Node
from .._parametric import KernelTemplate, Printer, Rendered, only_output, slots
from .._parametric.opencl import opencl_printer, parameters


def template(graph: Graph) -> KernelTemplate | None:
    """Return the template if the output is pointwise in inputs of its shape, last-axis vectors and scalars."""
    root = only_output(graph)
    if root is None or not root.shape:
        return None
    places = slots(graph)
    whole: list[int] = []

    def special(_: Printer, node: Node) -> str | None:
        if node.name not in places:
            return None
        place = places[node.name]
        if node.dtype not in ("float32", "bool"):
            raise Unprintable(f"{node.name} is {node.dtype}")
        if node.shape == root.shape:
            whole.append(place)
            return f"x{place}[i]"
        if node.elements == 1:
            return f"x{place}[0]"
        if node.shape == root.shape[-1:]:
            return f"x{place}[i % n]"
        raise Unprintable(f"{node.name} of {node.shape} is broadcast to {root.shape}")

    printer = opencl_printer(graph, special)
    result = printer.name(root.name)
    if not whole:
        return None
    space = Space(parameters=(Parameter(name="local", values=(64, 128, 256, 512, 1024)),))
    return KernelTemplate(
        "opencl/pointwise", "opencl", space, {"local": 256},
        partial(_render, parameters(graph), printer.lines, result, whole[0]), "the whole chain in one pass",
    )  # fmt: skip


def _render(
    declared: str, lines: list[str], result: str, like: int, configuration: Configuration
) -> Rendered:
    local = configuration["local"]
    text = f"""// launch: n = x{like}.shape[-1]
// launch: total = prod(x{like}.shape)
// launch: require = total > 0 and total < 2147483648 - {local}
// launch: local = {local}
// launch: global = cdiv(total, {local}) * {local}
__kernel void pointwise({declared}, int n, int total) {{
  const int i = get_global_id(0);
  if (i >= total) return;
  {" ".join(lines)}
  out0[i] = {result};
}}
"""
    return Rendered(text, "pointwise")
