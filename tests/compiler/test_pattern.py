"""Kernels that differ in names alone are one function, called with other buffers."""

import re

import pytest
import torch
from tests.compiler.test_actions import graph_of

from kernelwright.compiler.actions import Library, State, taken
from kernelwright.compiler.lower import lower
from kernelwright.compiler.printers import cpp
from kernelwright.compiler.tile import pattern


def calls_of(text):
    return re.findall(r"^  (\w+_kernel)\(([\w.(), ]*)\);$", text, re.MULTILINE)


def test_alike_kernels_are_printed_once_and_called_with_their_own_buffers():
    graph = graph_of(lambda x, y: (torch.softmax(x, -1), torch.softmax(y, -1)), (5, 7), (5, 7))
    text = cpp.source(lower(graph))
    (first, given), (second, others) = calls_of(text)
    assert first == second and text.count("void ") - text.count("(void)") == 1
    assert given.startswith("x0.data(), ") and others.startswith("x1.data(), ")
    names = [part.partition(".")[0] for part in (given + ", " + others).split(", ") if "." in part]
    assert len(set(names)) == 4
    assert f"// Runs on other buffers as {names[3]}_kernel." in text


def test_python_around_kernels_calls_the_function_they_share():
    graph = graph_of(lambda x, w: torch.softmax(torch.softmax(x @ w, -1) @ w, -1), (5, 7), (7, 7))
    state = taken(State(graph, graph), Library(), "all")
    kernel, run = (source.text for source in cpp.render(state.program, graph).sources[:2])
    assert kernel.count("KW_KERNEL(") == 1
    called = re.findall(r"kernels\.(\w+)\((\w+), (\w+)\)", run)
    assert len(called) == 2 and len({name for name, _, _ in called}) == 1 and len(set(sum(called, ()))) == 5


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda x, y: (x.exp(), y.log()), [(5, 7), (5, 7)]),
        (lambda x, y: (x * 2.0, y * 3.0), [(5, 7), (5, 7)]),
        (lambda x, y: (x + 0.0, y - 0.0), [(5, 7), (5, 7)]),
        (lambda x, y: (x.sum(-1), y.amax(-1)), [(5, 7), (5, 7)]),
        (lambda x, y: (x.sum(-1), y.sum(0)), [(5, 7), (7, 5)]),
        (lambda x, y: (x.relu(), y.relu()), [(5, 7), (5, 8)]),
        (lambda x, y: (x.sigmoid(), (y * y).sigmoid()), [(5, 7), (5, 7)]),
        (lambda x, y, z, w: (x - y.exp(), w.exp() - z), [(5, 7)] * 4),
    ],
)
def test_kernels_that_do_something_else_are_functions_of_their_own(function, shapes):
    program = lower(graph_of(function, *shapes))
    first, second = program.steps
    assert pattern(first, program) != pattern(second, program)


def test_the_dtype_of_a_buffer_tells_kernels_apart():
    program = lower(graph_of(lambda x, y: (x * 2.0, y.double().float() * 2.0), (5, 7), (5, 7)))
    half = lower(graph_of(lambda x, y: (x * 2.0, y * 2.0), (5, 7), (5, 7), dtype="bfloat16"))
    assert len(half.steps) == len(program.steps) == 2
    assert pattern(half.steps[0], half) == pattern(half.steps[1], half) != pattern(program.steps[0], program)
