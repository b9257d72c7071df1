"""Random programs, lowered and printed, against float64: loop by loop in Python, and all at once in C++."""

import dataclasses
import functools
import math

import pytest
import torch
from benchmarks.random_graphs import case_of, drawn

from kernelwright.compiler.actions import State
from kernelwright.compiler.lower import Decisions, Layout, lower
from kernelwright.compiler.printers import cpp
from kernelwright.compiler.tile import SIZES, run_program
from kernelwright.languages import get_language
from kernelwright.languages._destination import load_library
from kernelwright.records import BuildStatus, SourceFile
from kernelwright.testing import RandomProgram, random_program

BITS = RandomProgram(
    seed=0,
    inputs_=("torch.randint(-99, 100, (3, 70), generator=g)", "torch.randint(-99, 100, (70,), generator=g)"),
    lines=(
        ("v0", "(x0 & 12) | (x0 ^ -5)"),
        ("v1", "~v0 ^ (x0 > 2)"),
        ("v2", "torch.where((x0 > 2) ^ (x1 > 2), v1 & x1, v1 | 3)"),
    ),
    returns=("v2",),
)
WRITTEN = {79: BITS}
"""By hand, in the place of random ones."""
SEEDS = range(80)
SOME = (*range(19), *WRITTEN)
"""A quarter of them, for a run in which to compile the others would take long."""
MOST = 2000
LAYOUTS = {
    "auto": Layout(),
    "inner": Layout(vector="inner", unroll=4),
    "outer": Layout(vector="outer", unroll=1),
    "moved": Layout(flatten=False),
}
"""How loops are arranged; `moved` are changed at random besides."""


@functools.cache
def case(seed):
    return case_of(WRITTEN.get(seed) or random_program(seed))


def arguments_of(one):
    return {node.position: value for node, value in zip(one.graph.inputs, one.inputs, strict=True)}


def programs(decisions, seeds=SEEDS, *, moved=False):
    """Yield the seeds whose program is in tiles from end to end."""
    for seed in seeds:
        graph = case(seed).graph
        program = lower(graph, decisions)
        if not program.natives:
            if moved:
                program = drawn(State(graph, graph, decisions), seed).program
            yield seed, dataclasses.replace(program, name=f"case{seed}")


@pytest.mark.parametrize("apart", [False, True], ids=["fused", "apart"])
def test_loops_in_python_mean_what_the_graph_means(apart):
    tried = 0
    for seed, program in programs(Decisions(apart=apart)):
        if sum(math.prod(map(int, b.shape)) for b in program.buffers) <= MOST:
            tried += 1
            got = run_program(program, arguments_of(case(seed)))
            narrow = [g.to(own.dtype) for g, own in zip(got, case(seed).native, strict=True)]
            assert case(seed).difference(narrow) is None, f"seed {seed}"
    assert tried > len(SEEDS) // 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layout", "seeds"),
    [("auto", SOME), *(pytest.param(n, SEEDS, marks=pytest.mark.long) for n in LAYOUTS)],
    ids=lambda given: given if isinstance(given, str) else str(len(given)),
)
def test_cpp_means_what_the_graph_means(layout, seeds, monkeypatch):
    monkeypatch.setitem(SIZES, "stream", 1)
    found = dict(programs(Decisions(layout=LAYOUTS[layout]), seeds, moved=layout == "moved"))
    assert len(found) > len(seeds) * 0.9
    library = built(found)
    for seed, program in found.items():
        outputs = [torch.empty(o.shape, dtype=o.dtype) for o in case(seed).native]
        arguments = arguments_of(case(seed))
        given = [arguments[i].contiguous() for i in sorted(arguments)]
        library.get_function(program.name)(*given, *outputs)
        assert case(seed).difference(outputs) is None, f"seed {seed}"


def built(found):
    """Compile all programs as one file, each in a namespace of its own."""
    texts = ['#include "tiles.h"']
    for seed, program in found.items():
        text = cpp.source(program).replace('#include "tiles.h"', "")
        texts.append(f"namespace space{seed} {{\n{text}}}")
    one = cpp.render(program, case(seed).graph)
    headers = [s for s in one.sources if s.path.endswith(".h")]
    whole = SourceFile(path="kernel.cpp", text="\n".join(texts))
    candidate = one.model_copy(update={"sources": (whole, *headers), "flags": (*one.flags, "-O1")})
    language = get_language("cpp")
    build = language.build(candidate, deadline_s=400)
    assert build.status is BuildStatus.OK, build.diagnostics
    return load_library(f"{build.artefact}/kernel.so")
