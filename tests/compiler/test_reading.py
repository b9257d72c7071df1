"""How sizes follow from the arguments: told by probes of the reader's own, guarded, or left constant."""

import pytest
import torch
from benchmarks.triton_coverage import run_printed
from tests.compiler.test_actions import graph_of
from torch.nn import functional as F

from kernelwright.compiler.actions import ACTIONS, State, taken
from kernelwright.compiler.graph import (
    Graph,
    NotSchedulable,
    Point,
    Size,
    fit,
    from_captured,
    interpret,
    read,
    text_of,
)
from kernelwright.compiler.lower import lower
from kernelwright.compiler.printers import Unprintable, cpp, opencl, triton
from kernelwright.compiler.tile import run_program
from kernelwright.records import Split
from kernelwright.tasks import Problem, load_task
from kernelwright.tasks.capture import trace

HEAD = "import torch\nimport kernelwright as kw\n\n"


def problem_of(folder, declaration, body):
    path = folder / "task.py"
    path.write_text(f"{HEAD}@kw.task({declaration})\ndef f(x):\n    {body}\n")
    return Problem(load_task(str(path)))


class SearchOnly:
    """A task that shows its search workloads and nothing more."""

    def __init__(self, task):
        self._task, self.reference, self.contract = task, task.reference, task.contract

    def split(self, split):
        assert split is Split.SEARCH, f"a proposer must not see {split}"
        return self._task.split(split)

    @property
    def workloads(self):
        raise AssertionError("a proposer must not see all workloads")


def agrees(graph: Graph, shape) -> bool:
    """Tell whether a kernel of the graph takes an argument of this shape."""
    sizes = {name: shape[dim] for name, (_, dim) in graph.symbols.items()}
    own = tuple(eval(text_of(s), {}, sizes) for s in graph.inputs[0].shape)
    return own == shape and all(eval(guard, {}, sizes) for guard in graph.guards)


def test_probes_are_run_by_one_thread(tmp_path, monkeypatch):
    problem = problem_of(
        tmp_path, 'x="float32[rows, width]", workloads=[{"rows": 40, "width": 24}]', "return x + 1"
    )
    threads, at, before = [], Problem.at, torch.get_num_threads()
    monkeypatch.setattr(Problem, "at", lambda *given: threads.append(torch.get_num_threads()) or at(*given))
    torch.set_num_threads(2)
    try:
        assert read(problem).symbols
        assert set(threads) == {1} and torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_hidden_and_confirm_workloads_are_not_looked_at(tmp_path):
    declaration = 'x="float32[rows, 2 * width]", workloads=[{"rows": 40, "width": 24}]'
    problem = problem_of(tmp_path, declaration, "a, b = x.chunk(2, -1)\n    return a * b")
    open_graph = read(problem)
    problem.task = SearchOnly(problem.task)
    closed = read(problem)
    assert (str(closed), closed.guards) == (str(open_graph), open_graph.guards)
    assert set(closed.symbols) == {"rows", "x_1"} and "x_1 % 2 == 0" in closed.guards


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ("return torch.nn.functional.max_pool1d(x, 3, stride=2)", "((cols + -1) // 2)"),
        ("return x[:, :-3].exp()", "(cols + -3)"),
        ("return x.repeat_interleave(2, 1)[:, 1:]", "((cols * 2) + -1)"),
    ],
)
def test_a_rule_is_told_from_one_search_workload(tmp_path, body, rule):
    declaration = 'x="float32[rows, cols]", workloads=[{"rows": 40, "cols": 40}]'
    graph = read(problem_of(tmp_path, declaration, body))
    assert [text_of(s) for s in graph.outputs[0].shape] == ["rows", rule]


def test_a_height_that_halves_to_the_batch_is_no_batch(tmp_path):
    declaration = 'x="float32[rows, cols]", workloads=[{"rows": 8, "cols": 16}]'
    graph = read(problem_of(tmp_path, declaration, "return torch.nn.functional.max_pool1d(x, 2)"))
    assert [text_of(s) for s in graph.outputs[0].shape] == ["rows", "(cols // 2)"]


def test_a_probe_with_empty_tensors_tells_nothing(tmp_path):
    declaration = 'x="float32[rows, cols]", workloads=[{"rows": 40, "cols": 24}]'
    graph = read(problem_of(tmp_path, declaration, "return x[:, :-5].exp()"))
    rows, cols = (s.values for s in graph.outputs[0].shape)
    assert len(rows) == len(cols) >= 3 and min(rows) > 0 and min(cols) > 0


def test_sizes_beyond_the_probes_are_declined(tmp_path):
    declaration = 'x="float32[rows, cols]", workloads=[{"rows": 40, "cols": 24}]'
    graph = read(problem_of(tmp_path, declaration, "return x * 2.0 if x.shape[0] < 500 else x * 3.0"))
    assert agrees(graph, (40, 24)) and agrees(graph, (7, 31)) and not agrees(graph, (500, 24))
    assert "rows <= 81" in graph.guards and "rows <= 81" in cpp.source(lower(graph))
    text = opencl.render(lower(graph), graph).sources[0].text
    assert "// launch: require = rows <= 81" in text


def test_a_branch_between_the_probes_drops_the_other_side(tmp_path):
    declaration = 'x="float32[rows, cols]", workloads=[{"rows": 40, "cols": 24}]'
    graph = read(problem_of(tmp_path, declaration, "return x * 2.0 if x.shape[0] < 60 else x * 3.0"))
    assert agrees(graph, (40, 24)) and not agrees(graph, (81, 24))


@pytest.mark.parametrize(
    ("number", "rule"),
    [("x.shape[1] ** -0.5", "(1.0 * cols ** -0.5)"), ("3.0 / x.shape[1]", "(3.0 * cols ** -1.0)")],
)
def test_a_number_computed_from_a_size_is_that_of_the_call(tmp_path, number, rule):
    declaration = 'x="float32[rows, cols]", workloads=[{"rows": 40, "cols": 24}]'
    problem = problem_of(tmp_path, declaration, f"return x * ({number})")
    graph = read(problem)
    assert set(graph.symbols) == {"rows", "cols"} and repr(graph.outputs[0].args[1]) == rule
    x = torch.randn(5, 7, generator=torch.Generator().manual_seed(1))
    (got,) = run_program(lower(graph), {0: x})
    (workload,) = problem.task.split(Split.SEARCH)
    assert torch.allclose(got.float(), problem.reference(workload)(x))


def test_an_axis_that_a_number_depends_on_without_a_rule_stays_constant(tmp_path):
    declaration = 'x="float32[rows, cols]", workloads=[{"rows": 40, "cols": 24}]'
    graph = read(problem_of(tmp_path, declaration, "return x * (1.0 + 2.0 ** -x.shape[1])"))
    assert set(graph.symbols) == {"rows"}
    assert agrees(graph, (31, 24)) and not agrees(graph, (31, 25))


NORM = """
from torch import nn

class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Linear(width, width)
        self.norm = nn.BatchNorm1d(width)
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.norm(self.inner(x)) * self.scale

def get_inputs():
    return [torch.randn(16, 8)]

def get_init_inputs():
    return [8]
"""


def test_running_statistics_are_updated_after_all_is_computed(tmp_path):
    path = tmp_path / "norm.py"
    path.write_text(f"import torch\n{NORM}")
    problem = Problem(load_task(str(path)))
    (workload,) = problem.task.split(Split.SEARCH)
    graph = from_captured(trace(problem, workload), workload)
    assert [i.name for i in graph.inputs] == ["x", *(s.name.replace(".", "_") for s in workload.state)]
    program = lower(graph)
    changed = [name for name, _ in program.updates]
    assert changed == ["norm_running_mean", "norm_running_var", "norm_num_batches_tracked"]
    text = next(s.text for s in cpp.render(program, graph).sources if s.path == "run.py")
    assert all(f"{name}_given.copy_({new})" in text for name, new in program.updates)
    with pytest.raises(Unprintable, match="changed in place"):
        opencl.render(program, graph)


@pytest.mark.needs("triton")
def test_running_statistics_are_updated_from_triton_too(tmp_path):
    path = tmp_path / "norm.py"
    path.write_text(f"import torch\n{NORM}")
    problem = Problem(load_task(str(path)))
    (workload,) = problem.task.split(Split.SEARCH)
    graph = from_captured(trace(problem, workload), workload)
    inputs, state = problem.inputs(workload, 0), problem.state(workload, 0)
    given = {s.name: state[s.name].clone() for s in workload.state}
    found = run_printed(triton.render(lower(graph), graph), [*inputs, *given.values()])
    right = problem.run_reference(workload, inputs, state).outputs
    torch.testing.assert_close(found, right)
    batch = torch.nn.functional.linear(inputs[0], state["inner.weight"], state["inner.bias"])
    assert given["norm.num_batches_tracked"] == state["norm.num_batches_tracked"] + 1
    torch.testing.assert_close(
        given["norm.running_mean"], 0.9 * state["norm.running_mean"] + 0.1 * batch.mean(0)
    )


LAYERS = """
from torch import nn

BATCH, STEPS = 2, 40

class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.GRU(width, 4, 2, batch_first=True)

    def forward(self, x):
        return torch.relu(self.layers(2.0 * x + 1.0)[0][:, -1]) * 3.0

def get_inputs():
    return [torch.randn(BATCH, STEPS, 3)]

def get_init_inputs():
    return [3]
"""


@pytest.mark.needs("triton")
def test_a_recurrent_layer_stays_with_torch_and_what_surrounds_it_is_fused(tmp_path):
    path = tmp_path / "layers.py"
    path.write_text(f"import torch\n{LAYERS}")
    problem = Problem(load_task(str(path)))
    graph = read(problem)
    assert {"batch", "steps"} <= set(graph.symbols)
    program = lower(graph)
    assert [step.name for step in program.steps] == ["add_kernel", "full_kernel", "getitem", "mul_1_kernel"]
    (workload,) = problem.task.split(Split.SEARCH)
    inputs, state = problem.inputs(workload, 0), problem.state(workload, 0)
    found = run_printed(triton.render(program, graph), [*inputs, *(state[s.name] for s in workload.state)])
    torch.testing.assert_close(found, problem.run_reference(workload, inputs, state).outputs)


HOLDER = """
class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.hidden = torch.randn(3, width, dtype=torch.float64)

    def forward(self, x):
        self.hidden.copy_(x)
        return self.hidden.exp()

def get_inputs():
    return [torch.randn(1, 8)]

def get_init_inputs():
    return [8]
"""


def test_what_is_written_over_a_tensor_is_read_in_its_place(tmp_path):
    path = tmp_path / "holder.py"
    path.write_text(f"import torch\n{HOLDER}")
    graph = read(Problem(load_task(str(path))))
    assert not graph.natives and {i.name for i in graph.inputs} == {"x"}
    x = torch.randn(1, 8)
    (got,) = run_program(lower(graph), {0: x})
    assert got.dtype == torch.float64 and torch.allclose(got, x.double().expand(3, 8).exp())


@pytest.mark.parametrize(
    "body", ["return x * x.sum().item()", "return torch.zeros_like(x).masked_scatter(x > 0, x[x > 0].exp())"]
)
def test_what_other_values_would_make_another_graph_is_declined(tmp_path, body):
    declaration = 'x="float32[rows, 64]", workloads=[{"rows": 64}]'
    with pytest.raises(NotSchedulable, match="other values"):
        read(problem_of(tmp_path, declaration, body))


def test_a_branch_that_values_take_every_time_is_read(tmp_path):
    body = "return x.exp() if x.abs().sum() > 0 else x"
    assert not read(problem_of(tmp_path, 'x="float32[rows, 8]", workloads=[{"rows": 4}]', body)).natives


@pytest.mark.parametrize(
    ("body", "action"),
    [
        ("return torch.nn.functional.layer_norm(x, x.shape[-1:])", "two-passes"),
        ("return x.var(1, correction=1)", "two-passes"),
        ("return x + torch.full((1,), x.shape[1])", ""),
    ],
)
def test_counts_are_those_of_the_call_not_of_the_first_workload(tmp_path, body, action):
    declaration = 'x="float32[rows, cols]", workloads=[{"rows": 40, "cols": 24}]'
    problem = problem_of(tmp_path, declaration, body)
    graph = read(problem)
    assert set(graph.symbols) == {"rows", "cols"}
    state = State(graph, graph)
    for step in (a for a in ACTIONS if a.name == action):
        state = taken(state, step, next(iter(step.sites(state))))
    x = torch.randn(5, 7, generator=torch.Generator().manual_seed(1))
    (got,) = run_program(lower(state.graph, state.decisions), {0: x})
    (workload,) = problem.task.split(Split.SEARCH)
    assert torch.allclose(got.float(), problem.reference(workload)(x), atol=1e-5)


def test_a_stride_seen_at_few_sizes_is_guarded():
    exact, vague = fit((3, 6, 10), {"n": (8, 13, 21)}), fit((4, 5, 6), {"n": (7, 9, 11)})
    assert isinstance(exact, Size) and isinstance(vague, Size)
    assert (str(exact), exact.guard, str(vague)) == ("((n + -1) // 2)", "", "((n + 1) // 2)")
    assert vague.guard == "((n + 2) // 2) == ((n + 1) // 2) and ((n + 7) // 3) == ((n + 1) // 2)"


def test_the_reader_moves_sizes_by_the_task_itself():
    problem = Problem(load_task("examples/kernelbench_softmax.py"))
    (first,) = problem.task.split(Split.SEARCH)
    other = problem.at(first, {"dim": 33})
    assert other.arguments[0].shape == (first.arguments[0].shape[0], 33) and other.axes["dim"] == 33
    values = problem.inputs(other, 0)
    assert isinstance(values[0], torch.Tensor) and values[0].shape == other.arguments[0].shape


def test_a_deep_network_keeps_its_sizes_as_rules(tmp_path):
    steps = "; ".join(
        ["x = torch.nn.functional.max_pool2d(x, 3, 2, 1)", "x = x - x.mean((0, 2, 3), keepdim=True)"] * 5
    )
    problem = problem_of(
        tmp_path, "x='float32[n, 2, h, w]', workloads=[{'n': 4, 'h': 96, 'w': 80}]", f"{steps}; return x"
    )
    graph = read(problem)
    assert len(graph.symbols) == 3


def test_mish_in_parts_is_read_as_one_function():
    def ops(function):
        return [node.op for node in graph_of(function, (6,)).nodes if isinstance(node, Point)]

    assert ops(F.mish) == ["mish"]
    assert ops(lambda x: x * torch.tanh(F.softplus(x))) == ["mish"]
    for other in (
        lambda x: x * torch.tanh(F.softplus(x + 1)),
        lambda x: x * torch.tanh(F.softplus(x, threshold=30)),
        lambda x: (x + 1) * torch.tanh(F.softplus(x)),
    ):
        assert "mish" not in ops(other) and "log1p" in ops(other)
    x = torch.tensor([0.5, -100.0, 25.0, torch.inf, -torch.inf, torch.nan])
    (found,) = interpret(graph_of(F.mish, (6,)), [x])
    assert torch.allclose(found, F.mish(x.double()), equal_nan=True)
