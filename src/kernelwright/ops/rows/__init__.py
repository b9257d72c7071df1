"""Rows: what `optimize` proposes for any graph of elementwise operators and reductions.

Pointwise chains, reductions, softmax, norms and losses need no kernel of their own. In C++ they are *row programs*: a
graph is lowered to elementwise operations and reductions (`_program.py`, one rule per operator in `rules/`), scheduled
into passes over rows or columns (`_plan.py`) and printed (`_printer.py`). An operator that reduces or normalises is one
more rule:

    @rule("special_norm")
    def _special_norm(b: Builder, node: Node) -> Value:
        x = b.get(node.args[0])
        return b.point("div", x, b.reduce("max", b.point("abs", x), (-1,), keepdim=True))

The forms in Triton and OpenCL cover reductions over the last axis. Nothing here is to be imported as an op: `norms`,
`activations` and `loss` have those.
"""
