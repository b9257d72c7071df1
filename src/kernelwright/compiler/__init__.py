"""Problem → Schedules: the compiler. Actions choose the schedule, a printer writes the code.

The flow, and the order to read it in (`flow.py` runs it):

    graph/      Problem → Graph: what is computed, in a small closed set of nodes, with its meaning in float64
    groups/     what the work-group printers share: OpenCL C and WGSL
    actions/    State → State: named schedule actions: recorded, replayed, undone
    policy/     Graph → Leaves: beam search over legal actions, ranked by a cost estimate
    tile/       the tile form: loops, lanes, accumulators, buffers; with an interpreter in Python
    lower/      Graph, Decisions → Program: what is stored, what is fused, how loops are arranged
    calls.py    Program → a Python function that runs kernels and torch ops in sequence
    printers/   Program → Candidate: one folder per language, found by its name

The compiler never looks up a matching kernel. A graph is lowered by computing every output element where it
is stored; what would be recomputed there many times is stored first, and everything else is fused
into the loop that needs it. So any graph has a first kernel immediately, and actions make it fast.

    >>> from kernelwright.compiler import graph, lower
    >>> from kernelwright.compiler.printers import cpp
    >>> from kernelwright.tasks import Problem, load_task
    >>> read = graph.read(Problem(load_task("examples/swiglu.py")))
    >>> candidate = cpp.render(lower.lower(read), read)
    >>> candidate.entry
    'kernel.cpp:mul_1'

Covers: pointwise chains, views, pads, slices, windows, gathers and scatters, reductions, scans, products and
convolutions, norms, softmax, attention, losses; any sizes, tails included; float32, half precision,
integers. Unsupported operations run natively, between kernels, and the candidate lists them.
Does not cover: gradients, references that change arguments, several devices.
"""

from .flow import Schedule, schedules

__all__ = ["Schedule", "schedules"]
