"""Problem → Schedules, by macro decisions and micro coding: the compiler.

The flow, and the order to read it in (`flow.py` runs it):

    graph/      Problem → Graph: what is computed, in a small closed set of nodes, with its meaning in float64
    groups/     what the printers for groups of threads share: OpenCL C and WGSL
    actions/    State → State: named macro decisions, recorded, replayed, taken back
    policy/     Graph → Leaves: legal actions, ordered by an estimate, kept in a beam
    tile/       the tile form: loops, lanes, accumulators, buffers; with its meaning in Python
    lower/      Graph, Decisions → Program: what is stored, what is fused, how loops are arranged
    calls.py    Program → a Python function that runs kernels and torch in turn
    printers/   Program → Candidate: a folder a language, found by its name

The engine never looks for a kernel that fits. A graph is lowered by computing every output element where it
is stored; what would be computed again and again there is stored before, and everything else is fused
into the loop that needs it. So a first kernel follows from any graph at once, and decisions make it fast.

    >>> from kernelwright.compiler import graph, lower
    >>> from kernelwright.compiler.printers import cpp
    >>> from kernelwright.tasks import Problem, load_task
    >>> read = graph.read(Problem(load_task("examples/swiglu.py")))
    >>> candidate = cpp.render(lower.lower(read), read)
    >>> candidate.entry
    'kernel.cpp:mul_1'

Covers: pointwise chains, views, pads, slices, windows, gathers and scatters, reductions, scans, products and
convolutions, norms, softmax, attention, losses; any sizes, tails included; float32, half precision,
integers. Operations without a form run natively, between kernels, and the candidate says which.
Does not cover: gradients, references that change arguments, several devices.
"""

from .flow import Schedule, schedules

__all__ = ["Schedule", "schedules"]
