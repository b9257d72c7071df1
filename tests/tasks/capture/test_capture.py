import operator
import subprocess
import sys
import warnings
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from kernelwright.records import ScalarSpec, TensorSpec, Workload
from kernelwright.tasks.capture import UNPACK, Graph, Node, Ref, capture, record_function, recorded, trace


class FakeProblem:
    """As much of a problem as capture needs."""

    def __init__(self, reference: Callable[..., object]) -> None:
        self._reference = reference

    def reference(self, workload: Workload) -> Callable[..., object]:
        return self._reference

    def inputs(self, workload: Workload, seed: int) -> list[object]:
        generator = torch.Generator().manual_seed(seed)
        return [
            a.value
            if isinstance(a, ScalarSpec)
            else torch.randn(a.shape, generator=generator).to(getattr(torch, a.dtype))
            for a in workload.arguments
        ]


def graph_of(reference: Callable[..., object], *arguments: TensorSpec | ScalarSpec) -> Graph:
    return capture(FakeProblem(reference), Workload(name="w", arguments=arguments))


def tensor(name: str, *shape: int, dtype: str = "float32", layout: str = "contiguous") -> TensorSpec:
    return TensorSpec(name=name, shape=shape, dtype=dtype, layout=layout)


def ops(graph: Graph) -> list[str]:
    return [node.op.removeprefix("aten.") for node in graph.ops]


def test_text_names_the_tasks_own_arguments() -> None:
    graph = graph_of(lambda x, y: torch.softmax(x + y, -1), tensor("x", 2, 3), tensor("y", 3))
    assert str(graph) == (
        "x: float32[2, 3] = input\n"
        "y: float32[3] = input\n"
        "add: float32[2, 3] = aten.add.Tensor(x, y)\n"
        "softmax: float32[2, 3] = aten._softmax.default(add, -1, False)\n"
        "return softmax"
    )
    assert graph.how == "export"


@pytest.mark.parametrize(
    ("reference", "shapes", "expected"),
    [
        (lambda x: F.log_softmax(x, 1), [(4, 6)], ["_log_softmax.default"]),
        (lambda x, w: F.layer_norm(x, (6,), w), [(4, 6), (6,)], ["native_layer_norm.default"]),
        (lambda x: F.group_norm(x, 2), [(2, 6, 5)], ["native_group_norm.default"]),
        (lambda x, w: F.conv2d(x, w), [(1, 3, 8, 8), (4, 3, 3, 3)], ["convolution.default"]),
        (lambda x: F.max_pool2d(x, 2), [(1, 3, 8, 8)], ["max_pool2d_with_indices.default"]),
        (lambda x: torch.cumsum(x, 1), [(4, 6)], ["cumsum.default"]),
        (lambda x: torch.logsumexp(x, 1), [(4, 6)], ["logsumexp.default"]),
        (lambda a, b: torch.tril(a @ b), [(4, 4), (4, 4)], ["mm.default", "tril.default"]),
        (lambda x: F.silu(x), [(4, 6)], ["sigmoid.default", "mul.Tensor"]),
        (
            lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True),
            [(1, 2, 4, 8)],
            ["scaled_dot_product_attention.default"],
        ),
    ],
)
def test_structured_ops_stay_whole(
    reference: Callable[..., object], shapes: list[tuple[int, ...]], expected: list[str]
) -> None:
    graph = graph_of(reference, *(tensor(f"a{i}", *shape) for i, shape in enumerate(shapes)))
    assert ops(graph) == expected


def test_rms_norm_has_one_form_however_it_is_written() -> None:
    def by_hand(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w

    arguments = (tensor("x", 4, 8), tensor("w", 8))
    library = graph_of(lambda x, w: F.rms_norm(x, (8,), w, 1e-6), *arguments)
    assert [n.op.split(".")[1] for n in library.ops] == ["pow", "mean", "add", "rsqrt", "mul", "mul"]
    assert [n.op.split(".")[1] for n in graph_of(by_hand, *arguments).ops] == [
        n.op.split(".")[1] for n in library.ops
    ]


def test_state_has_the_names_and_order_of_the_state_dictionary() -> None:
    module = nn.Sequential(nn.Linear(4, 5), nn.ReLU(inplace=True), nn.LayerNorm(5))
    graph = graph_of(module, tensor("x", 3, 4))
    assert graph.state == tuple(module.state_dict())
    assert graph.node("0.weight").shape == (5, 4)
    assert ops(graph) == ["permute.default", "addmm.default", "relu.default", "native_layer_norm.default"]
    assert graph.mutations == ()


def test_tied_weights_are_read_each_under_its_own_name() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.into, self.out = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
            self.out.weight = self.into.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.out(self.into(x))

    x = tensor("x", 4, dtype="int64")
    for graph in (
        graph_of(Tied(), x),
        record_function(Tied(), Workload(name="w", arguments=(x,)), [torch.arange(4)]),
        trace(FakeProblem(Tied()), Workload(name="w", arguments=(x,))),
    ):
        assert graph.state == ("into.weight", "out.weight")
        read = {ref for node in graph.ops for ref in node.refs()}
        assert {"into.weight", "out.weight"} <= read or graph.how == "export"


def test_unused_state_is_kept_and_dead_code_is_not() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.unused = nn.Parameter(torch.ones(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            torch.exp(x)
            return x.view(2, 3) + 1

    graph = graph_of(Model(), tensor("x", 2, 3))
    assert graph.state == ("unused",)
    assert ops(graph) == ["add.Tensor"]
    assert graph.users("unused") == ()


def test_batch_norm_in_training_shows_what_it_changes() -> None:
    graph = graph_of(nn.BatchNorm1d(5), tensor("x", 4, 5))
    assert {old for old, _ in graph.mutations} == {"running_mean", "running_var", "num_batches_tracked"}
    assert len(graph.outputs) == 1
    assert graph.node(graph.outputs[0]).shape == (4, 5)


def test_changed_inputs_show() -> None:
    graph = graph_of(lambda x: x.add_(1), tensor("x", 4))
    assert graph.mutations == (("x", "add"),)
    assert graph.outputs == ("add",)


def test_an_operator_in_place_of_another_overload_is_recorded_as_one_that_there_is() -> None:
    """ATen's own code of `stft` calls `transpose_`, whose overload has another name than that of `transpose`."""
    workload = Workload(name="w", arguments=(tensor("x", 2, 64),))
    window = torch.ones(16)
    graph = record_function(
        lambda x: torch.view_as_real(torch.stft(x, 16, window=window, return_complex=True)),
        workload,
        [torch.randn(2, 64)],
    )
    assert "transpose.int" in ops(graph)
    assert all(node.arguments() is not None for node in graph.nodes)


def test_scalars_become_literals_and_keep_their_place() -> None:
    graph = graph_of(
        lambda x, dim, y: torch.cumsum(x, dim) + y,
        tensor("x", 4, 6), ScalarSpec(name="dim", value=1), tensor("y", 6),
    )  # fmt: skip
    assert graph.inputs == ("x", None, "y")
    assert graph.node("cumsum").args == (Ref("x"), 1)


def test_small_constants_keep_their_values() -> None:
    graph = graph_of(lambda x: x * torch.tensor([1.0, 2.0, 3.0]), tensor("x", 2, 3))
    (held,) = (node for node in graph.nodes if node.op == "constant")
    assert dict(held.kwargs)["value"] == (1.0, 2.0, 3.0)
    assert ops(graph) == ["mul.Tensor"]


def test_larger_constants_are_kept_as_text_up_to_a_limit() -> None:
    mask, table = torch.randn(65, 65).gt(0), torch.randn(65, 65).bfloat16()
    large = torch.zeros((1 << 24) + 1, dtype=torch.uint8)
    graph = graph_of(lambda x: torch.where(mask, x + table, large[:65]), tensor("x", 65, 65))
    kept = {node.dtype: dict(node.kwargs) for node in graph.nodes if node.op == "constant"}
    assert kept.pop("uint8") == {}
    scope: dict[str, object] = {"torch": torch}
    lines = [f"{dtype} = {values['packed']}" for dtype, values in kept.items()]
    exec("\n".join([UNPACK, *lines]), scope)
    assert torch.equal(scope["bool"], mask) and torch.equal(scope["bfloat16"], table)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [65, 4])
def test_constants_of_a_module_are_traced_with_their_values(size: int) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.register_buffer("table", torch.randn(size, size), persistent=False)
            self.scales = torch.randn(size, size)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.scales + self.table

    class Made(FakeProblem):
        def reference(self, workload: Workload) -> Callable[..., object]:
            return Model()

    workload = Workload(name="w", arguments=(tensor("x", size, size),))
    found, wanted = (how(Made(Model()), workload) for how in (trace, capture))
    assert (found.how, wanted.how, ops(found)) == ("trace", "export", ops(wanted))
    held = [sorted(str(n.kwargs) for n in graph.nodes if n.op == "constant") for graph in (found, wanted)]
    assert len(held[0]) == 2 and held[0] == held[1]


def test_several_results_go_through_getitem() -> None:
    graph = graph_of(lambda x: {"v": x.sort(-1), "x": x}, tensor("x", 4, 6))
    assert [graph.node(name).op for name in graph.outputs] == ["getitem", "getitem", "input"]
    assert graph.node(graph.outputs[1]).dtype == "int64"
    assert graph.node("sort").dtype == "tuple"


def test_signature_ignores_sizes_and_sees_dataflow() -> None:
    def reference(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x - y).view(-1).exp()

    small = graph_of(reference, tensor("x", 2, 3), tensor("y", 2, 3))
    large = graph_of(reference, tensor("x", 20, 30), tensor("y", 20, 30))
    swapped = graph_of(lambda x, y: reference(y, x), tensor("x", 2, 3), tensor("y", 2, 3))
    assert small.signature() == large.signature() != swapped.signature()


def test_control_flow_on_values_is_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    def reference(x: torch.Tensor) -> torch.Tensor:
        x = x.clone()
        x[0] = 0
        return torch.softmax(x, -1) if x.sum() > -1e9 else x

    graph = graph_of(reference, tensor("x", 4, 6))
    assert graph.how == "dispatch"
    assert "_softmax.default" in ops(graph)
    assert "select_scatter.default" in ops(graph), "the change in place must be in the dataflow"
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("change", "op"),
    [
        (operator.iand, "bitwise_and"),
        (operator.ior, "bitwise_or"),
        (operator.ixor, "bitwise_xor"),
        (operator.ilshift, "bitwise_left_shift"),
        (operator.irshift, "bitwise_right_shift"),
    ],
)
def test_an_operator_in_place_on_a_slice_is_recorded(change: Callable[..., object], op: str) -> None:
    def reference(x: torch.Tensor) -> torch.Tensor:
        kept = torch.ones(4, dtype=torch.int32)
        kept[1:] = change(kept[1:], (x[1:] > 0).int())
        return kept if x.sum() > -1e9 else kept + 1

    graph = graph_of(reference, tensor("x", 4))
    assert graph.how == "dispatch"
    assert {f"{op}.Tensor", "slice_scatter.default"} <= set(ops(graph))


class Squared(torch.autograd.Function):
    """A function as they were written before `setup_context`."""

    @staticmethod
    def forward(ctx, x, times):
        ctx.save_for_backward(x)
        ctx.again = any(ctx.needs_input_grad)
        return x * x * times

    @staticmethod
    def backward(ctx, given):
        (x,) = ctx.saved_tensors
        return 6 * x * given, None


def test_a_function_with_a_backward_of_its_own_is_recorded_forward() -> None:
    x = tensor("x", 2, 3)
    workload = Workload(name="w", arguments=(x,))
    graph = record_function(lambda x: Squared.apply(x, 3.0), workload, [torch.ones(2, 3)])
    assert [node.op for node in graph.ops] == ["aten.mul.Tensor", "aten.mul.Tensor"]
    y = torch.full((2,), 2.0, requires_grad=True)
    Squared.apply(y, 3.0).sum().backward()
    assert y.grad is not None and y.grad.tolist() == [12.0, 12.0]


def test_recording_knows_state_and_mutations() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(6))
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count += 1
            return x * self.scale if bool(x.abs().sum() > 0) else x

    model = Model()
    graph = graph_of(model, tensor("x", 4, 6))
    assert (graph.how, graph.state) == ("dispatch", ("scale", "count"))
    assert [old for old, _ in graph.mutations] == ["count"]
    assert ops(graph) == ["mul.Tensor", "add.Tensor"] or ops(graph) == ["add.Tensor", "mul.Tensor"]
    assert model.count.item() == 0, "capture must not change the reference"


def test_a_tensor_held_beside_the_state_may_be_written_to() -> None:
    class Step(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.held, self.mix = torch.zeros(3, 8), nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.held.copy_(x)
            self.held = torch.tanh(self.mix(self.held))
            return self.held * 2

    for find in (capture, trace):
        graph = find(FakeProblem(Step()), Workload(name="w", arguments=(tensor("x", 3, 8),)))
        assert graph.state == ("mix.weight", "mix.bias") and not graph.mutations
        assert {"aten.addmm.default", "aten.tanh.default", "aten.mul.Tensor"} <= {n.op for n in graph.ops}


def test_sizes_that_depend_on_values_are_recorded() -> None:
    graph = graph_of(lambda x: x[x > 0].sum(), tensor("x", 50))
    assert graph.how == "dispatch"
    assert ops(graph)[0] == "gt.Scalar"


@pytest.mark.parametrize("layout", ["transposed", "strided"])
def test_layouts_do_not_change_the_graph(layout: str) -> None:
    graph = graph_of(lambda x: x.exp(), tensor("x", 4, 6, layout=layout))
    assert str(graph).splitlines()[0] == "x: float32[4, 6] = input"


def test_a_problems_graph_is_found_once_for_each_workload() -> None:
    calls = []

    def reference(x: torch.Tensor) -> torch.Tensor:
        calls.append(x.shape)
        return x.exp()

    problem = FakeProblem(reference)
    small, large = (Workload(name="w", arguments=(tensor("x", 3, n),)) for n in (4, 5))
    graphs = [capture(problem, workload) for workload in (small, large, small)]
    assert graphs[0] is graphs[2]
    assert [graph.node("x").shape for graph in graphs] == [(3, 4), (3, 5), (3, 4)]
    assert len(calls) == 2
    assert capture(FakeProblem(reference), small) is not graphs[0], "another problem may run something else"


def test_large_workloads_cost_nothing_and_nobody_is_warned() -> None:
    reference = nn.LSTM(16, 16).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph_of(reference, tensor("x", 3, 2, 16))
        graph = graph_of(lambda x: torch.softmax(x.exp(), -1), tensor("x", 1 << 22, 1 << 20))
    assert graph.how == "export", "no machine has room for sixteen terabytes"


def test_arguments_fill_in_the_schemas_defaults() -> None:
    node = Node("s", "aten.mean.dim", (Ref("x"), (-1,), True), (), (4, 1), "float32")
    assert node.arguments() == {"self": Ref("x"), "dim": (-1,), "keepdim": True, "dtype": None}


def traced(reference: Callable[..., object], *arguments: TensorSpec | ScalarSpec) -> Graph:
    return trace(FakeProblem(reference), Workload(name="w", arguments=arguments))


@pytest.mark.parametrize(
    ("reference", "shape"),
    [
        (lambda x: F.cosine_similarity(x, x.relu_(), dim=1), (4, 6)),
        (lambda x: x.movedim(0, 1).reshape(-1).chunk(3)[1], (4, 6)),
        (nn.BatchNorm1d(6), (4, 6)),
        (nn.BatchNorm1d(6).eval(), (4, 6)),
        (nn.GRUCell(6, 6), (4, 6)),
        (nn.LSTM(6, 5, 2, bidirectional=True), (7, 4, 6)),
    ],
)
def test_a_trace_has_the_operators_and_changes_of_an_export(
    reference: Callable[..., object], shape: tuple[int, ...]
) -> None:
    one, two = (make(reference, tensor("x", *shape)) for make in (traced, graph_of))
    assert (one.how, two.how) == ("trace", "export")

    def bare(graph: Graph) -> list[str]:
        return sorted(op.split(".")[0] for op in ops(graph) if not op.startswith("clamp"))

    assert bare(one) == bare(two)
    assert [old for old, _ in one.mutations] == [old for old, _ in two.mutations]
    assert one.node(one.outputs[0]).shape == two.node(two.outputs[0]).shape


def test_recurrent_layers_stay_whole() -> None:
    long, shown = tensor("x", 3, 512, 6), {}
    for layer in (
        nn.LSTM(6, 5, batch_first=True),
        nn.GRU(6, 5, batch_first=True),
        nn.RNN(6, 5, batch_first=True),
    ):
        recorded = record_function(
            lambda x, f=layer: f(x)[0], Workload(name="w", arguments=(long,)), [torch.ones(3, 512, 6)]
        )
        graph = traced(lambda x, f=layer: f(x)[0], long)
        shown[ops(graph)[-1]] = graph.node(graph.outputs[0]).shape
        assert ops(recorded) == ops(graph)
    assert shown == dict.fromkeys(("lstm.input", "gru.input", "rnn_tanh.input"), (3, 512, 5))


@pytest.mark.parametrize(
    "layer",
    [nn.GRUCell(6, 5), nn.GRU(6, 5, 2, dropout=0.5).train()],
    ids=["a cell", "dropout between layers"],
)
def test_cells_and_random_layers_come_in_parts(layer: nn.Module) -> None:
    assert not any("gru.input" in op for op in ops(traced(layer, tensor("x", 2, 6))))


@pytest.mark.parametrize(
    ("reference", "how"),
    [
        (lambda x: x[x > 0].sum(), "dispatch"),
        (lambda x: x * torch.tensor([1.0, 2.0, 3.0]), "export"),
    ],
)
def test_what_fakes_cannot_say_is_captured(reference: Callable[..., object], how: str) -> None:
    assert traced(reference, tensor("x", 3)).how == how


def test_an_input_may_be_called_as_an_operator_is() -> None:
    table, index = tensor("table", 9, 4), tensor("index", 3, dtype="int64")
    graph = graph_of(lambda table, index: table[index] * 2, table, index)
    assert ops(graph) == ["index.Tensor", "mul.Tensor"]
    assert graph.node("index").op == "input"
    assert [node.name for node in graph.nodes] == ["table", "index", "index_1", "mul"]


class Small(FakeProblem):
    """A problem whose inputs are small, counted where they are drawn."""

    drawn = 0

    def inputs(self, workload: Workload, seed: int) -> list[object]:
        self.drawn += 1
        return super().inputs(workload, seed)


@pytest.mark.parametrize(
    ("reference", "rows", "how"),
    [
        (lambda x: torch.softmax(x, -1) + 1, 4, "dispatch"),
        (lambda x: F.scaled_dot_product_attention(x, x, x), 4, "export"),
        (lambda x: F.dropout(x, 0.5) + 1, 4, "export"),
        (lambda x: torch.softmax(x, -1) + 1, 1 << 19, "export"),
    ],
)
def test_what_is_small_and_not_random_is_recorded_without_a_compiler(
    reference: Callable[..., object], rows: int, how: str
) -> None:
    problem = Small(reference)
    workload = Workload(name="w", arguments=(tensor("x", 1, 2, rows, 8),))
    graph = recorded(problem, workload)
    assert graph.how == how
    assert sorted(ops(graph)) == sorted(ops(capture(problem, workload)))
    assert problem.drawn == (rows == 4)


def test_recording_leaves_torchs_random_state_as_it_was() -> None:
    before = torch.get_rng_state()
    recorded(Small(lambda x: F.dropout(x, 0.5)), Workload(name="w", arguments=(tensor("x", 4),)))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_bound_imports_no_compiler() -> None:
    """It takes a second and more in a fresh process, and an acceptance waits for it."""
    code = (
        "import sys\n"
        "from kernelwright.tasks import Problem, load_task\n"
        "from kernelwright.tasks.capture import recorded\n"
        "problem = Problem(load_task('tests/adversarial/tasks/clip.py'))\n"
        "graph = recorded(problem, problem.task.workloads[0])\n"
        "print(graph.how, 'torch._dynamo' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["dispatch", "False"]
