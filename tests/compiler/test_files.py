"""A program of several kernels is several files, and the same program."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from tests.compiler.test_actions import BY_NAME, graph_of
from tests.compiler.test_moves import sized_softmax
from tests.compiler.test_weights import weighed

from kernelwright.compiler.actions import ACTIONS, State, taken, transplanted
from kernelwright.compiler.graph import interpret
from kernelwright.compiler.printers import cpp
from kernelwright.compiler.printers.cpp import _program
from kernelwright.config import Settings
from kernelwright.languages.cpp import Cpp
from kernelwright.records import BuildStatus, TensorSpec


def texts_of(candidate):
    return {s.path: s.text for s in candidate.sources if s.path.endswith(".cpp")}


def result_of(candidate, inputs, shape):
    language = Cpp()
    build = language.build(candidate)
    assert build.status is BuildStatus.OK, build.diagnostics
    output = TensorSpec(name="out", shape=shape, dtype="float32")
    return language.load(candidate, Path(build.artefact), (output,))(*inputs)


def layers(x, w):
    return torch.softmax(F.relu(torch.softmax(x, -1) @ w), -1)


def in_panels():
    graph = graph_of(layers, (6, 40), (40, 40))
    return taken(State(graph, graph), BY_NAME["panels"], "mm")


def test_a_product_is_compiled_in_a_file_of_its_own_and_the_program_is_right():
    state = in_panels()
    candidate = cpp.render(state.program, state.graph)
    texts = texts_of(candidate)
    assert len(texts) == 2 and all(
        text.count("kw::contract<") == (name != "kernel.cpp") for name, text in texts.items()
    )
    inputs = [torch.randn(6, 40), torch.randn(40, 40)]
    (wanted,) = interpret(state.graph, inputs)
    assert torch.allclose(result_of(candidate, inputs, (6, 40)), wanted.float(), atol=1e-5)


def test_one_kernel_is_one_file():
    graph = graph_of(lambda x: torch.softmax(x, -1), (6, 40))
    assert list(texts_of(cpp.render(State(graph, graph).program, graph))) == ["kernel.cpp"]


def test_small_kernels_fill_a_file(monkeypatch):
    graph = graph_of(lambda x: torch.softmax(x, 0) + torch.softmax(x, 1), (6, 40))
    program = State(graph, graph).program
    assert len(program.steps) > 1 and list(texts_of(cpp.render(program, graph))) == ["kernel.cpp"]
    monkeypatch.setattr(_program, "_FULL_FILE", 0)
    apart = cpp.render(program, graph)
    assert len(texts_of(apart)) == 1 + len(program.steps) and "KW_KERNEL(" in texts_of(apart)["kernel.cpp"]
    x = torch.randn(6, 40)
    assert torch.allclose(result_of(apart, [x], (6, 40)), x.softmax(0) + x.softmax(1), atol=1e-6)


@pytest.mark.parametrize("rows", [48, 50])
def test_versions_for_known_sizes_are_called_from_another_file(tmp_path, monkeypatch, rows):
    """Templates: both versions are in the kernel's file, since the one that calls them sees no definition."""
    steps = (("specialise", "softmax_kernel.rows"), ("whole", "softmax_kernel.cols"))
    state = transplanted(sized_softmax(tmp_path, rows=48).graph, steps, ACTIONS)
    printer = _program.Printer(state.program, cpp.Style())
    monkeypatch.setattr(_program.Printer, "_apart", lambda self: [self.kernels])
    texts = printer.files("softmax")
    assert "template void softmax_kernel<48, true>(" in texts["softmax_kernel.cpp"]
    x = torch.randn(rows, 64 if rows == 48 else 63)
    candidate = cpp.render(state.program, state.graph)
    assert torch.allclose(result_of(candidate, [x], tuple(x.shape)), x.softmax(-1), atol=1e-6)


SHARED = {
    "pack": (F.linear, [((5, 21), (64, 21)), ((5, 40), (96, 40))], b"packed_tile", b"RegisterTiles"),
    "convolve": (
        lambda x, w: F.conv2d(x, w, padding=1), [((1, 3, 7, 9), (8, 3, 3, 3)), ((2, 5, 6, 20), (16, 5, 3, 3))],
        b"pixel_tile", b"Convolving",
    ),
}  # fmt: skip
"""Action → a function, its shapes in two programs; what only shared objects hold, and what all refer to."""


@pytest.mark.parametrize("name", SHARED)
def test_what_depends_on_no_kernel_is_compiled_once(tmp_path, name):
    """Two programs of other sizes, and of other work after the product, share an object; their own hold no tile."""
    function, sizes, held, named = SHARED[name]
    language = Cpp(Settings.from_environment({"KERNELWRIGHT_CACHE": str(tmp_path)}))
    for after, (given, weight) in zip((torch.relu, torch.tanh), sizes, strict=True):
        graph = weighed(lambda x, w, after=after: after(function(x, w)), [given], [weight])
        state = State(graph, graph)
        state = taken(state, BY_NAME[name], next(iter(BY_NAME[name].sites(state))))
        candidate = cpp.render(state.program, state.graph)
        build = language.build(candidate.model_copy(update={"flags": (*candidate.flags, "-O1")}))
        assert build.status is BuildStatus.OK, build.diagnostics
    objects = [o.read_bytes() for o in (tmp_path / "builds" / "objects").glob("*/unit.o")]
    assert sum(named in o for o in objects) == 3 and sum(held in o for o in objects) == 1
