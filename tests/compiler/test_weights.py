"""What weights alone decide: computed ahead of the calls, packed for the tiles, and made again when weights change."""

import dataclasses
from pathlib import Path

import pytest
import torch
from tests.compiler.test_actions import BY_NAME, graph_of
from tests.compiler.test_products import built
from torch.nn import functional as F

from kernelwright.compiler.actions import ACTIONS, State, offered, taken, undone
from kernelwright.compiler.graph import Weight, interpret, read
from kernelwright.compiler.lower import lower
from kernelwright.compiler.policy import Leaf, beam, estimate, explained
from kernelwright.compiler.printers import cpp
from kernelwright.compiler.tile import run_program
from kernelwright.languages import get_language
from kernelwright.languages.prepared import prepared
from kernelwright.records import BuildStatus, Split
from kernelwright.tasks import Problem, load_task

CASES = {
    "panels": (lambda x, w, b: torch.relu(F.linear(x, w, b)), [(5, 9)], [(64, 9), (64,)], ["pack"]),
    "halves": (lambda x, w: x @ w, [(3, 6)], [(6, 48)], ["pack"]),
    "rows": (lambda x, w, b: F.gelu(F.linear(x, w, b)), [(2, 3, 7)], [(21, 7), (21,)], ["pack"]),
    "batched": (lambda x, w: torch.bmm(x, w.transpose(1, 2)), [(2, 3, 5)], [(2, 32, 5)], ["pack"]),
    "computed": (lambda x, w: x * torch.softmax(w, -1), [(5, 9)], [(9,)], ["ahead"]),
}  # fmt: skip


def weighed(function, arguments, weights, dtype="float32"):
    """Return the graph of a function whose last arguments are weights."""
    graph = graph_of(function, *arguments, *weights, dtype=dtype)
    new = {
        n: Weight(name=n.name, shape=n.shape, dtype=n.dtype, position=n.position)
        for n in graph.inputs[len(arguments) :]
    }
    return dataclasses.replace(graph.rewritten(new), inputs=tuple(new.get(n, n) for n in graph.inputs))


def state_of(case):
    function, arguments, weights, names = CASES[case]
    graph = weighed(function, arguments, weights)
    state = State(graph, graph)
    for name in names:
        state = taken(state, BY_NAME[name], next(iter(BY_NAME[name].sites(state))))
    return state


def drawn(graph, seed=3):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(tuple(n.shape), generator=generator).abs() for n in graph.inputs]


@pytest.mark.parametrize("case", CASES)
def test_the_meaning_stays_and_the_steps_can_be_taken_back(case):
    state = state_of(case)
    inputs = drawn(state.origin)
    (wanted,), (now,) = interpret(state.origin, inputs), interpret(state.graph, inputs)
    assert torch.allclose(now, wanted, rtol=1e-10, atol=1e-12)
    program = lower(state.graph, state.decisions)
    assert program.ahead
    (got,) = run_program(program, dict(enumerate(inputs)))
    assert torch.allclose(got, wanted, rtol=1e-6, atol=1e-6)
    for step in reversed(state.steps):
        state = undone(state, step, ACTIONS)
    assert str(state.graph) == str(state.origin) and not state.decisions.ahead


def test_kernels_over_packed_weights_are_right():
    states = {case: state_of(case) for case in CASES}
    programs = {
        case: (s.graph, dataclasses.replace(lower(s.graph, s.decisions), name=case))
        for case, s in states.items()
    }
    library = built({case: programs[case] for case in ("panels", "halves", "rows", "batched")})
    for case in ("panels", "halves", "rows", "batched"):
        inputs = drawn(states[case].graph)
        (wanted,) = interpret(states[case].origin, inputs)
        output = torch.full(tuple(wanted.shape), float("nan"))
        library.get_function(case)(*inputs, output)
        assert (output - wanted).abs().max() < 1e-4, case


def loaded(state):
    program = lower(state.graph, state.decisions)
    candidate = cpp.render(program, state.graph)
    assert (candidate.style, candidate.entry) == ("function", f"run.py:{program.name}")
    candidate = candidate.model_copy(update={"flags": (*candidate.flags, "-O0")})
    cpp_language = get_language("cpp")
    build = cpp_language.build(candidate, deadline_s=400)
    return cpp_language.load(candidate, Path(build.artefact), ())


def test_weights_are_packed_again_when_they_change():
    function, _, shapes, _ = CASES["panels"]
    kernel = prepared(loaded(state_of("panels")), ("w", "b"))
    x, (w, b) = torch.randn(5, 9), [torch.randn(s) for s in shapes]
    assert torch.allclose(kernel(x, w, b), function(x, w, b), atol=1e-4)
    packed = kernel.follow(w, b)
    assert packed[0].shape == (2, 9, 32) and kernel.follow(w, b) is packed
    w.mul_(-2)
    assert torch.allclose(kernel(x, w, b), function(x, w, b), atol=1e-4)
    with pytest.raises(NotImplementedError, match="Unsupported: x2 has another shape"):
        kernel(x, w, b[:3])


def test_only_weights_are_packed():
    function, arguments, weights, _ = CASES["panels"]
    graph = graph_of(function, *arguments, *weights)
    assert not graph.lasting
    assert not [s for name in ("pack", "ahead") for s in BY_NAME[name].sites(State(graph, graph))]


def test_weights_that_lie_right_stay_as_they_are():
    graph = weighed(lambda x, w: x @ w, [(5, 8)], [(8, 20)])
    assert not list(BY_NAME["pack"].sites(State(graph, graph)))
    graph = weighed(lambda x, w: F.conv2d(x, w), [(1, 3, 6, 6)], [(4, 3, 3, 3)])
    assert not list(BY_NAME["pack"].sites(State(graph, graph)))


def test_what_runs_ahead_costs_nothing_in_a_call_and_is_told():
    graph = weighed(lambda x, w: F.linear(x, w), [(64, 512)], [(512, 512)])
    start = State(graph, graph)
    direct, packed = (
        taken(start, BY_NAME[name], next(iter(BY_NAME[name].sites(start)))) for name in ("direct", "pack")
    )
    before, after = (estimate(lower(s.graph, s.decisions)) for s in (direct, packed))
    assert after.kernels == before.kernels and after.operations < before.operations
    assert "1 more, whenever the weights change" in explained(Leaf(packed, after), before)
    names = [leaf.state.text for leaf in beam(graph, depth=1, width=8)]
    assert names.index("pack(mm)") < names.index("direct(mm)")


def test_only_languages_that_hold_weights_are_offered_to_pack_them():
    assert {"pack", "ahead"} <= {a.name for a in offered(cpp.FORMS)}
    assert not {"pack", "ahead"} & {a.name for a in offered(("panels", "direct"))}


NORM = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 16)
        self.norm = nn.BatchNorm1d(16)

    def forward(self, x):
        return torch.relu(self.norm(self.inner(x)))

def get_inputs():
    return [torch.randn(16, 8)]
"""


def test_weights_are_packed_once_though_every_call_changes_running_statistics(tmp_path):
    (tmp_path / "norm.py").write_text(NORM)
    problem = Problem(load_task(str(tmp_path / "norm.py")))
    (workload,) = problem.task.split(Split.SEARCH)
    graph = read(problem)
    state = taken(
        State(graph, graph), BY_NAME["pack"], next(iter(BY_NAME["pack"].sites(State(graph, graph))))
    )
    candidate, language = cpp.render(state.program, state.graph), get_language("cpp")
    build = language.build(candidate)
    assert build.status is BuildStatus.OK, build.diagnostics
    weights = {name: t.clone() for name, t in problem.state(workload, 0).items()}
    kernel = prepared(language.load(candidate, Path(build.artefact), workload.outputs), tuple(weights))
    expected, (x,) = problem.reference(workload, weights), problem.inputs(workload, 0)
    for _ in range(2):
        torch.testing.assert_close(kernel(x, *weights.values()), expected(x))
        torch.testing.assert_close(weights, dict(expected.state_dict()))
        assert kernel.is_packed(*weights.values())
    weights["inner.weight"].mul_(2)
    expected.load_state_dict(weights)
    torch.testing.assert_close(kernel(x, *weights.values()), expected(x))


def test_a_program_holds_the_constants_that_torch_reads():
    table = torch.randn(65, 65)
    graph = graph_of(lambda x: x + table, (65, 65))
    text = next(s.text for s in cpp.render(lower(graph), graph).sources if s.path == "run.py")
    scope = {}
    exec(text, scope)
    assert torch.equal(scope["CONSTANT_FIXED"], table)


LAYER = """
import torch

batch_size, in_features, out_features = 5, 40, {columns}

class Model(torch.nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.gemm = torch.nn.Linear(in_features, out_features)

    def forward(self, x):
        return torch.relu(self.gemm(x))

def get_inputs():
    return [torch.rand(batch_size, in_features)]

def get_init_inputs():
    return [in_features, out_features]
"""


@pytest.mark.parametrize(
    ("columns", "width"), [(64, 32), pytest.param(48, 16, marks=pytest.mark.long), (67, 0)]
)
def test_columns_that_differ_lie_in_panels_that_they_fill_and_others_are_declined(tmp_path, columns, width):
    (tmp_path / "layer.py").write_text(LAYER.format(columns=2 * columns))
    problem = Problem(load_task(str(tmp_path / "layer.py"), max_elements=210 + 46 * columns))
    assert problem.task.workloads[0].axes["out_features"] == columns, "half of them, and no size that stays"
    graph = read(problem)
    (site,) = BY_NAME["pack"].sites(State(graph, graph))
    state = taken(State(graph, graph), BY_NAME["pack"], site)
    candidate, language = cpp.render(state.program, state.graph), get_language("cpp")
    build = language.build(candidate)
    assert build.status is BuildStatus.OK, build.diagnostics
    (workload,) = problem.task.split(Split.SEARCH)
    names = tuple(problem.state(workload, 0))
    for rows, inner, made in ((5, 40, columns), (7, 33, 2 * columns), (4, 40, columns + 1)):
        kernel = prepared(language.load(candidate, Path(build.artefact), workload.outputs), names)
        x, weight, bias = torch.rand(rows, inner), torch.rand(made, inner), torch.rand(made)
        if width and made % width:
            with pytest.raises(NotImplementedError, match=f"out_features % {width} == 0"):
                kernel(x, weight, bias)
        else:
            torch.testing.assert_close(
                kernel(x, weight, bias), torch.relu(F.linear(x, weight, bias)), rtol=1e-5, atol=1e-4
            )
