"""Temporaries of a program share memory: never two that are needed together, and little in all."""

import torch
from tests.compiler.test_packed_products import drawn, weighed
from torch.nn import functional as F

from kernelwright.compiler.actions import ACTIONS, State
from kernelwright.compiler.graph import interpret
from kernelwright.compiler.policy import Faults
from kernelwright.compiler.policy._starts import in_panels
from kernelwright.compiler.printers import cpp
from kernelwright.compiler.printers.cpp._memory import places_of
from kernelwright.compiler.tile import sections_of, touched


def deep(x, *weights):
    for at in range(0, len(weights), 2):
        x = x + F.linear(F.layer_norm(F.linear(x, weights[at]), (64,)), weights[at + 1])
    return x


def program_of(layers):
    graph = weighed(deep, [(6, 32)], [(64, 32), (32, 64)] * layers)
    state = in_panels(State(graph, graph), ACTIONS, Faults(lambda line: None))
    return graph, state.program


def places(program):
    (section,) = sections_of(program)
    given = {*section.reads, *section.writes}
    temporaries = [b for b in program.buffers if b.name not in given and b.role == "temporary"]
    return section.steps, places_of(temporaries, section.steps)


def test_no_two_temporaries_that_are_needed_together_overlap():
    _, program = program_of(6)
    steps, found = places(program)
    sizes = {b.name: 4 * int(torch.Size(b.shape).numel()) for b in program.buffers}
    lives = {
        n: [i for i, s in enumerate(steps) if any(n in side for side in touched(s))] for n in found.offsets
    }
    assert len(lives) > 10
    for one in lives:
        for other in lives:
            meet = one < other and lives[one][0] <= lives[other][-1] and lives[other][0] <= lives[one][-1]
            apart = found.offsets[one] + sizes[one] <= found.offsets[other]
            assert not meet or apart or found.offsets[other] + sizes[other] <= found.offsets[one]


def test_a_deeper_network_needs_no_more_memory():
    assert places(program_of(8)[1])[1].size_bytes == places(program_of(3)[1])[1].size_bytes


def test_one_entry_runs_all_kernels_of_a_call_where_torch_computes_nothing_between():
    graph, program = program_of(2)
    candidate = cpp.render(program, graph)
    run = next(s.text for s in candidate.sources if s.path == "run.py").partition(f"def {program.name}(")[2]
    assert run.count("kernels.") == 1 and run.count("torch.empty") == 1
    (wanted,) = interpret(graph, drawn(graph))
    assert wanted.shape == (6, 32)
