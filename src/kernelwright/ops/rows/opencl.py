"""Rows with reductions: one work-group per row; each reduction is a pass over the row, which stays in cache.

Softmax, log-softmax, RMSNorm, means, sums and maxima with pointwise operators around them.
"""

from functools import partial

from ...languages.vectors import Unprintable
from ...records import Configuration, Parameter, Space
from ...tasks.capture import Graph, Node
from .._parametric import KernelTemplate, Printer, Rendered, reach, slots
from .._parametric.opencl import opencl_printer, parameters

_SUMS = ("aten.sum.dim_IntList", "aten.mean.dim")
_SOFTMAX = ("aten._softmax.default", "aten._log_softmax.default")

_FOLD = """
float fold(float value, __local float* shared, int maximum) {
  const int l = get_local_id(0);
  barrier(CLK_LOCAL_MEM_FENCE);
  shared[l] = value;
  for (int step = get_local_size(0) / 2; step > 0; step /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (l < step) {
      const float a = shared[l], b = shared[l + step];
      shared[l] = maximum ? (b > a || b != b ? b : a) : a + b;
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  return shared[0];
}
"""


def template(graph: Graph) -> KernelTemplate | None:
    """Return the template if outputs are whole rows and something is reduced over the last axis."""
    shapes = {graph.node(name).shape for name in graph.outputs}
    if len(shapes) != 1 or not any(node.op in (*_SUMS, *_SOFTMAX, "aten.amax.default") for node in graph.ops):
        return None
    if any(graph.node(name).dtype != "float32" for name in graph.outputs):
        return None
    rows = _Rows(graph, shapes.pop())
    rows.finish()
    space = Space(parameters=(Parameter(name="local", values=(16, 32, 64, 128, 256)),))
    return KernelTemplate(
        "opencl/rows", "opencl", space, {"local": 64}, partial(_render, parameters(graph), rows),
        "a row stays in cache from pass to pass",
    )  # fmt: skip


class _Rows:
    """Prints a graph as passes over one row."""

    def __init__(self, graph: Graph, shape: tuple[int, ...]) -> None:
        if not shape:
            raise Unprintable("no rows")
        self.graph = graph
        self.shape = shape
        self.passes: list[str] = []
        self.whole: list[int] = []
        self._places = slots(graph)
        self._folded: dict[str, str] = {}

    def finish(self) -> None:
        """Print the last pass, which writes the outputs."""
        printer = opencl_printer(self.graph, self._special)
        results = [printer.name(name) for name in self.graph.outputs]
        stores = [f"out{i}[row * n + c] = {result};" for i, result in enumerate(results)]
        self.passes.append(self._loop([*printer.lines, *stores]))
        if not self.whole:
            raise Unprintable("no input has the output's shape")

    def _loop(self, lines: list[str]) -> str:
        return f"for (int c = l; c < n; c += LOCAL) {{ {' '.join(lines)} }}"

    def _fold(self, key: str, source: Node, maximum: bool, wrap: str = "{0}") -> str:
        """Print a pass that folds `wrap` of a node over the row; returns the variable that holds the result."""
        if key not in self._folded:
            printer = opencl_printer(self.graph, self._special)
            value = printer.let(wrap.format(printer.name(source.name)))
            name = f"r{len(self._folded)}"
            self._folded[key] = name
            join = f"{name} = {value} > {name} || {value} != {value} ? {value} : {name};"
            step = join if maximum else f"{name} += {value};"
            self.passes.append(f"float {name} = {'-INFINITY' if maximum else '0.0f'};")
            self.passes.append(self._loop([*printer.lines, step]))
            self.passes.append(f"{name} = fold({name}, shared, {int(maximum)});")
        return self._folded[key]

    def _special(self, printer: Printer, node: Node) -> str | None:
        if node.name in self._places:
            return self._load(node)
        if node.op in (*_SUMS, *_SOFTMAX, "aten.amax.default"):
            source = reach(self.graph, node)
            axes = node.args[1] if isinstance(node.args[1], tuple) else (node.args[1],)
            if axes not in ((-1,), (len(source.shape) - 1,)) or source.shape != self.shape:
                raise Unprintable("a reduction over other axes than the last")
            if node.op in _SOFTMAX:
                return self._softmax(printer, node, source)
            if not node.arguments()["keepdim"]:
                raise Unprintable("a reduced axis that is not kept")
            total = self._fold(node.name, source, node.op == "aten.amax.default")
            return f"{total} / n" if node.op == "aten.mean.dim" else total
        return None

    def _softmax(self, printer: Printer, node: Node, source: Node) -> str:
        top = self._fold(f"{node.name}:max", source, True)
        total = self._fold(f"{node.name}:sum", source, False, f"exp({{0}} - {top})")
        shifted = f"({printer.name(source.name)} - {top})"
        return f"exp({shifted}) / {total}" if node.op == _SOFTMAX[0] else f"{shifted} - log({total})"

    def _load(self, node: Node) -> str:
        place = self._places[node.name]
        if node.dtype not in ("float32", "bool"):
            raise Unprintable(f"{node.name} is {node.dtype}")
        if node.shape == self.shape:
            self.whole.append(place)
            return f"x{place}[row * n + c]"
        if node.elements == 1:
            return f"x{place}[0]"
        if node.shape == self.shape[-1:]:
            return f"x{place}[c]"
        raise Unprintable(f"{node.name} of {node.shape} is broadcast to {self.shape}")


def _render(declared: str, rows: _Rows, configuration: Configuration) -> Rendered:
    local = configuration["local"]
    like = f"x{rows.whole[0]}"
    body = "\n  ".join(rows.passes)
    text = f"""// launch: n = {like}.shape[-1]
// launch: require = n > 0 and prod({like}.shape) > 0
// launch: local = {local}
// launch: global = prod({like}.shape[:-1]) * {local}
#define LOCAL {local}
{_FOLD}
__kernel void rows({declared}, int n) {{
  __local float shared[LOCAL];
  const int l = get_local_id(0);
  const long row = get_group_id(0);
  {body}
}}
"""
    return Rendered(text, "rows")
