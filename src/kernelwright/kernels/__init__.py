"""Parametric kernels, one folder per family: Graph → Templates.

A family is a subpackage whose name does not start with an underscore and whose `__init__` offers
`match(graph, workload)`. It is found by name; nothing else needs to be edited. A whole family:

    '''Negate: the smallest family there is.'''

    from collections.abc import Iterator

    from ...records import Configuration, Parameter, Space, Workload
    from ...tasks.capture import Graph
    from .._core import KernelTemplate, Rendered

    RANK = 50  # families are asked in ascending rank, the most specific first; 50 is the default


    def match(graph: Graph, workload: Workload) -> Iterator[KernelTemplate]:
        '''Yield every template that computes the whole graph, best first; nothing if none does.'''
        if [node.op for node in graph.ops] == ["aten.neg.default"]:
            space = Space(parameters=(Parameter(name="unroll", values=(1, 2, 4)),))
            yield KernelTemplate("negate", "cpp", space, {"unroll": 2}, _source)


    def _source(configuration: Configuration) -> Rendered:
        '''Return the text of `kernel.cpp` for one configuration.'''
        return Rendered(text=TEXT.replace("@UNROLL@", str(configuration["unroll"])), symbol="negate")

`kernel.cpp` includes `kernelwright.h` (the calling convention) and `vector.h` (vector math); both are
added to the candidate by `KernelTemplate.render`, so it is self-contained. Sizes are run-time values;
tile, unroll and thresholds are compile-time ones. A kernel must be correct on every shape of the task's
ranks and dtypes (odd, prime, one, larger, smaller), or raise `KW_UNSUPPORTED`.

Pointwise chains, reductions, softmax, norms and losses need no separate kernel: they are *row programs*
(`_core/match.py`). A graph is lowered to elementwise operations and reductions (`_core/program.py`, one
rule per operator in `_core/rules/`), scheduled into passes over rows or columns (`_core/plan.py`) and printed
as C++ (`_core/rows.py`). An operator that reduces or normalises is one more rule there:

    @rule("special_norm")
    def _special_norm(b: Builder, node: Node) -> Value:
        x = b.get(node.args[0])
        return b.point("div", x, b.reduce("max", b.point("abs", x), (-1,), keepdim=True))
"""

from ._core import Family, KernelTemplate, Rendered, families, headers_of, match_all

__all__ = ["Family", "KernelTemplate", "Rendered", "families", "headers_of", "match_all"]
